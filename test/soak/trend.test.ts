import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Random } from '../fixtures/random.ts';
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

test('a value that wanders has an error that covers where it has wandered to, and a slope there is one, is still found', () => {
  const random = new Random();
  let numFalse = 0;
  let numFound = 0;
  const numSeries = 200;
  for (let series = 0; series < numSeries; series++) {
    let noise = 0;
    const wandering = Array.from({ length: 150 }, (_, index) => {
      noise = 0.8 * noise + (random.below(2001) / 1000 - 1);
      return { hours: index / 360, value: noise };
    });
    const isGrowth = (perHour: number): boolean => {
      const slope = slopeOf(wandering.map(({ hours, value }) => ({ hours, value: value + perHour * hours })));
      return slope !== undefined && slope.perHour - 2 * slope.errorPerHour > 1;
    };
    if (isGrowth(0)) numFalse += 1;
    if (isGrowth(20)) numFound += 1;
  }
  assert.ok(
    numFalse < numSeries / 10,
    `seed ${random.seed}: ${numFalse} of ${numSeries} wanderings are taken for growth`,
  );
  assert.ok(numFound > numSeries * 0.9, `seed ${random.seed}: ${numFound} of ${numSeries} growths are found`);
});

test('percentiles are values that were there', () => {
  const values = Array.from({ length: 200 }, (_, index) => 200 - index);
  assert.is(percentile(values, 0.5), 100);
  assert.is(percentile(values, 0.99), 198);
  assert.is(percentile([7], 0.99), 7);
  assert.is(percentile([], 0.5), undefined);
});

test.run();
