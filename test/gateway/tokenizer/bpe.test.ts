/** How much of a long word is merged before others have their turn. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Steps } from '../../../gateway/ops/long-work.ts';
import { WordMerger } from '../../../gateway/tokenizer/bpe.ts';
import { MergeTable } from '../../../gateway/tokenizer/merge-table.ts';

const test = suite('bpe');

/** A step has 2,048 pairs, and each is looked up three times at most; a quarter for what comes before the first. */
const MOST_LOOKUPS = 4 * 2048;

/** A table of merges that counts what it is asked. */
class CountingTable extends MergeTable {
  numLookups = 0;

  override find(left: number, right: number): number {
    this.numLookups++;
    return super.find(left, right);
  }
}

/** Token n is 2^n letters. */
function doublingTable(numMerges: number): CountingTable {
  const table = new CountingTable(numMerges);
  for (let id = 0; id < numMerges; id++) table.add(id, id, id + 1);
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
    const { most, result, numSteps } = stepped(table, new WordMerger(table).merge(ids));
    assert.ok(result <= length);
    assert.ok(most <= MOST_LOOKUPS, `word ${index}: ${most} look-ups in one of ${numSteps} steps`);
    assert.ok(numSteps >= table.numLookups / MOST_LOOKUPS);
  }
});

test('a short word is merged in one step', () => {
  const table = doublingTable(18);
  const { result, numSteps } = stepped(table, new WordMerger(table).merge(new Int32Array(1024)));
  assert.equal([result, numSteps], [1, 1]);
});

test.run();
