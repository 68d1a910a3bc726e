import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Heartbeat } from '../../../gateway/runner/messages.ts';
import { maxStepTimes, StepTimes } from '../../../gateway/runner/step-times.ts';
import { defaultWatchdogLimits, Watchdog } from '../../../gateway/runner/watchdog.ts';
import { VirtualClock } from '../../fixtures/simulation/virtual-clock.ts';

const maxStepRows = 256;

/** A watchdog over steps of stepMs that have been measured; undefined: none have. */
function watch(stepMs?: number) {
  const clock = new VirtualClock();
  const times = new StepTimes();
  if (stepMs !== undefined) for (let index = 0; index < 100; index += 1) times.add(stepMs);
  const hung: { sentence: string; atMs: number }[] = [];
  const options = { limits: defaultWatchdogLimits, times, maxStepRows, clock };
  const watchdog = new Watchdog(options, (sentence) => hung.push({ sentence, atMs: clock.now() }));
  return {
    clock,
    hung,
    times,
    watchdog,
    /** Lets time pass, with a heartbeat each second. */
    beat: (seconds: number, phase: Heartbeat['phase'], step: (second: number) => number) => {
      for (let second = 0; second < seconds && hung.length === 0; second += 1) {
        const heartbeat = {
          type: 'heartbeat',
          phase,
          step: step(second),
          numRequests: 1,
          numFreeBlocks: 0,
        } as const;
        watchdog.onHeartbeat(heartbeat);
        pass(clock, 1000, hung);
      }
    },
    pass: (ms: number) => pass(clock, ms, hung),
  };
}

function pass(clock: VirtualClock, ms: number, hung: readonly unknown[]): void {
  let isOver = false;
  clock.after(ms, () => {
    isOver = true;
  });
  while (!isOver && hung.length === 0 && clock.ringNext());
}

const test = suite('watchdog');

test('a runner whose heart stops is hung after three seconds', () => {
  const { hung, beat, pass } = watch();
  beat(5, 'idle', () => 0);
  pass(60_000);
  assert.match(hung[0]?.sentence ?? '', /silent for 3 s/);
  const silentMs = (hung[0]?.atMs ?? 0) - 4000;
  assert.ok(silentMs >= 3000 && silentMs <= 4000, `${silentMs} ms`);
});

test('work without a step is hung after ten seconds, if steps are short', () => {
  const { hung, beat } = watch(50);
  beat(60, 'decode', () => 7);
  assert.is(hung.length, 1);
  assert.match(hung[0]?.sentence ?? '', /in decode for 10.5 s without finishing step 8/);
});

test('loading, waiting and working are not hanging', () => {
  for (const phase of ['loading', 'idle'] as const) {
    const { hung, beat } = watch(50);
    beat(3600, phase, () => 7);
    assert.is(hung.length, 0, phase);
  }
  const { hung, beat } = watch(50);
  beat(3600, 'decode', (second) => Math.floor(second / 9));
  assert.is(hung.length, 0, 'a step in nine seconds is one');
});

test('how long a step may take follows from how long steps take', () => {
  const slow = watch(4000);
  slow.beat(31, 'decode', () => 7);
  assert.is(slow.hung.length, 0, 'eight times as long as most');
  slow.beat(5, 'decode', () => 7);
  assert.is(slow.hung.length, 1);

  const prompt = watch(400);
  prompt.beat(100, 'prefill', () => 7);
  assert.is(prompt.hung.length, 0, 'a chunk of a prompt may take as long as its rows one by one');
  prompt.beat(10, 'prefill', () => 7);
  assert.is(prompt.hung.length, 1);

  const first = watch();
  first.beat(299, 'prefill', () => 0);
  assert.is(first.hung.length, 0, 'nobody knows how long the first steps take');
  first.beat(10, 'prefill', () => 0);
  assert.is(first.hung.length, 1);
});

test('while our own loop is blocked, or the machine sleeps, nothing is held against the runner', () => {
  const { hung, clock, beat, times, watchdog } = watch(50);
  beat(2, 'decode', (second) => second);
  watchdog.onStep(3);
  clock.jump(3_600_000);
  watchdog.onStep(4);
  beat(3, 'decode', (second) => 4 + second);
  assert.is(hung.length, 0);
  assert.ok(times.p99Ms <= 1000, 'and the hour is no step time');
});

test('zero turns it off; a stopped one is silent', () => {
  for (const isOff of [true, false]) {
    const clock = new VirtualClock();
    const limits = { ...defaultWatchdogLimits, ...(isOff ? { wedgeMs: 0 } : {}) };
    const watchdog = new Watchdog({ limits, times: new StepTimes(), maxStepRows, clock }, () =>
      assert.unreachable(),
    );
    if (!isOff) watchdog.stop();
    assert.is(clock.numTimers, 0);
  }
});

test('step times: the last ones count, and their number has a bound', () => {
  const times = new StepTimes();
  assert.not(times.isKnown);
  for (let index = 0; index < maxStepTimes; index += 1) times.add(9000);
  for (let index = 0; index < maxStepTimes; index += 1) times.add(index === 0 ? 500 : 10);
  assert.ok(times.isKnown);
  assert.is(times.p99Ms, 10, 'one of 512 is not one of a hundred');
  assert.ok(times.meanMs > 10 && times.meanMs < 12);
});

test.run();
