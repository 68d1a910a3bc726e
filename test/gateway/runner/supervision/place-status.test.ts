import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { LoadLog } from '../../../../gateway/runner/supervision/place-status.ts';

const test = suite('load log');

test('each quarter of a load is said once and in order, however it is reported', () => {
  for (const fractions of [[0, 0.1, 0.25, 0.5, 0.6, 0.75, 0.9, 1], [0, 1], [0, 0.6, 0.3, 1, 1], [1]]) {
    const percents: number[] = [];
    const log = new LoadLog((percent) => percents.push(percent));
    for (const fraction of fractions) log.reached(fraction);
    assert.equal(percents, [0, 25, 50, 75, 100], String(fractions));
  }
});

test('progress not reached is not logged', () => {
  const percents: number[] = [];
  const log = new LoadLog((percent) => percents.push(percent));
  log.reached(0.74);
  assert.equal(percents, [0, 25, 50]);
});

test.run();
