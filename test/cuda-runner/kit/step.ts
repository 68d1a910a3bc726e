import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
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
  /** What the program says: on stdout, and the end of all that it has written. It may throw: the step has failed then. */
  readonly figures?: (stdout: string, output: string) => unknown;
  /** Steps one after the other with the same group run at the same time. */
  readonly group?: string;
  /** The name of the step without which this one cannot run, since it writes its model. */
  readonly needs?: string;
}

/** Of what a program writes, for figures and for the results. The log has all of it. */
const MAX_STDOUT_CHARS = 4 << 20;
const OUTPUT_CHARS = 2000;
/** For the end of a program that was killed. One that waits in the driver may never end. */
const DEATH_SEC = 10;

/** Of the steps that run. */
const processGroups = new Set<number>();

/** Kills the programs of all steps that run. */
export function killSteps(): void {
  for (const group of processGroups) kill(group);
}

function kill(group: number): void {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** Runs a step's program in a process group, which is killed when its time is over. Never rejects. */
export async function runStep(
  step: Step,
  limitSec: number,
  log: WriteStream,
  deathSec = DEATH_SEC,
): Promise<StepResult> {
  const result = { name: step.name, arguments: step.defaults };
  if (step.obstacle !== undefined) return { ...result, status: 'not run', reason: step.obstacle, seconds: 0 };
  const [program, ...rest] = [...step.command, ...step.defaults];
  const write = lineWriter(log, step.group === undefined ? '' : `${step.name}| `);
  log.write(`\n== ${step.name}: ${[program, ...rest].join(' ')}\n`);
  const start = performance.now();
  const child = spawn(program as string, rest, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const { pid } = child;
  if (pid !== undefined) processGroups.add(pid);
  let stdout = '';
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    write(text);
    stdout = (stdout + text).slice(-MAX_STDOUT_CHARS);
    output = (output + text).slice(-OUTPUT_CHARS);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    write(text);
    output = (output + text).slice(-OUTPUT_CHARS);
  });
  let isLate = false;
  const over = new AbortController();
  const late = async (): Promise<End> => {
    await sleep(limitSec * 1000, undefined, { signal: over.signal });
    isLate = true;
    if (pid !== undefined) kill(pid);
    await sleep(deathSec * 1000, undefined, { signal: over.signal });
    return { isStuck: true };
  };
  // When the program has ended, nobody waits for the other one.
  const end = await Promise.race([endOf(child), late().catch((): End => ({}))]);
  over.abort();
  write.end();
  if (pid !== undefined) processGroups.delete(pid);
  const seconds = Math.round(performance.now() - start) / 1000;
  const ended = { ...result, seconds, output };
  if (end.isStuck) {
    for (const stream of [child.stdout, child.stderr]) stream.destroy();
    child.unref();
  }
  if (isLate) {
    const rest = end.isStuck ? `, and had not ended ${deathSec} s later` : '';
    const reason = `It was killed after its limit of ${limitSec.toFixed(1)} s${rest}.`;
    return { ...ended, status: 'timed out', reason };
  }
  try {
    const figures = stdout === '' ? {} : { figures: step.figures?.(stdout, output) };
    if (end.reason === undefined) return { ...ended, ...figures, status: 'passed' };
    return { ...ended, ...figures, status: 'failed', reason: end.reason };
  } catch (error) {
    const reason = end.reason ?? `Its output is not what was expected: ${(error as Error).message}`;
    return { ...ended, status: 'failed', reason };
  }
}

interface End {
  /** Why the program has not succeeded, as a sentence. */
  readonly reason?: string;
  readonly isStuck?: boolean;
}

async function endOf(child: ReturnType<typeof spawn>): Promise<End> {
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    if (code === 0) return {};
    return { reason: signal === null ? `It exited with ${code}.` : `It was ended by ${signal}.` };
  } catch (error) {
    return { reason: `It does not start: ${(error as Error).message}` };
  }
}

/** Writes whole lines, each with a prefix, since the log has those of several programs. */
function lineWriter(log: WriteStream, prefix: string): ((text: string) => void) & { end(): void } {
  if (prefix === '') return Object.assign((text: string) => void log.write(text), { end: () => {} });
  let begun = '';
  const write = (text: string): void => {
    const lines = (begun + text).split('\n');
    begun = lines.pop() ?? '';
    for (const line of lines) log.write(`${prefix}${line}\n`);
  };
  const end = (): void => {
    if (begun !== '') log.write(`${prefix}${begun}\n`);
  };
  return Object.assign(write, { end });
}

export function openLog(path: string): WriteStream {
  return createWriteStream(path, { flags: 'a' });
}
