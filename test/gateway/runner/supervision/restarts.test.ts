import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  Backoff,
  Breaker,
  crashWindowMs,
  firstOpenMs,
  kindWindowMs,
  maxCrashes,
  maxOpenMs,
} from '../../../../gateway/runner/supervision/restarts.ts';

const test = suite('restarts');

function backoffAt(random: number) {
  let nowMs = 0;
  const backoff = new Backoff(
    () => nowMs,
    () => random,
  );
  return {
    /** Waits, and returns the delay of the restart. The clock then advances by the delay. */
    die(afterMs: number, healthyForMs = 0): number {
      nowMs += afterMs;
      const delayMs = backoff.nextDelayMs(healthyForMs);
      nowMs += delayMs;
      return delayMs;
    },
  };
}

const middle = 0.5;
test('a burst of five is free, then delays double up to 30 s', () => {
  const { die } = backoffAt(middle);
  const delays = Array.from({ length: 15 }, () => die(10));
  assert.equal(delays, [0, 0, 0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
});

test('jitter is a fifth to either side', () => {
  const delayOfSixth = (random: number) => {
    const { die } = backoffAt(random);
    return Array.from({ length: 6 }, () => die(1))[5];
  };
  assert.is(delayOfSixth(0), 200);
  assert.is(delayOfSixth(1), 300);
});

test('deaths that are far apart are always free', () => {
  const { die } = backoffAt(middle);
  for (let round = 0; round < 20; round += 1) assert.is(die(7000, 7000), 0);
});

test('a long delay does not earn a new burst; a minute of health does', () => {
  const { die } = backoffAt(middle);
  for (let round = 0; round < 14; round += 1) die(1);
  assert.is(die(59_999, 59_999), 30_000);
  assert.is(die(60_000, 60_000), 0);
  for (let round = 0; round < 4; round += 1) die(1);
  assert.is(die(1), 250, 'the burst and the doubling begin anew');
});

function breakerAt() {
  const time = { ms: 0 };
  return { time, breaker: new Breaker(() => time.ms) };
}

test('opens at one crash more than may be within the window', () => {
  const { time, breaker } = breakerAt();
  for (let crash = 0; crash < maxCrashes; crash += 1) breaker.count({ kind: 'SIGSEGV' });
  assert.is(breaker.isOpen, false);
  time.ms = crashWindowMs;
  for (let crash = 0; crash < maxCrashes; crash += 1) breaker.count({ kind: 'SIGABRT' });
  assert.is(breaker.isOpen, false, 'the earlier ones are forgotten');
  breaker.count({ kind: 'hung' });
  assert.is(breaker.isOpen, true);
  assert.is(breaker.trialInMs, firstOpenMs);
  time.ms += firstOpenMs - 1;
  assert.is(breaker.trialInMs, 1);
});

test('kinds with a separate limit open it sooner and are remembered longer', () => {
  const { time, breaker } = breakerAt();
  breaker.count({ kind: 'memory', maxOfKind: 2 });
  breaker.count({ kind: 'memory', maxOfKind: 2 });
  breaker.count({ kind: 'device', maxOfKind: 1 });
  assert.is(breaker.isOpen, false);
  time.ms = kindWindowMs - 1;
  breaker.count({ kind: 'memory', maxOfKind: 2 });
  assert.is(breaker.isOpen, true);
});

test('a trial that fails opens it for twice as long, up to a bound; one that goes well closes it', () => {
  const { breaker } = breakerAt();
  for (let crash = 0; crash <= maxCrashes; crash += 1) breaker.count({ kind: 'SIGSEGV' });
  const waits = Array.from({ length: 5 }, () => {
    breaker.halfOpen();
    assert.equal([breaker.isOpen, breaker.isHalfOpen], [false, true]);
    breaker.count({ kind: 'SIGSEGV' });
    return breaker.trialInMs;
  });
  assert.equal(
    waits,
    [2, 4, 8, 10, 10].map((times) => times * firstOpenMs),
  );
  assert.is(waits.at(-1), maxOpenMs);
  breaker.halfOpen();
  breaker.close();
  breaker.count({ kind: 'SIGSEGV' });
  assert.equal([breaker.isOpen, breaker.isHalfOpen], [false, false]);
});

test('once it has closed, it opens for the shortest time again', () => {
  const { breaker } = breakerAt();
  const open = () => {
    for (let crash = 0; crash <= maxCrashes; crash += 1) breaker.count({ kind: 'SIGSEGV' });
  };
  open();
  breaker.halfOpen();
  breaker.count({ kind: 'SIGSEGV' });
  assert.is(breaker.trialInMs, 2 * firstOpenMs);
  breaker.halfOpen();
  breaker.close();
  open();
  assert.is(breaker.trialInMs, firstOpenMs);
});

test.run();
