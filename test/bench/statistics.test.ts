import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ratioOf, spreadOf, valueAt } from './statistics.ts';

const test = suite('bench statistics');

test('a percentile is a value that came, and that of none is no number', () => {
  assert.is(valueAt([30, 10, 20], 0.5), 20);
  assert.is(valueAt([4, 1, 3, 2], 0.5), 2);
  const hundred = Array.from({ length: 100 }, (_, i) => i + 1);
  assert.is(valueAt(hundred, 0.99), 99);
  assert.equal(spreadOf([3, 1, 2]), { median: 2, min: 1, max: 3 });
  assert.ok(Number.isNaN(valueAt([], 0.5)));
});

test('a ratio is of rounds that were measured one after the other', () => {
  // The machine was half as fast in the second round, for both.
  assert.equal(ratioOf([200, 100, 220], [100, 50, 100]), { median: 2, min: 2, max: 2.2 });
  assert.throws(() => ratioOf([1, 2], [1]), '2 rounds beside 1 are no pairs.');
});

test.run();
