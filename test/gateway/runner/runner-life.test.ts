/** One life, over a process in the test's hands. Whole lives of real processes: recovery.test.ts. */
import { PassThrough } from 'node:stream';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../gateway/runner/clock.ts';
import type { Death } from '../../../gateway/runner/exit-policy.ts';
import type { RunnerExit } from '../../../gateway/runner/process.ts';
import { defaultLifeLimits, RunnerLife } from '../../../gateway/runner/runner-life.ts';
import { StepTimes } from '../../../gateway/runner/step-times.ts';
import { within } from '../../fixtures/within.ts';

function live(oomKills: () => number | undefined) {
  let exit: (exit: RunnerExit) => void = () => {};
  const exited = new Promise<RunnerExit>((resolve) => {
    exit = resolve;
  });
  const stdout = new PassThrough();
  const heard: string[] = [];
  let onDied: (death: Death) => void = () => {};
  const died = new Promise<Death>((resolve) => {
    onDied = resolve;
  });
  const process = {
    pid: 1,
    stdin: new PassThrough(),
    stdout,
    exited,
    outputClosed: new Promise<void>((resolve) => stdout.once('close', resolve)),
    stderrTail: '',
    dropOutput: () => void stdout.destroy(),
    kill: (signal: string) => heard.push(signal),
  };
  const ignore = (): void => {};
  const limits = { ...defaultLifeLimits, exitGraceMs: 20 };
  const support = { spawn: () => process, clock: systemClock, limits, stepTimes: new StepTimes(), oomKills };
  new RunnerLife({ file: 'runner', args: [] }, false, support, {
    onHello: ignore,
    onLoadProgress: ignore,
    onReady: ignore,
    onHeartbeat: ignore,
    onStats: ignore,
    onLetGo: ignore,
    onStderrLine: ignore,
    onLost: () => heard.push('lost'),
    onDied,
  });
  return { exit, died, heard };
}

const killed = { code: undefined, signal: 'SIGKILL', spawnError: undefined };

const test = suite('runner life');

test('the exit is the end, also while a grandchild holds the pipes open, and of what it died is not changed', async () => {
  const { exit, died, heard } = live(() => undefined);
  exit(killed);
  await Promise.resolve();
  assert.equal(heard, ['lost'], 'nobody is given to a runner that is gone');
  const death = await within(5000, 'the death', died);
  assert.equal([death.exit.signal, death.verdict, heard], ['SIGKILL', undefined, ['lost']]);
});

test('the kernel’s own kills are told from others by its count', async () => {
  for (const [counts, isOutOfMemory] of [
    [[4, 5], true],
    [[4, 4], false],
    [[undefined, undefined], false],
  ] as const) {
    let reads = 0;
    const { exit, died } = live(() => counts[reads++]);
    exit(killed);
    assert.is((await within(5000, 'the death', died)).isOutOfMemory, isOutOfMemory);
  }
});

test.run();
