import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { processorMsOf } from '../../../gateway/system/kernel.ts';

const test = suite('process-stat');

test('it matches the processor time that the system reports otherwise', () => {
  const own = (): number => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  };
  const beforeMs = own();
  while (own() - beforeMs < 100);
  const least = own();
  const toldMs = processorMsOf(process.pid);
  // Each of the two counters is exact to a tick of ten milliseconds.
  assert.ok(toldMs !== undefined && toldMs > least - 30 && toldMs < own() + 30, `${toldMs} of ${least}`);
});

test('of a process that is not there nothing is known', () => {
  assert.is(processorMsOf(2 ** 30), undefined);
});

test.run();
