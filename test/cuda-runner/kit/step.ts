import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import type { StepResult } from './results.ts';

/** One thing that the kit finds out. */
export interface Step {
  readonly name: string;
  readonly limitSec: number;
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** Further arguments, which those of the command line replace. */
  readonly defaults: readonly string[];
  /** Why it cannot run here. */
  readonly obstacle?: string;
  /** What the program's stdout says. It may throw: the step has failed then. */
  readonly figures?: (stdout: string) => unknown;
}

/** Of what a program writes, for figures and for the results. The log has all of it. */
const MAX_STDOUT_CHARS = 4 << 20;
const OUTPUT_CHARS = 2000;

/** Runs a step's program in a process group, which is killed when its time is over. Never rejects. */
export async function runStep(
  step: Step,
  args: readonly string[] | undefined,
  limitSec: number,
  log: WriteStream,
): Promise<StepResult> {
  const used = args ?? step.defaults;
  const result = { name: step.name, arguments: used };
  if (step.obstacle !== undefined) return { ...result, status: 'not run', reason: step.obstacle, seconds: 0 };
  const [program, ...rest] = [...step.command, ...used];
  log.write(`\n== ${step.name}: ${[program, ...rest].join(' ')}\n`);
  const start = performance.now();
  const child = spawn(program as string, rest, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  }, limitSec * 1000);
  let stdout = '';
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    log.write(text);
    stdout = (stdout + text).slice(-MAX_STDOUT_CHARS);
    output = (output + text).slice(-OUTPUT_CHARS);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log.write(text);
    output = (output + text).slice(-OUTPUT_CHARS);
  });
  const end = await endOf(child);
  clearTimeout(timer);
  const seconds = Math.round(performance.now() - start) / 1000;
  const ended = { ...result, seconds, output };
  if (isLate)
    return {
      ...ended,
      status: 'timed out',
      reason: `It was killed after its limit of ${limitSec.toFixed(1)} s.`,
    };
  try {
    const figures = stdout === '' ? {} : { figures: step.figures?.(stdout) };
    if (end === undefined) return { ...ended, ...figures, status: 'passed' };
    return { ...ended, ...figures, status: 'failed', reason: end };
  } catch (error) {
    const reason = end ?? `Its output is not what was expected: ${(error as Error).message}`;
    return { ...ended, status: 'failed', reason };
  }
}

/** Why the program has not succeeded, as a sentence. Undefined: it has. */
async function endOf(child: ReturnType<typeof spawn>): Promise<string | undefined> {
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    if (code === 0) return undefined;
    return signal === null ? `It exited with ${code}.` : `It was ended by ${signal}.`;
  } catch (error) {
    return `It does not start: ${(error as Error).message}`;
  }
}

export function openLog(path: string): WriteStream {
  return createWriteStream(path, { flags: 'a' });
}
