import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  Breaker,
  crashWindowMs,
  firstOpenMs,
  kindWindowMs,
  maxCrashes,
  maxOpenMs,
} from '../../../../gateway/runner/supervision/breaker.ts';

function breakerAt() {
  const time = { ms: 0 };
  return { time, breaker: new Breaker(() => time.ms) };
}

const test = suite('breaker');

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
