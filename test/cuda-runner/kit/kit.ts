import { mkdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { Results, type StepResult } from './results.ts';
import { openLog, runStep, type Step } from './step.ts';

interface How {
  /** The folder of the results. */
  readonly out: string;
  /** What the results are of. */
  readonly about: object;
  /** For all steps together. */
  readonly seconds?: number;
  /** As of runStep. */
  readonly deathSec?: number;
}

/** All steps; or the one of this name with these arguments, if there are any, after the one that it needs. */
export function chosenSteps(
  steps: readonly Step[],
  name: string | undefined,
  args: readonly string[],
): readonly Step[] {
  if (name === undefined) return steps;
  const step = steps.find((each) => each.name === name);
  if (step === undefined) return [];
  const needed = steps.filter((each) => each.name === step.needs);
  return [...needed, args.length === 0 ? step : { ...step, defaults: args }];
}

/** Runs the steps. Returns whether none has failed. */
export async function runSteps(steps: readonly Step[], how: How): Promise<boolean> {
  const { out, about, seconds = Number.POSITIVE_INFINITY, deathSec } = how;
  mkdirSync(out, { recursive: true });
  const results = new Results(join(out, 'results.json'), about);
  const log = openLog(join(out, 'log.txt'));
  const end = performance.now() + seconds * 1000;
  let hasFailed = false;
  const run = async (step: Step): Promise<void> => {
    const leftSec = (end - performance.now()) / 1000;
    const reached = leftSec < 1 ? { ...step, obstacle: 'The time for all steps was over.' } : step;
    const result = await runStep(reached, Math.min(step.limitSec, leftSec), log, deathSec);
    results.add(result);
    hasFailed ||= result.status === 'failed' || result.status === 'timed out';
    report(result);
  };
  for (const group of grouped(steps)) await inLanes(group, run);
  log.end();
  await finished(log);
  return !hasFailed;
}

function report({ name, status, seconds, reason }: StepResult): void {
  const why = reason === undefined ? '' : `: ${reason}`;
  console.log(`${status.padEnd(9)} ${seconds.toFixed(1).padStart(6)} s  ${name}${why}`);
}

/** Steps one after the other that have the same group, together; the others alone. */
function grouped(steps: readonly Step[]): readonly (readonly Step[])[] {
  const groups: Step[][] = [];
  for (const step of steps) {
    const last = groups.at(-1);
    if (step.group !== undefined && last?.[0]?.group === step.group) last.push(step);
    else groups.push([step]);
  }
  return groups;
}

/** As many at a time as there are processors, since all compute on them too. */
async function inLanes(steps: readonly Step[], run: (step: Step) => Promise<void>): Promise<void> {
  const queue = [...steps];
  const lane = async (): Promise<void> => {
    for (let step = queue.shift(); step !== undefined; step = queue.shift()) await run(step);
  };
  await Promise.all(Array.from({ length: Math.min(queue.length, availableParallelism()) }, lane));
}
