import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  affinityBlockTokens,
  bestRunner,
  maxAffinityBlocks,
  maxKnownBlocks,
  numKnownBlocks,
  prefixHashes,
} from '../../../../gateway/runner/supervision/scheduled-runner.ts';
import { RecentSet } from '../../../../gateway/system/recent-set.ts';
import { requestOf } from '../../../fixtures/requests.ts';

const test = suite('known prefixes');

const ids = (count: number, first = 0): number[] =>
  Array.from({ length: count }, (_, index) => first + index);

function hashesOf(promptIds: readonly number[], cacheSalt = new Uint8Array()): number[] {
  return prefixHashes({ ...requestOf([...promptIds], 1), cacheSalt });
}

test('a block’s hash depends on all earlier tokens and the salt', () => {
  const block = affinityBlockTokens;
  const plain = hashesOf(ids(3 * block + 1));
  assert.is(plain.length, 3, 'whole blocks only');
  assert.equal(hashesOf(ids(2 * block)), plain.slice(0, 2));
  const other = hashesOf([9, ...ids(3 * block - 1, 1)]);
  assert.is(other.filter((hash) => plain.includes(hash)).length, 0);
  assert.is(hashesOf(ids(3 * block), Uint8Array.of(1)).filter((hash) => plain.includes(hash)).length, 0);
  assert.is(hashesOf(ids(2 * maxAffinityBlocks * block)).length, maxAffinityBlocks);
});

test('a runner knows the blocks it was given last, from the first of a prompt on', () => {
  const known = new RecentSet<number>(maxKnownBlocks);
  for (const hash of [1, 2, 3]) known.add(hash);
  assert.equal(
    [[1, 2], [1, 4, 3], [2], []].map((hashes) => numKnownBlocks(known, hashes)),
    [2, 1, 1, 0],
  );
  for (const hash of ids(maxKnownBlocks, 10)) known.add(hash);
  assert.is(numKnownBlocks(known, [1]), 0);
  assert.is(numKnownBlocks(known, ids(maxKnownBlocks, 10)), maxKnownBlocks);
  known.clear();
  assert.is(numKnownBlocks(known, [10]), 0);
});

test('no runner gets more than a quarter above its share, rounded up, whatever it knows', () => {
  const prefixes = new RecentSet<number>(maxKnownBlocks);
  prefixes.add(1);
  const candidate = (load: number, isKnown: boolean) => ({
    load,
    prefixes: isKnown ? prefixes : new RecentSet<number>(1),
  });
  const chosen = (...loads: readonly [number, number]) => {
    const [first, second] = [candidate(loads[0], true), candidate(loads[1], false)];
    return bestRunner([first, second], [1]) === first ? 'known' : 'other';
  };
  assert.equal(
    [chosen(0, 0), chosen(1, 0), chosen(1, 1), chosen(2, 1), chosen(3, 0), chosen(8, 7), chosen(20, 4)],
    ['known', 'known', 'known', 'known', 'other', 'known', 'other'],
  );
  const [busy, free] = [candidate(3, false), candidate(2, false)];
  assert.is(bestRunner([busy, free], [1]), free, 'of equals the one with less to do');
  assert.is(bestRunner([], [1]), undefined);
});

test.run();
