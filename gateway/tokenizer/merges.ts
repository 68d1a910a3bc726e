import type { PackedTexts, TextIndex } from './packed-texts.ts';

/**
 * Which neighbours merge: (left id, right id) → (rank, merged id). An open-addressing hash table in one typed array. A Map would need a
 * boxed key for each of the hundreds of thousands of merges, and this look-up is the innermost step of encoding.
 */
const slotInts = 4; // left, right, rank, merged
const empty = -1;

/** The merges that a WordMerger uses. */
export interface Merges {
  /** Returns the argument for `rankAt` and `mergedAt`, or -1 if the pair does not merge. */
  find(left: number, right: number): number;
  /** The rank from 0. The lowest rank merges first. */
  rankAt(at: number): number;
  mergedAt(at: number): number;
}

/** Slots for this many merges: a power of two, at least twice as many, so that probes stay short and an empty slot ends them. */
export function newMergeSlots(numMerges: number): Int32Array {
  return new Int32Array(2 ** Math.ceil(Math.log2(Math.max(numMerges, 1) * 2)) * slotInts).fill(empty);
}

export class MergeTable implements Merges {
  readonly #slots: Int32Array;
  readonly #mask: number;

  /** slots: made by newMergeSlots(). */
  constructor(slots: Int32Array) {
    this.#slots = slots;
    this.#mask = slots.length / slotInts - 1;
  }

  /** Returns false if the pair is already in the table. */
  add(left: number, right: number, rank: number, merged: number): boolean {
    const at = this.#find(left, right);
    const slots = this.#slots;
    if (slots[at] !== empty) return false;
    slots[at] = left;
    slots[at + 1] = right;
    slots[at + 2] = rank;
    slots[at + 3] = merged;
    return true;
  }

  find(left: number, right: number): number {
    const at = this.#find(left, right);
    return this.#slots[at] === empty ? -1 : at;
  }

  rankAt(at: number): number {
    return this.#slots[at + 2] ?? empty;
  }

  mergedAt(at: number): number {
    return this.#slots[at + 3] ?? empty;
  }

  #find(left: number, right: number): number {
    let slot = Math.imul(Math.imul(left, 0x9e3779b1) ^ right, 0x85ebca6b);
    slot = (slot ^ (slot >>> 15)) & this.#mask;
    for (;;) {
      const at = slot * slotInts;
      const found = this.#slots[at];
      if (found === empty || (found === left && this.#slots[at + 1] === right)) return at;
      slot = (slot + 1) & this.#mask;
    }
  }
}

/** The rank of each token by its score. Equal scores have the same rank. */
export function ranksOf(scores: Float32Array): Int32Array {
  const ranks = new Int32Array(scores.length);
  const sorted = Float32Array.from(scores).sort();
  const distinct = sorted.filter((score, index) => index === 0 || score !== sorted[index - 1]);
  for (const [id, score] of scores.entries()) {
    let low = 0;
    let high = distinct.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((distinct[middle] as number) < score) low = middle + 1;
      else high = middle;
    }
    ranks[id] = distinct.length - 1 - low;
  }
  return ranks;
}

/**
 * The merges of a SentencePiece vocabulary, which does not list any: two symbols merge if a token is written like both
 * together, and the token with the highest score merges first. Characters without a token take part as symbols of their own.
 */
export class ScoreMergeFinder implements Merges {
  readonly #texts: PackedTexts;
  readonly #index: TextIndex;
  readonly #ranks: Int32Array;
  /** Buffers for the UTF-8 bytes of characters without a token. */
  readonly #left = Buffer.alloc(4);
  readonly #right = Buffer.alloc(4);

  constructor(texts: PackedTexts, index: TextIndex, ranks: Int32Array) {
    this.#texts = texts;
    this.#index = index;
    this.#ranks = ranks;
  }

  /** Returns the id of the merged token, or -1. A symbol is an id, or ~ of the code point of a character without a token. */
  find(left: number, right: number): number {
    const { bytes, starts } = this.#texts;
    let leftBytes = bytes;
    let leftStart = 0;
    let leftEnd = 0;
    if (left < 0) {
      leftBytes = this.#left;
      leftEnd = this.#left.write(String.fromCodePoint(~left));
    } else {
      leftStart = starts[left] as number;
      leftEnd = starts[left + 1] as number;
    }
    if (right < 0) {
      const length = this.#right.write(String.fromCodePoint(~right));
      return this.#index.findJoined(leftBytes, leftStart, leftEnd, this.#right, 0, length);
    }
    const rightStart = starts[right] as number;
    return this.#index.findJoined(
      leftBytes,
      leftStart,
      leftEnd,
      bytes,
      rightStart,
      starts[right + 1] as number,
    );
  }

  rankAt(merged: number): number {
    return this.#ranks[merged] as number;
  }

  mergedAt(merged: number): number {
    return merged;
  }
}
