import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Ask, byArrivals, byConcurrency, type Sample } from '../../../../gateway/cli/bench/load.ts';
import { PATIENCE_MS, within } from '../../../fixtures/within.ts';

const test = suite('bench load');

const done = (index: number): Sample => ({
  startedMs: index,
  endedMs: index,
  arrivedMs: [],
  numTokens: 0,
  numPromptTokens: undefined,
  failure: undefined,
});

test('the load never exceeds its client count and sends each request once', async () => {
  let numOpen = 0;
  let mostOpen = 0;
  const ask: Ask = async (index) => {
    mostOpen = Math.max(mostOpen, ++numOpen);
    for (let turn = 0; turn <= index % 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    numOpen--;
    return done(index);
  };
  const samples = await byConcurrency(ask, 20, 4);
  assert.is(mostOpen, 4);
  assert.equal(
    samples.map(({ startedMs }) => startedMs),
    Array.from({ length: 20 }, (_, index) => index),
  );
});

test('requests that arrive wait for no answer', async () => {
  const answers: (() => void)[] = [];
  const all = byArrivals(
    (index) => new Promise((resolve) => answers.push(() => resolve(done(index)))),
    [0, 1, 2],
    () => performance.now(),
  );
  await within(
    PATIENCE_MS,
    'All requests',
    (async () => {
      while (answers.length < 3) await new Promise((resolve) => setImmediate(resolve));
    })(),
  );
  for (const answer of answers.reverse()) answer();
  const samples = await all;
  assert.equal(
    samples.map(({ startedMs }) => startedMs),
    [0, 1, 2],
  );
});

test.run();
