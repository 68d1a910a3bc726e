/** How much of a long word is merged before others have their turn. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { MergeTable, newMergeSlots } from '../../../gateway/tokenizer/merges.ts';
import { finish, type Steps } from '../../../gateway/tokenizer/tokenizer.ts';
import { WordMerger } from '../../../gateway/tokenizer/word-merger.ts';
import { Random } from '../../fixtures/random.ts';

const test = suite('word-merger');

/** A step has 2,048 pairs, each looked up at most three times. The remaining quarter is for the work before the first step. */
const MOST_LOOKUPS = 4 * 2048;

/** A table of merges that counts its look-ups. */
class CountingTable extends MergeTable {
  numLookups = 0;

  override find(left: number, right: number): number {
    this.numLookups++;
    return super.find(left, right);
  }
}

/** A table in which token n is 2^n letters. */
function doublingTable(numMerges: number): CountingTable {
  const table = new CountingTable(newMergeSlots(numMerges));
  for (let id = 0; id < numMerges; id++) table.add(id, id, id, id + 1);
  return table;
}

/** The result, and the most look-ups between two turns of others. */
function stepped(
  table: CountingTable,
  steps: Steps<number>,
): { result: number; most: number; numSteps: number } {
  let most = 0;
  for (let numSteps = 1; ; numSteps++) {
    const before = table.numLookups;
    const next = steps.next();
    most = Math.max(most, table.numLookups - before);
    if (next.done) return { result: next.value, most, numSteps };
  }
}

test('a long word is merged in steps, none of which is long, whatever it says', () => {
  const length = 2 ** 18;
  const words = [
    new Int32Array(length),
    Int32Array.from({ length }, (_, index) => index % 2),
    Int32Array.from({ length }, (_, index) => (index % 3 === 0 ? 1 : 0)),
  ];
  for (const [index, ids] of words.entries()) {
    const table = doublingTable(18);
    const { most, result, numSteps } = stepped(table, new WordMerger(table).merge(ids, ids.length));
    assert.ok(result <= length);
    assert.ok(most <= MOST_LOOKUPS, `word ${index}: ${most} look-ups in one of ${numSteps} steps`);
    assert.ok(numSteps >= table.numLookups / MOST_LOOKUPS);
  }
});

test('a short word is merged in one step', () => {
  const table = doublingTable(18);
  const { result, numSteps } = stepped(table, new WordMerger(table).merge(new Int32Array(1024), 1024));
  assert.equal([result, numSteps], [1, 1]);
});

test('merging equals the definition: always the lowest rank, leftmost', () => {
  const random = new Random();
  for (let run = 0; run < 300; run++) {
    // Any table will do, even one in which a merge has precedence over the merges that make its parts.
    const table = new MergeTable(newMergeSlots(40));
    const merges = new Map<string, { rank: number; merged: number }>();
    for (let rank = 0, merged = 4; rank < 40; rank++) {
      const [left, right] = [random.below(merged), random.below(merged)];
      if (table.add(left, right, merges.size, merged))
        merges.set(`${left} ${right}`, { rank: merges.size, merged: merged++ });
    }
    const ids = Array.from({ length: random.below(60) }, () => random.below(4));
    const merged = Int32Array.from(ids);
    const again = Int32Array.from(ids);
    const merger = new WordMerger(table);
    const count = merger.mergeNow(merged, ids.length);
    const countAgain = finish(merger.merge(again, ids.length));
    const expected = mergeNaively(ids, merges);
    assert.equal([...merged.subarray(0, count)], expected, `at once: seed ${random.seed}, run ${run}`);
    assert.equal([...again.subarray(0, countAgain)], expected, `by a heap: seed ${random.seed}, run ${run}`);
  }
});

function mergeNaively(ids: readonly number[], merges: ReadonlyMap<string, { rank: number; merged: number }>) {
  const left = [...ids];
  for (;;) {
    let best: { at: number; rank: number; merged: number } | undefined;
    for (let at = 0; at + 1 < left.length; at++) {
      const merge = merges.get(`${left[at]} ${left[at + 1]}`);
      if (merge !== undefined && (best === undefined || merge.rank < best.rank)) best = { at, ...merge };
    }
    if (best === undefined) return left;
    left.splice(best.at, 2, best.merged);
  }
}

test.run();
