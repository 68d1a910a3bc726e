import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { Results } from './results.ts';
import { openLog, runStep, type Step } from './step.ts';

interface How {
  /** The folder of the results. */
  readonly out: string;
  /** What the results are of. */
  readonly about: object;
  /** Replace the usual arguments of each step. */
  readonly args?: readonly string[];
  /** For all steps together. */
  readonly seconds?: number;
}

/** Runs the steps. Returns whether none has failed. */
export async function runSteps(steps: readonly Step[], how: How): Promise<boolean> {
  const { out, about, args, seconds = Number.POSITIVE_INFINITY } = how;
  mkdirSync(out, { recursive: true });
  const results = new Results(join(out, 'results.json'), about);
  const log = openLog(join(out, 'log.txt'));
  const end = performance.now() + seconds * 1000;
  let hasFailed = false;
  for (const step of steps) {
    const leftSec = (end - performance.now()) / 1000;
    const reached = leftSec < 1 ? { ...step, obstacle: 'The time for all steps was over.' } : step;
    const result = await runStep(reached, args, Math.min(step.limitSec, leftSec), log);
    results.add(result);
    hasFailed ||= result.status === 'failed' || result.status === 'timed out';
    const reason = result.reason === undefined ? '' : `: ${result.reason}`;
    console.log(
      `${result.status.padEnd(9)} ${result.seconds.toFixed(1).padStart(6)} s  ${step.name}${reason}`,
    );
  }
  log.end();
  await finished(log);
  return !hasFailed;
}
