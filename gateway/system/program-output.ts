import type { Result } from 'execa';
import { scrubEnvironment, startProgram } from './start-program.ts';

export interface ProgramLimits {
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly signal?: AbortSignal;
}

export interface ProgramOutput {
  readonly stdout: string;
  readonly stderr: string;
  /** How the program failed, without a full stop. Undefined if it ended with status 0. */
  readonly fault: string | undefined;
}

/** Runs the program in a scrubbed environment until it ends. Never rejects. */
export async function programOutput(
  file: string,
  args: readonly string[],
  { timeoutMs, maxBytes, signal }: ProgramLimits,
): Promise<ProgramOutput> {
  let dropping: NodeJS.Timeout | undefined;
  try {
    const child = startProgram(file, args, {
      stdin: 'ignore',
      maxBuffer: maxBytes,
      stripFinalNewline: false,
      extendEnv: false,
      env: scrubEnvironment(process.env),
      reject: false,
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
      ...(signal === undefined ? {} : { cancelSignal: signal }),
    });
    // A process that the program left behind may hold the pipes open for ever.
    dropping = setTimeout(() => {
      child.stdout.destroy();
      child.stderr.destroy();
    }, timeoutMs);
    const result = await child;
    const { stdout = '', stderr = '' } = result;
    return { stdout, stderr, fault: faultOf(result, timeoutMs) };
  } catch (error) {
    return { stdout: '', stderr: '', fault: (error as Error).message };
  } finally {
    clearTimeout(dropping);
  }
}

type Ending = Pick<
  Result<{ reject: false }>,
  'failed' | 'timedOut' | 'exitCode' | 'signal' | 'originalMessage'
>;

function faultOf(ending: Ending, timeoutMs: number): string | undefined {
  const { failed, timedOut, exitCode, signal, originalMessage } = ending;
  if (!failed) return undefined;
  if (timedOut) return `it did not answer within ${timeoutMs} ms`;
  if (originalMessage) return originalMessage;
  return signal === undefined ? `it ended with status ${exitCode}` : `it was ended by ${signal}`;
}
