/** When the CPU computes in place of CUDA, and when the device is checked again. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  AutoBackend,
  firstProbeMs,
  lossWindowMs,
  maxProbeMs,
  memoryMarginBytes,
  quarantineMs,
} from '../../../../gateway/runner/backends/auto-backend.ts';
import type { Devices } from '../../../../gateway/runner/backends/devices.ts';
import type { RunnerEvent } from '../../../../gateway/runner/supervision/runner-event.ts';
import type { LaunchedModel, RunnerLauncher } from '../../../../gateway/runner/supervision/runner-spec.ts';
import { deathBy } from '../../../fixtures/death.ts';
import { scriptedInfo } from '../../../fixtures/scripted-runner.ts';
import { deviceReport } from '../../../fixtures/stand-in-runners.ts';
import { VirtualClock } from '../../../fixtures/virtual-clock.ts';

const test = suite('auto backend');

interface Subject {
  readonly auto: AutoBackend;
  readonly clock: VirtualClock;
  readonly events: RunnerEvent[];
  /** The times at which devices were asked for. */
  readonly asked: number[];
  /** The launches that were to move back to the device. */
  readonly moved: RunnerLauncher[];
  devices: Devices;
  mayMove: boolean;
  /** A runner on the device dies with this code, and then one on the CPU is ready. */
  fail(code: number, readyForMs?: number): void;
  /** Moves the time to the next check, and waits until it is answered. */
  look(): Promise<void>;
}

function subject(): Subject {
  const clock = new VirtualClock();
  const it = {
    clock,
    events: [],
    asked: [],
    moved: [],
    devices: 'No answer.',
    mayMove: true,
  } as unknown as Subject;
  const auto = new AutoBackend({
    command: () => ({ file: 'cuda-runner', args: [] }),
    cpuCommand: () => ({ file: 'cpu-runner', args: [] }),
    gpuDevice: 0,
    inquiry: {
      ask: async () => {
        it.asked.push(clock.now());
        return it.devices;
      },
    },
    log: (event) => it.events.push(event),
    clock,
    moveBack: (launch) => {
      if (it.mayMove) it.moved.push(launch);
      return it.mayMove;
    },
  });
  return Object.assign(it, {
    auto,
    fail: (code: number, readyForMs?: number) => {
      const death = { ...deathBy({ code }), readyForMs };
      assert.is(auto.cuda.fallback?.({ reason: `Status ${code}.`, death }), auto.cpu);
      auto.cpu.onReady?.(scriptedInfo);
    },
    look: async () => {
      assert.ok(clock.ringNext(), 'a look is to come');
      await nextTurn();
    },
  });
}

test('an encoder is computed on the CPU, which is no fallback, whatever the device does; another model on the device', async () => {
  const it = subject();
  it.devices = deviceReport();
  const slotOf = (architecture: string) => {
    return { current: { architecture, contextLength: 512, file: 'f', device: 1n } };
  };
  const launch = await it.auto.cuda.prepare?.(slotOf('bert'));
  assert.is(launch?.command({} as LaunchedModel, undefined).file, 'cpu-runner');
  assert.is(await launch?.prepare?.(slotOf('nomic-bert')), undefined, 'it is kept');
  launch?.onReady?.(scriptedInfo);
  const reason = 'Encoders are computed on the CPU.';
  assert.equal(launch?.status?.(), { requested: 'auto', isFallback: false, reason });
  assert.equal([it.asked, it.events, it.clock.numTimers], [[], [], 0]);
  assert.is(launch?.fallback, undefined);
  assert.is(await launch?.prepare?.(slotOf('llama')), it.auto.cuda, 'its file has been replaced');
  assert.is(await it.auto.cuda.prepare?.(slotOf('llama')), undefined);
});

test('it announces the fallback, looks less and less often, and goes back when the device answers', async () => {
  const it = subject();
  assert.equal(it.auto.cuda.status?.(), { requested: 'auto', isFallback: false });
  it.fail(69);
  assert.equal(it.events, [
    {
      level: 'warn',
      event: 'backend_fallback',
      msg: 'CUDA backend requested but not available, falling back to CPU',
      reason: 'Status 69.',
    },
  ]);
  const status = { requested: 'auto', isFallback: true, reason: 'Status 69.' };
  assert.equal(it.auto.cpu.status?.(), { ...status, looksAgainInMs: firstProbeMs });
  for (let round = 0; round < 8; round++) await it.look();
  const gaps = it.asked.map((time, index) => time - (it.asked[index - 1] ?? 0));
  assert.equal(
    gaps.slice(0, 4),
    [1, 2, 4, 8].map((times) => times * firstProbeMs),
  );
  assert.equal(gaps.slice(-2), [maxProbeMs, maxProbeMs]);
  assert.is(it.auto.cpu.status?.().reason, 'No answer.', 'the newest reason is told');

  it.devices = deviceReport();
  await it.look();
  assert.equal(it.moved, [it.auto.cuda]);
  assert.is(it.clock.numTimers, 0, 'nothing is looked for any more');
  it.auto.cuda.onReady?.(scriptedInfo);
  assert.equal(it.auto.cuda.status?.(), { requested: 'auto', isFallback: false });
  assert.is(it.events.at(-1)?.msg, 'Initialized CUDA device for inference');
});

