import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DeadlineTimer } from '../../../gateway/system/clock.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';

const test = suite('alarms');

function set() {
  const clock = new VirtualClock();
  const rung: string[] = [];
  const begin = clock.now();
  const alarms = new DeadlineTimer<string>(clock, (key, nowMs) => rung.push(`${key} ${nowMs - begin}`));
  return { clock, rung, alarms, at: (key: string, ms: number) => alarms.set(key, begin + ms) };
}

test('each rings once, at its time, by one timer', () => {
  const { clock, rung, at } = set();
  at('c', 30);
  at('a', 10);
  at('b', 20);
  assert.is(clock.numTimers, 1);
  clock.pass(9);
  assert.equal(rung, []);
  clock.pass(11);
  assert.equal(rung, ['a 10', 'b 20']);
  clock.pass(1000);
  assert.equal(rung, ['a 10', 'b 20', 'c 30']);
  assert.is(clock.numTimers, 0, 'no timer is left');
});

test('an alarm rings at its latest time unless deleted; the last removes the timer', () => {
  const { clock, rung, alarms, at } = set();
  at('a', 10);
  at('b', 20);
  at('a', 30);
  alarms.delete('b');
  clock.pass(25);
  assert.equal(rung, []);
  clock.pass(5);
  assert.equal(rung, ['a 30']);
  at('c', 100);
  alarms.delete('c');
  assert.equal([alarms.size, clock.numTimers], [0, 0]);
});

test('a ringing alarm can delete another due then, and set itself again', () => {
  const clock = new VirtualClock();
  const rung: string[] = [];
  const alarms: DeadlineTimer<string> = new DeadlineTimer(clock, (key, nowMs) => {
    rung.push(key);
    alarms.delete('b');
    if (rung.length < 3) alarms.set('a', nowMs + 10);
  });
  for (const key of ['a', 'b']) alarms.set(key, clock.now() + 10);
  clock.pass(100);
  assert.equal(rung, ['a', 'a', 'a']);
});

test('a moment further away than a timer of Node reaches is waited for in parts', () => {
  const { clock, rung, at } = set();
  at('a', 2 ** 32);
  assert.ok((clock.nextMs ?? Number.POSITIVE_INFINITY) - clock.now() < 2 ** 31);
  clock.pass(2 ** 32 - 1);
  assert.equal(rung, []);
  clock.pass(1);
  assert.equal(rung, [`a ${2 ** 32}`]);
});

test.run();
