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
    const nowMs = (look * WINDOW_MS) / 10;
    const now = { offeredBytes: offeredBytes(look), takenBytes: takenBytes(look) };
    const known = { leastTakenBytes: now.takenBytes, beganMs: nowMs, endedMs: nowMs };
    if (pace.isTooSlow({ ...now, ...known })) return look;
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

/**
 * Whether a steady reader at the minimum rate is found too slow. Some looks take ms, and know only what was acknowledged at
 * their beginning; some count bytes as taken that were written meanwhile.
 */
function isFoundByLooks({ ms, bytes }: { readonly ms: number; readonly bytes: number }): boolean {
  const pace = new ReadingPace(WINDOW_MS, { offeredBytes: 2 ** 24, takenBytes: 0 }, 0);
  for (let look = 1; look <= 100; look++) {
    const beganMs = 0.9 * look * WINDOW_MS;
    const leastTakenBytes = 0.9 * look * LEAST_BYTES;
    const takenBytes = leastTakenBytes + (look % 3 === 1 ? bytes : 0);
    const endedMs = beganMs + (look % 2 === 1 ? ms : 0);
    if (pace.isTooSlow({ offeredBytes: 2 ** 24, takenBytes, leastTakenBytes, beganMs, endedMs })) return true;
  }
  return false;
}

test('the time that a look takes, and bytes that are written meanwhile, do not count against a reader', () => {
  assert.not(isFoundByLooks({ ms: WINDOW_MS / 2, bytes: 0 }));
  assert.not(isFoundByLooks({ ms: 0, bytes: 2 ** 20 }));
});

test.run();