test('a device that computes wrong tokens is retired: the CPU serves, and the device is not looked for although it answers', () => {
  const it = subject();
  it.devices = deviceReport();
  assert.is(it.auto.cuda.retire?.('A token differs.'), it.auto.cpu);
  it.auto.cpu.onReady?.(scriptedInfo);
  assert.equal(
    it.events.map(({ event, reason }) => [event, reason]),
    [
      ['device_retired', 'A token differs.'],
      ['backend_fallback', 'A token differs.'],
    ],
  );
  assert.equal(it.auto.cpu.status?.(), { requested: 'auto', isFallback: true, reason: 'A token differs.' });
  assert.is(it.clock.numTimers, 0);
});

test('before a runner is started the device is asked: it starts none where it does not answer', async () => {
  const it = subject();
  assert.is(await it.auto.cuda.prepare?.({ current: undefined }), it.auto.cpu);
  assert.is(it.events[0]?.reason, 'No answer.');
  assert.is(it.auto.cuda.status?.().isFallback, true);
  it.devices = deviceReport();
  assert.is(await it.auto.cuda.prepare?.({ current: undefined }), undefined);
});

test('a device that answers and serves nobody is not tried more and more often', async () => {
  const it = subject();
  it.devices = deviceReport();
  it.fail(69);
  for (let round = 0; round < 7; round++) {
    await it.look();
    it.fail(69);
  }
  assert.is(it.moved.length, 7);
  assert.is(it.auto.cpu.status?.().looksAgainInMs, maxProbeMs);
});

test('a device that is lost twice in a while is left alone for long; one that had served for long is not', async () => {
  const it = subject();
  it.devices = deviceReport();
  it.fail(79, 1000);
  await it.look();
  assert.is(it.events.filter(({ event }) => event === 'device_quarantined').length, 0);
  it.fail(79, 1000);
  assert.is(it.events.filter(({ event }) => event === 'device_quarantined').length, 1);
  assert.is(it.auto.cpu.status?.().looksAgainInMs, quarantineMs);
  await it.look();
  assert.is(it.moved.length, 2);
  it.clock.jump(lossWindowMs);
  it.fail(79, lossWindowMs);
  assert.is(it.auto.cpu.status?.().looksAgainInMs, firstProbeMs);
});

test('where the model did not fit, more memory must be free than when it did not', async () => {
  const it = subject();
  const free = (free_bytes: number) => (it.devices = deviceReport({ free_bytes }));
  it.fail(71);
  free(1e9);
  await it.look();
  free(1e9 + memoryMarginBytes - 1);
  await it.look();
  assert.is(it.moved.length, 0);
  free(1e9 + memoryMarginBytes);
  await it.look();
  assert.is(it.moved.length, 1);
});

test('a device whose memory others have taken is left to them', async () => {
  const it = subject();
  it.auto.cuda.onReady?.({ ...scriptedInfo, weightsBytes: 800, kvCacheBytes: 200 });
  it.fail(79, 1000);
  it.devices = deviceReport({ free_bytes: 999 });
  await it.look();
  assert.is(it.auto.cpu.status?.().reason, 'CUDA device 0 has 999 bytes free; the runner needs 1000.');
  it.devices = deviceReport({ free_bytes: 1000 });
  await it.look();
  assert.is(it.moved.length, 1);
});

test('a device is looked at again when the move has to wait', async () => {
  const it = subject();
  it.devices = deviceReport();
  it.mayMove = false;
  it.fail(69);
  await it.look();
  it.mayMove = true;
  await it.look();
  assert.is(it.moved.length, 1);
});

test('a backend that is left stops polling until its runner is ready again', async () => {
  const it = subject();
  it.devices = deviceReport();
  it.fail(69);
  assert.ok(it.clock.ringNext());
  it.auto.cpu.leave?.();
  await nextTurn();
  assert.is(it.moved.length, 0);
  assert.is(it.clock.numTimers, 0);
  assert.is(it.auto.cpu.status?.().looksAgainInMs, undefined);
  it.auto.cpu.onReady?.(scriptedInfo);
  it.auto.cpu.onReady?.(scriptedInfo);
  assert.is(it.clock.numTimers, 1);
});

test.run();
