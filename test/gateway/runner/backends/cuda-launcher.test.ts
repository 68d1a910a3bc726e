/** A runner on a device whose memory is still held by a dead runner. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  CudaLauncher,
  maxMemoryWaitMs,
  memoryPollMs,
} from '../../../../gateway/runner/backends/cuda-launcher.ts';
import type { Devices } from '../../../../gateway/runner/backends/devices.ts';
import type { RunnerEvent } from '../../../../gateway/runner/supervision/runner-event.ts';
import { scriptedInfo } from '../../../fixtures/scripted-runner.ts';
import { VirtualClock } from '../../../fixtures/simulation/virtual-clock.ts';
import { deviceReport } from '../../../fixtures/stand-in-runners.ts';

const test = suite('cuda launch');
const held = { ...scriptedInfo, weightsBytes: 800, kvCacheBytes: 200 };

function subject(freeBytes: () => number | string) {
  const clock = new VirtualClock();
  const events: RunnerEvent[] = [];
  let numAsked = 0;
  const ask = async (): Promise<Devices> => {
    numAsked++;
    const free = freeBytes();
    return typeof free === 'string' ? free : deviceReport({ free_bytes: free });
  };
  const log = (event: RunnerEvent) => void events.push(event);
  const launch = new CudaLauncher({
    ...{ command: () => ({ file: '', args: [] }), gpuDevice: 0, inquiry: { ask }, log, clock },
  });
  return { launch, clock, events, numAsked: () => numAsked };
}

/** Fires timers until the promise settles. */
async function settled(promise: Promise<unknown>, clock: VirtualClock): Promise<void> {
  let isOver = false;
  const over = promise.then(() => (isOver = true));
  while (!isOver) {
    await nextTurn();
    clock.ringNext();
  }
  await over;
}

test('the first start, and one after a runner that was never ready, ask nobody', async () => {
  const { launch, numAsked } = subject(() => 0);
  await launch.prepare();
  await launch.prepare();
  assert.is(numAsked(), 0);
});

test('the next runner waits until as much is free as the last one held', async () => {
  let free = 100;
  const { launch, clock, events, numAsked } = subject(() => (free += 300));
  launch.onReady(held);
  await settled(launch.prepare(), clock);
  assert.is(numAsked(), 3);
  assert.is(clock.now(), 2 * memoryPollMs);
  assert.equal(
    events.map(({ event }) => event),
    ['backend_ready'],
  );
});

test('it waits for so long, and not for a device that is gone', async () => {
  const full = subject(() => 0);
  full.launch.onReady(held);
  await settled(full.launch.prepare(), full.clock);
  assert.is(full.clock.now(), maxMemoryWaitMs);
  assert.equal(full.events.at(-1), {
    level: 'warn',
    event: 'device_memory_missing',
    wanted_bytes: 1000,
    free_bytes: 0,
  });
  const gone = subject(() => 'There is none.');
  gone.launch.onReady(held);
  await settled(gone.launch.prepare(), gone.clock);
  assert.is(gone.numAsked(), 1);
  assert.is(await gone.launch.prepare(), undefined, 'the runner itself says that there is none');
});

test('a launcher that is left stops waiting and clears its timer', async () => {
  const { launch, clock } = subject(() => 0);
  launch.onReady(held);
  const prepared = launch.prepare();
  await nextTurn();
  assert.is(clock.numTimers, 1);
  launch.leave();
  await prepared;
  assert.is(clock.numTimers, 0);
});

test('it has no fallback', () => {
  const { launch } = subject(() => 0);
  assert.is(launch.fallback({} as never), undefined);
  assert.equal(launch.status(), { requested: 'cuda', isFallback: false });
});

test.run();
