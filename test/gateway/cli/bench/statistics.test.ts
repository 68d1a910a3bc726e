import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { distributionOf, quantile } from '../../../../gateway/cli/bench/level.ts';
import { arrivalsMs, promptOf, uniform } from '../../../../gateway/cli/bench/load.ts';

const test = suite('bench statistics');

test('quantiles lie between neighbours in proportion, as numpy has them', () => {
  assert.is(quantile([7], 0.99), 7);
  assert.is(quantile([1, 2], 0.5), 1.5);
  assert.is(quantile([1, 2, 3, 4], 0.25), 1.75);
  assert.is(quantile([1, 2, 3, 4], 1), 4);
});

test('a distribution sorts by number, leaves its input as it is, and is none of nothing', () => {
  const values = [100, 9, 20, 1000];
  const found = Object.entries(distributionOf(values) ?? {}).map(([name, value]) => [
    name,
    Number(value.toFixed(9)),
  ]);
  assert.equal(Object.fromEntries(found), { mean: 282.25, p50: 60, p90: 730, p99: 973, max: 1000 });
  assert.equal(values, [100, 9, 20, 1000]);
  assert.is(distributionOf([]), undefined);
});

test('a seed gives the same numbers, and they are uniform', () => {
  const first = uniform(7);
  const again = uniform(7);
  const values = Array.from({ length: 10_000 }, first);
  assert.equal(values.slice(0, 10), Array.from({ length: 10 }, again));
  assert.ok(values.every((value) => value >= 0 && value < 1));
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  // The bound is five standard errors of the mean of a uniform distribution.
  assert.ok(Math.abs(mean - 0.5) < 5 / Math.sqrt(12 * values.length), `${mean}`);
});

test('arrivals are a Poisson process: gaps have the mean of the rate, and as large a deviation', () => {
  const count = 10_000;
  const times = arrivalsMs(count, 4, uniform(3));
  const gaps = times.map((at, index) => at - (times[index - 1] ?? 0));
  assert.ok(gaps.every((gap) => gap >= 0));
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / count;
  const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / count);
  assert.ok(Math.abs(mean - 250) < 15, `mean ${mean}`);
  assert.ok(Math.abs(deviation - 250) < 25, `deviation ${deviation}`);
});

test('a prompt has as many words as are asked for, and each is another', () => {
  const random = uniform(1);
  const prompts = Array.from({ length: 20 }, () => promptOf(50, random));
  assert.ok(prompts.every((prompt) => prompt.split(' ').length === 50));
  assert.is(new Set(prompts).size, prompts.length);
});

test.run();
