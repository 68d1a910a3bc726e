import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { percentile, slopeOf } from './trend.ts';

const test = suite('trend');

test('a line has its slope and no error; noise has an error that covers it', () => {
  const line = Array.from({ length: 10 }, (_, index) => ({ hours: index / 10, value: 5 + 3 * (index / 10) }));
  const exact = slopeOf(line);
  assert.ok(exact !== undefined && Math.abs(exact.perHour - 3) < 1e-9 && exact.errorPerHour < 1e-6);
  const noisy = slopeOf(line.map(({ hours }, index) => ({ hours, value: index % 2 })));
  assert.ok(noisy !== undefined && Math.abs(noisy.perHour) < 2 * noisy.errorPerHour);
  assert.is(slopeOf(line.slice(0, 2)), undefined);
  assert.is(slopeOf(line.map(({ value }) => ({ hours: 1, value }))), undefined);
});

test('percentiles are values that were there', () => {
  const values = Array.from({ length: 200 }, (_, index) => 200 - index);
  assert.is(percentile(values, 0.5), 100);
  assert.is(percentile(values, 0.99), 198);
  assert.is(percentile([7], 0.99), 7);
  assert.is(percentile([], 0.5), undefined);
});

test.run();
