/**
 * Byte pair encoding of one word: the pair of neighbours with the lowest rank merges first, the leftmost of equals,
 * until no pair merges (Sennrich et al. 2016, over bytes as in GPT-2). Neighbours are a linked list and candidate pairs
 * a heap, so that a word of n bytes takes O(n log n) steps, whatever it says.
 */
import type { Steps } from '../ops/long-work.ts';
import type { MergeTable } from './merge-table.ts';
import { NumberHeap } from './number-heap.ts';

/** Heap keys are rank * 2^29 + position: exact in a double for ranks below 2^24. */
const positionRange = 2 ** 29;
const none = -1;
/** Longer words get buffers of their own, so that one giant does not stay in memory. */
const keptBytes = 4096;
/** Pairs looked at in a step of a longer word. */
const stepPairs = 2048;

export class WordMerger {
  readonly #merges: MergeTable;
  readonly #keptNext = new Int32Array(keptBytes);
  readonly #keptPrevious = new Int32Array(keptBytes);
  readonly #keptHeap = new NumberHeap(keptBytes);

  constructor(merges: MergeTable) {
    this.#merges = merges;
  }

  /**
   * `ids` holds a token for each byte of a word. Merges in place and returns how many tokens are left; they are then
   * at the front of `ids`. A word that has buffers of its own is merged in steps, and others may be merged in between.
   */
  *merge(ids: Int32Array): Steps<number> {
    const length = ids.length;
    if (length < 2) return length;
    const isKept = length <= keptBytes;
    const next = isKept ? this.#keptNext : new Int32Array(length);
    const previous = isKept ? this.#keptPrevious : new Int32Array(length);
    const heap = isKept ? this.#keptHeap : new NumberHeap(length);
    const merges = this.#merges;

    const offer = (left: number, right: number) => {
      const found = merges.find(ids[left] as number, ids[right] as number);
      if (found !== none) heap.push(merges.rankAt(found) * positionRange + left);
    };
    for (let i = 0; i < length; i++) {
      previous[i] = i - 1;
      next[i] = i + 1;
      if (i + 1 < length) offer(i, i + 1);
      if (!isKept && i % stepPairs === 0) yield;
    }
    next[length - 1] = none;

    let numPairs = 0;
    for (let key = heap.pop(); key !== undefined; key = heap.pop()) {
      if (!isKept && ++numPairs % stepPairs === 0) yield;
      const left = key % positionRange;
      const right = next[left] as number;
      if (right === none) continue;
      // The pair may have changed since it was offered. Its rank tells, since each pair has one of its own.
      const found = merges.find(ids[left] as number, ids[right] as number);
      if (found === none || merges.rankAt(found) !== Math.floor(key / positionRange)) continue;

      ids[left] = merges.mergedAt(found);
      const after = next[right] as number;
      next[left] = after;
      next[right] = none; // it is merged away: offers that begin there are stale
      if (after !== none) {
        previous[after] = left;
        offer(left, after);
      }
      const before = previous[left] as number;
      if (before !== none) offer(before, left);
    }

    let count = 0;
    for (let i = 0; i !== none; i = next[i] as number) ids[count++] = ids[i] as number;
    return count;
  }
}
