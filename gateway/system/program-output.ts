/** What a program says that is started to say one thing. By Node itself, which tells of a spawn that failed by an error like others. */
import { type ExecFileException, execFile } from 'node:child_process';
import { scrubEnvironment } from './environment.ts';

export interface ProgramLimits {
  readonly timeoutMs: number;
  /** Of either stream. */
  readonly maxBytes: number;
  /** Aborting ends the program. */
  readonly signal?: AbortSignal;
}

export interface ProgramOutput {
  readonly stdout: string;
  readonly stderr: string;
  /** How it ended, without a full stop; undefined: with status 0. */
  readonly fault: string | undefined;
}

/** Runs it in a scrubbed environment until it has ended. Never rejects. */
export function programOutput(
  file: string,
  args: readonly string[],
  { timeoutMs, maxBytes, signal }: ProgramLimits,
): Promise<ProgramOutput> {
  const options = {
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
    maxBuffer: maxBytes,
    env: scrubEnvironment(process.env),
    ...(signal === undefined ? {} : { signal }),
  } as const;
  const faultOf = (error: ExecFileException): string => {
    if (typeof error.code === 'number') return `it ended with status ${error.code}`;
    if (signal?.aborted === true || error.signal === undefined || error.signal === null) return error.message;
    if (error.killed === true) return `it did not answer within ${timeoutMs} ms`;
    return `it was ended by ${error.signal}`;
  };
  return new Promise((resolve) => {
    try {
      const child = execFile(file, args, options, (error, stdout, stderr) => {
        const settle = () => resolve({ stdout, stderr, fault: error === null ? undefined : faultOf(error) });
        // Of one that is given up it is told before it has ended.
        if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) settle();
        else child.once('exit', settle);
      });
      child.stdin?.end();
    } catch (error) {
      resolve({ stdout: '', stderr: '', fault: (error as Error).message });
    }
  });
}
