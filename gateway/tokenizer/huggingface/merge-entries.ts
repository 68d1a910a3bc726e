/** Merges as a tokenizer.json has them, each `left right` or both apart, as entries of its vocabulary. */

import { hashOf } from '../byte-hash.ts';
import { ranksMax } from '../word-merger.ts';
import type { JsonBytes, JsonText } from './json-bytes.ts';
import type { TokenEntries } from './token-entries.ts';

export const mergesMax = Math.min(2 ** 22, ranksMax);
const space = 0x20;
const none = -1;
/** Of a merge: the entries of its parts, and of both together; -1 where the vocabulary has none. */
export const mergeInts = 3;

export interface MergeEntries {
  /** mergeInts for each of the first mergesMax merges. */
  readonly entries: Int32Array;
  /** All that the file has. */
  readonly numMerges: number;
  /** Where the array begins in the file. */
  readonly start: number;
}

/** json: where the array begins. Throws TokenizerError or JsonFault. */
export function readMerges(json: JsonBytes, entries: TokenEntries): MergeEntries {
  const start = json.at;
  const reader = new MergeReader(json, entries);
  json.array(() => reader.read());
  return { entries: reader.found, numMerges: reader.numMerges, start };
}

/** For a message: a merge as the file has it. json: where the array begins. */
export function mergeAt(json: JsonBytes, rank: number): unknown {
  let value: unknown;
  let at = 0;
  json.array(() => {
    if (at++ === rank) value = json.value();
    else json.skip();
  });
  return value;
}

class MergeReader {
  readonly #json: JsonBytes;
  readonly #entries: TokenEntries;
  readonly #left: JsonText = { bytes: new Uint8Array(), start: 0, end: 0 };
  readonly #right: JsonText = { bytes: new Uint8Array(), start: 0, end: 0 };
  /** Parts of a merge that is an array; what is no text counts as too many. */
  #numParts = 0;
  /** What two joined the last time: merges mostly come in the order of what they make, so one look is enough for most. */
  #lastJoined = 0;
  found = new Int32Array(2 ** 12 * mergeInts);
  numMerges = 0;

  constructor(json: JsonBytes, entries: TokenEntries) {
    this.#json = json;
    this.#entries = entries;
  }

  /** The next element. */
  read(): void {
    const json = this.#json;
    this.#numParts = 0;
    if (json.startsString) this.#split(json.string());
    else if (json.startsArray) json.array(this.#readPart);
    else json.value();
    const at = this.numMerges++ * mergeInts;
    if (this.numMerges > mergesMax) return;
    if (at === this.found.length) {
      const grown = new Int32Array(at * 2);
      grown.set(this.found);
      this.found = grown;
    }
    if (this.#numParts === 2) this.#find(at);
    else this.found.fill(none, at, at + mergeInts);
  }

  #split({ bytes, start, end }: JsonText): void {
    let at = start;
    while (at < end && bytes[at] !== space) at++;
    if (at === end) return;
    set(this.#left, bytes, start, at);
    set(this.#right, bytes, at + 1, end);
    this.#numParts = 2;
  }

  readonly #readPart = (): void => {
    const json = this.#json;
    if (!json.startsString) {
      json.value();
      this.#numParts = Number.POSITIVE_INFINITY;
      return;
    }
    const { bytes, start, end } = json.string();
    const isFirst = this.#numParts++ === 0;
    // What had escapes lies where the next such string will.
    if (isFirst && bytes !== json.bytes)
      set(this.#left, Uint8Array.from(bytes.subarray(start, end)), 0, end - start);
    else set(isFirst ? this.#left : this.#right, bytes, start, end);
  };

  #find(at: number): void {
    const { found } = this;
    const entries = this.#entries;
    const { bytes: left, start: leftStart, end: leftEnd } = this.#left;
    const { bytes: right, start: rightStart, end: rightEnd } = this.#right;
    const hash = hashOf(left, leftStart, leftEnd);
    found[at] = entries.find(left, leftStart, leftEnd, hash);
    found[at + 1] = entries.find(right, rightStart, rightEnd);
    let joined = this.#lastJoined;
    if (!entries.isJoined(joined, left, leftStart, leftEnd, right, rightStart, rightEnd)) {
      joined++;
      if (!entries.isJoined(joined, left, leftStart, leftEnd, right, rightStart, rightEnd)) {
        const both = Buffer.concat([left.subarray(leftStart, leftEnd), right.subarray(rightStart, rightEnd)]);
        joined = entries.find(both, 0, both.length, hashOf(right, rightStart, rightEnd, hash));
      }
      if (joined !== none) this.#lastJoined = joined;
    }
    found[at + 2] = joined;
  }
}

function set(text: JsonText, bytes: Uint8Array, start: number, end: number): void {
  text.bytes = bytes;
  text.start = start;
  text.end = end;
}
