/**
 * The merges of a SentencePiece vocabulary, which does not list any: two symbols merge if a token is written like both
 * together, and the token with the highest score merges first. Characters without a token take part as symbols of their own.
 */
import type { Merges } from './merge-table.ts';
import type { PackedTexts } from './packed-texts.ts';
import type { TextIndex } from './text-index.ts';

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
