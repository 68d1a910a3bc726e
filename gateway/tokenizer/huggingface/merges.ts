/** Turns the merges of a tokenizer.json into a table of ids. */
import { MergeTable, newMergeSlots } from '../merges.ts';
import { hashOf, type PackedTexts, TextIndex } from '../packed-texts.ts';
import { TokenizerError } from '../tables.ts';
import { foundTokens, roles, type Vocabulary } from '../vocabulary.ts';
import { ranksMax } from '../word-merger.ts';
import { JsonBytes, type JsonText } from './json-bytes.ts';
import { shown } from './schema.ts';
import type { TokenEntries } from './token-entries.ts';

const none = -1;

/** Returns the slots of a MergeTable. bytes: the file, for messages. role: the role of each id. Throws TokenizerError. */
export function mergesOf(
  bytes: Buffer,
  merges: MergeEntries,
  entries: TokenEntries,
  role: Uint8Array,
  vocabulary: Vocabulary,
): Int32Array {
  const { entries: found, numMerges, start } = merges;
  if (numMerges > mergesMax)
    throw new TokenizerError(`it has ${numMerges} merges; at most ${mergesMax} are allowed`);
  const slots = newMergeSlots(numMerges);
  const table = new MergeTable(slots);
  const isPlain = plainTokens(role, vocabulary);
  const { texts, isControl } = vocabulary;
  const index = new TextIndex(texts, vocabulary.index);
  const fault = (rank: number, what: string): TokenizerError => {
    const merge = shown(mergeAt(new JsonBytes(bytes, start), rank));
    return new TokenizerError(`merge ${rank}, ${merge}, ${what}`);
  };
  for (let rank = 0; rank < numMerges; rank++) {
    const at = rank * mergeInts;
    const leftEntry = found[at] as number;
    const rightEntry = found[at + 1] as number;
    const bothEntry = found[at + 2] as number;
    if (leftEntry === none || rightEntry === none || bothEntry === none)
      throw fault(rank, 'does not join two tokens into a third');
    const left = entries.idOf(leftEntry);
    const right = entries.idOf(rightEntry);
    let both = entries.idOf(bothEntry);
    if (isPlain[left] === 0 || isPlain[right] === 0 || isPlain[both] === 0) {
      // Text must never become a control token by merging, so merges with control tokens are left out.
      const isLeftOut = isControl[left] === 1 || isControl[right] === 1;
      both = isLeftOut ? none : findJoined(index, texts, left, right);
      if (both === none) continue;
    }
    if (!table.add(left, right, rank, both)) throw fault(rank, 'occurs twice');
  }
  return slots;
}

/**
 * For each id: 1 if the token stands for exactly what it is written with. Two such tokens merge into the token that is written
 * like both together.
 */
function plainTokens(role: Uint8Array, vocabulary: Vocabulary): Uint8Array {
  const isPlain = foundTokens(vocabulary);
  for (let id = 0; id < role.length; id++) if (role[id] !== roles.ordinary) isPlain[id] = 0;
  return isPlain;
}

function findJoined(index: TextIndex, { bytes, starts }: PackedTexts, left: number, right: number): number {
  return index.findJoined(
    bytes,
    starts[left] as number,
    starts[left + 1] as number,
    bytes,
    starts[right] as number,
    starts[right + 1] as number,
  );
}

const mergesMax = Math.min(2 ** 22, ranksMax);
const space = 0x20;
/**
 * The integers of a merge: the entries of its two parts and of their concatenation. -1 stands for a text that the vocabulary
 * lacks.
 */
export const mergeInts = 3;

export interface MergeEntries {
  /** mergeInts integers for each of the first mergesMax merges. */
  readonly entries: Int32Array;
  /** The number of merges in the file. */
  readonly numMerges: number;
  /** The place in the file where the array begins. */
  readonly start: number;
}

/**
 * Reads the merges of a tokenizer.json, written `left right` or as pairs, as entries of its vocabulary. json: at the beginning
 * of the array. Throws TokenizerError or JsonFault.
 */
export function readMerges(json: JsonBytes, entries: TokenEntries): MergeEntries {
  const start = json.at;
  const reader = new MergeReader(json, entries);
  json.array(() => reader.read());
  return { entries: reader.found, numMerges: reader.numMerges, start };
}

/** Reads one merge as the file has it, for a message. json: at the beginning of the array. */
function mergeAt(json: JsonBytes, rank: number): unknown {
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
  /** The number of parts of a merge that is an array. Infinity if an element is not a string. */
  #numParts = 0;
  /**
   * The entry that the last merge made. Most merges come in the order of the entries that they make, so the same or the next
   * entry is usually right.
   */
  #lastJoined = 0;
  found = new Int32Array(2 ** 12 * mergeInts);
  numMerges = 0;

  constructor(json: JsonBytes, entries: TokenEntries) {
    this.#json = json;
    this.#entries = entries;
  }

  /** Reads the next element. */
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
    // A string with escapes lies in a buffer that the next such string overwrites.
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
