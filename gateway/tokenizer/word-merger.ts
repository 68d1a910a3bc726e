/**
 * Byte pair encoding of one word (Sennrich et al. 2016): the pair of neighbours with the lowest rank merges first, of equal
 * ranks the leftmost, until no pair merges. A short word is searched again for each merge. A longer word is a linked list with
 * a heap of candidate pairs, so that a word of n symbols always takes O(n log n) steps.
 */
import type { Merges } from './merges.ts';
import { finish, type Steps } from './tokenizer.ts';

/** Heap keys are rank * 2^29 + position. A double represents them exactly for ranks below 2^24. */
const positionRange = 2 ** 29;
export const ranksMax = 2 ** 24;
const none = -1;
const noRank = 0x7fff_ffff;
/** Words of at most this many symbols are merged without a heap. */
const shortSymbols = 24;
/** Longer words get buffers of their own, so that one huge word does not stay in memory. */
const keptSymbols = 4096;
/** The number of pairs of a longer word that are looked at in one step. */
const stepPairs = 2048;

export class WordMerger {
  readonly #merges: Merges;
  readonly #found = new Int32Array(shortSymbols);
  readonly #ranks = new Int32Array(shortSymbols);
  readonly #keptNext = new Int32Array(keptSymbols);
  readonly #keptPrevious = new Int32Array(keptSymbols);
  readonly #keptHeap = new NumberHeap(keptSymbols);

  constructor(merges: Merges) {
    this.#merges = merges;
  }

  /** Whether a word of this many symbols is merged in one step, as by mergeNow(). */
  isShort(length: number): boolean {
    return length <= keptSymbols;
  }

  /** Does the same as merge(), at once. */
  mergeNow(ids: Int32Array, length: number): number {
    return length <= shortSymbols ? this.#mergeShort(ids, length) : finish(this.merge(ids, length));
  }

  /**
   * Merges the symbols of a word, which are the first `length` of `ids`, in place. Returns how many tokens are left at the
   * front of `ids`. A word that is not short takes several steps, and other words may be merged between them.
   */
  *merge(ids: Int32Array, length: number): Steps<number> {
    if (length < 2) return length;
    const isKept = length <= keptSymbols;
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
      // The pair may have changed since it was offered. If its rank is the same nevertheless, it was offered with this key too.
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

  #mergeShort(ids: Int32Array, length: number): number {
    const merges = this.#merges;
    const found = this.#found;
    const ranks = this.#ranks;
    let count = length;
    const look = (at: number): void => {
      const pair = merges.find(ids[at] as number, ids[at + 1] as number);
      found[at] = pair;
      ranks[at] = pair === none ? noRank : merges.rankAt(pair);
    };
    for (let i = 0; i + 1 < count; i++) look(i);
    for (;;) {
      let best = 0;
      let bestRank = noRank;
      for (let i = 0; i + 1 < count; i++) {
        if ((ranks[i] as number) < bestRank) {
          bestRank = ranks[i] as number;
          best = i;
        }
      }
      if (bestRank === noRank) return count;
      ids[best] = merges.mergedAt(found[best] as number);
      count--;
      for (let i = best + 1; i < count; i++) {
        ids[i] = ids[i + 1] as number;
        found[i] = found[i + 1] as number;
        ranks[i] = ranks[i + 1] as number;
      }
      if (best + 1 < count) look(best);
      if (best > 0) look(best - 1);
    }
  }
}

/** A binary min-heap of numbers in one typed array, which grows as needed. */
class NumberHeap {
  #keys: Float64Array;
  #size = 0;

  constructor(capacity: number) {
    this.#keys = new Float64Array(Math.max(capacity, 4));
  }

  push(key: number): void {
    if (this.#size === this.#keys.length) {
      const grown = new Float64Array(this.#keys.length * 2);
      grown.set(this.#keys);
      this.#keys = grown;
    }
    const keys = this.#keys;
    let at = this.#size++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const parentKey = keys[parent] as number;
      if (parentKey <= key) break;
      keys[at] = parentKey;
      at = parent;
    }
    keys[at] = key;
  }

  /** Removes and returns the smallest number; undefined if the heap is empty. */
  pop(): number | undefined {
    if (this.#size === 0) return undefined;
    const keys = this.#keys;
    const smallest = keys[0] as number;
    const last = keys[--this.#size] as number;
    const size = this.#size;
    let at = 0;
    for (let child = 1; child < size; child = 2 * at + 1) {
      if (child + 1 < size && (keys[child + 1] as number) < (keys[child] as number)) child++;
      const childKey = keys[child] as number;
      if (childKey >= last) break;
      keys[at] = childKey;
      at = child;
    }
    keys[at] = last;
    return smallest;
  }
}
