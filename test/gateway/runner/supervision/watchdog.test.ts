import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Heartbeat } from '../../../../gateway/runner/protocol/from-runner.ts';
import {
  defaultWatchdogLimits,
  maxStepTimes,
  StepTimes,
  Watchdog,
} from '../../../../gateway/runner/supervision/watchdog.ts';
import { VirtualClock } from '../../../fixtures/virtual-clock.ts';

const maxStepRows = 256;

/** A watchdog over measured steps of stepMs each, or over none if undefined. hasWork: whether its runner has work. */
function watch(stepMs?: number, hasWork = () => false) {
  const clock = new VirtualClock();
  const times = new StepTimes();
  if (stepMs !== undefined) for (let index = 0; index < 100; index += 1) times.add(stepMs);
  const hung: { kind: 'hung' | 'silent'; sentence: string; atMs: number }[] = [];
  const options = { limits: defaultWatchdogLimits, times, maxStepRows, clock, hasWork };
  const watchdog = new Watchdog(options, {
    onHung: (sentence) => hung.push({ kind: 'hung', sentence, atMs: clock.now() }),
    onSilent: (sentence) => hung.push({ kind: 'silent', sentence, atMs: clock.now() }),
  });
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

test('a runner whose heart stops is silent after three seconds', () => {
  const { hung, beat, pass } = watch();
  beat(5, 'idle', () => 0);
  pass(60_000);
  assert.is(hung[0]?.kind, 'silent');
  assert.match(hung[0]?.sentence ?? '', /silent for 3 s/);
  const silentMs = (hung[0]?.atMs ?? 0) - 4000;
  assert.ok(silentMs >= 3000 && silentMs <= 4000, `${silentMs} ms`);
});

test('work without a step is hung after ten seconds, if steps are short', () => {
  const { hung, beat } = watch(50);
  beat(60, 'decode', () => 7);
  assert.is(hung.length, 1);
  assert.is(hung[0]?.kind, 'hung');
  assert.match(hung[0]?.sentence ?? '', /in decode for 10.5 s without finishing step 8/);
});

test('a mixed step that does not end is hung, when it has taken longer than its rows one by one', () => {
  const { hung, beat } = watch(50);
  beat(60, 'mixed', () => 7);
  assert.is(hung[0]?.kind, 'hung');
  assert.match(hung[0]?.sentence ?? '', /in mixed for 13 s without finishing step 8/);
  const unmeasured = watch();
  unmeasured.beat(400, 'mixed', () => 0);
  assert.is(unmeasured.hung.length, 1, 'the first step has its bound, too');
});

test('a runner that says idle while requests are open is hung after ten seconds', () => {
  for (const phase of ['idle', 'loading'] as const) {
    const { hung, beat } = watch(50, () => true);
    beat(60, phase, () => 7);
    assert.is(hung[0]?.kind, 'hung');
    assert.match(
      hung[0]?.sentence ?? '',
      new RegExp(`${phase} for 10.5 s although requests are open, .* step 8`),
    );
  }
});

test('a runner whose requests wait for their grammars is not hung, and one that stops beating there is silent', () => {
  const { hung, beat, pass } = watch(50, () => true);
  beat(600, 'compiling', () => 7);
  assert.is(hung.length, 0);
  pass(60_000);
  assert.is(hung[0]?.kind, 'silent');
});

test('requests that come after a long rest are given their ten seconds', () => {
  let hasWork = false;
  const { hung, beat } = watch(50, () => hasWork);
  beat(3600, 'idle', () => 7);
  hasWork = true;
  beat(9, 'idle', () => 7);
  assert.is(hung.length, 0);
  beat(3, 'idle', () => 7);
  assert.is(hung.length, 1);
});

test('steps are measured in every phase that computes, and not across a rest', () => {
  for (const phase of ['prefill', 'decode', 'mixed'] as const) {
    const { beat, pass, times, watchdog } = watch();
    const step = (number: number) => {
      watchdog.onStep(number);
      beat(1, phase, () => number);
      pass(1000);
    };
    for (let number = 1; number <= 9; number += 1) step(number);
    assert.ok(times.isKnown, phase);
    assert.is(times.meanMs, 2000, 'a heartbeat in between makes it no shorter');
    beat(60, 'idle', () => 9);
    step(10);
    assert.is(times.meanMs, 2000, 'the minute of rest is no step');
  }
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
  // The mean, in which one value of a hundred shows: the hour alone would make it half a minute.
  assert.ok(times.meanMs <= 1000, `and the hour is no step time: ${times.meanMs} ms`);
});

test('zero turns it off; a stopped one is silent', () => {
  for (const isOff of [true, false]) {
    const clock = new VirtualClock();
    const limits = { ...defaultWatchdogLimits, ...(isOff ? { wedgeMs: 0 } : {}) };
    const options = { limits, times: new StepTimes(), maxStepRows, clock, hasWork: () => true };
    const events = { onHung: () => assert.unreachable(), onSilent: () => assert.unreachable() };
    const watchdog = new Watchdog(options, events);
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
