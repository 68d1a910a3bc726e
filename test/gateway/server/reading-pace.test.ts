import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { LEAST_BYTES_PER_SEC, ReadingPace } from '../../../gateway/server/stalled-clients.ts';

const test = suite('reading pace');

const WINDOW_MS = 10_000;
const LEAST_BYTES = (LEAST_BYTES_PER_SEC * WINDOW_MS) / 1000;

/**
 * The number of the check, of ten in a window, at which a client is found too slow. takenBytes: the bytes it has taken
 * at each check.
 */
function foundAt(offeredBytes: (look: number) => number, takenBytes: (look: number) => number): number {
  const pace = new ReadingPace(WINDOW_MS, { offeredBytes: 0, takenBytes: 0 }, 0);
  for (let look = 1; look <= 100; look++) {
    const now = { offeredBytes: offeredBytes(look), takenBytes: takenBytes(look) };
    if (pace.isTooSlow(now, (look * WINDOW_MS) / 10)) return look;
  }
  return Number.POSITIVE_INFINITY;
}

const much = () => 2 ** 24;
const never = Number.POSITIVE_INFINITY;

test('a client that takes nothing is found after a window, a look later at most', () => {
  assert.is(
    foundAt(much, () => 0),
    11,
  );
});

test('a reader of a byte per look is as slow as an idle one', () => {
  assert.is(
    foundAt(much, (look) => look),
    11,
  );
  assert.is(
    foundAt(much, (look) => Math.floor((look * (LEAST_BYTES - 50)) / 10)),
    11,
  );
});

test('a reader at the minimum rate, steady or in bursts, is not slow', () => {
  assert.is(
    foundAt(much, (look) => (look * LEAST_BYTES) / 10),
    never,
  );
  assert.is(
    foundAt(much, (look) => Math.floor(look / 10) * LEAST_BYTES),
    never,
  );
});

test('a reader that takes all available bytes is not slow, however few', () => {
  assert.is(
    foundAt(
      (look) => look * 10,
      (look) => (look - 1) * 10,
    ),
    never,
    'something is always on its way',
  );
  assert.is(
    foundAt(
      () => 0,
      () => 0,
    ),
    never,
    'nothing is there to take',
  );
  const pausing = (look: number) => Math.floor(look / 8) * 100;
  assert.is(
    foundAt((look) => pausing(look) + 100, pausing),
    never,
  );
});

test('a reader that stops is found one window later', () => {
  assert.is(
    foundAt(much, (look) => Math.min(look, 40) * LEAST_BYTES),
    50,
  );
});

test.run();
