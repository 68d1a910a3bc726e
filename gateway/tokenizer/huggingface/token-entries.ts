/** Tokens in the order of a file, with their ids. A hash table finds them by the text that the file has. */
import { decodeUtf8, hashOf } from '../packed-texts.ts';
import { TokenizerError } from '../tables.ts';
import { JsonBytes } from './json-bytes.ts';
import { shown } from './schema.ts';

const none = -1;
/** Hash, entry, start and length. A look-up reads only these and the text. */
const slotInts = 4;
const firstLength = 2 ** 12;

export class TokenEntries {
  #bytes = Buffer.alloc(2 ** 16);
  #starts = new Uint32Array(firstLength);
  #ids = new Int32Array(firstLength);
  #slots = new Int32Array(firstLength * slotInts).fill(none);
  length = 0;

  /** Adds a token (UTF-8 from start to end) with its id, or gives an existing token this id. Returns its entry. */
  put(bytes: Uint8Array, start: number, end: number, id: number): number {
    this.#reserve(end - start);
    const hash = hashOf(bytes, start, end);
    const slots = this.#slots;
    const slot = this.#slotOf(hash, bytes, start, end);
    const found = slots[slot + 1] as number;
    const entry = found === none ? this.length : found;
    this.#ids[entry] = id;
    if (found !== none) return entry;
    this.length++;
    const own = this.#bytes;
    const at = this.#starts[entry] as number;
    for (let i = start, to = at; i < end; i++) own[to++] = bytes[i] as number;
    this.#starts[entry + 1] = at + end - start;
    slots[slot] = hash;
    slots[slot + 1] = entry;
    slots[slot + 2] = at;
    slots[slot + 3] = end - start;
    return entry;
  }

  putText(text: string, id: number): number {
    const bytes = Buffer.from(text);
    return this.put(bytes, 0, bytes.length, id);
  }

  /** The entry of a text, or -1. hash: the text's hash by hashOf(). */
  find(bytes: Uint8Array, start: number, end: number, hash = hashOf(bytes, start, end)): number {
    return this.#slots[this.#slotOf(hash, bytes, start, end) + 1] as number;
  }

  findText(text: string): number {
    const bytes = Buffer.from(text);
    return this.find(bytes, 0, bytes.length);
  }

  /** Whether the entry's text equals the two byte ranges together. */
  isJoined(
    entry: number,
    left: Uint8Array,
    leftStart: number,
    leftEnd: number,
    right: Uint8Array,
    rightStart: number,
    rightEnd: number,
  ): boolean {
    if (entry >= this.length) return false;
    let at = this.#starts[entry] as number;
    if (this.lengthOf(entry) !== leftEnd - leftStart + rightEnd - rightStart) return false;
    const own = this.#bytes;
    for (let i = leftStart; i < leftEnd; i++) if (own[at++] !== left[i]) return false;
    for (let i = rightStart; i < rightEnd; i++) if (own[at++] !== right[i]) return false;
    return true;
  }

  idOf(entry: number): number {
    return this.#ids[entry] as number;
  }

  setId(entry: number, id: number): void {
    this.#ids[entry] = id;
  }

  lengthOf(entry: number): number {
    return (this.#starts[entry + 1] as number) - (this.#starts[entry] as number);
  }

  textOf(entry: number): string {
    return decodeUtf8(this.#bytes, this.#starts[entry] as number, this.#starts[entry + 1] as number);
  }

  /** Copies the text of an entry to `target` and returns its number of bytes. */
  copyTo(entry: number, target: Uint8Array, at: number): number {
    const start = this.#starts[entry] as number;
    const length = this.lengthOf(entry);
    const own = this.#bytes;
    for (let i = 0; i < length; i++) target[at + i] = own[start + i] as number;
    return length;
  }

  /** The slot of the entry with this text, or the empty slot where it belongs. */
  #slotOf(hash: number, bytes: Uint8Array, start: number, end: number): number {
    const slots = this.#slots;
    const own = this.#bytes;
    const mask = slots.length - 1;
    const length = end - start;
    for (let slot = firstSlotOf(hash, mask); ; slot = (slot + slotInts) & mask) {
      if (slots[slot + 1] === none) return slot;
      if (slots[slot] !== hash || slots[slot + 3] !== length) continue;
      const from = (slots[slot + 2] as number) - start;
      let i = start;
      while (i < end && own[from + i] === bytes[i]) i++;
      if (i === end) return slot;
    }
  }

  /** Makes room for one more entry of this many bytes. */
  #reserve(numBytes: number): void {
    const needed = (this.#starts[this.length] as number) + numBytes;
    if (needed > this.#bytes.length) {
      const grown = Buffer.alloc(needed * 2);
      this.#bytes.copy(grown);
      this.#bytes = grown;
    }
    // At least a quarter of the slots stays empty, so that probes are short and end.
    if (this.length + 2 <= this.#starts.length * 0.75) return;
    const length = this.#starts.length * 2;
    const starts = new Uint32Array(length);
    const ids = new Int32Array(length);
    starts.set(this.#starts);
    ids.set(this.#ids);
    this.#starts = starts;
    this.#ids = ids;
    const from = this.#slots;
    const slots = new Int32Array(length * slotInts).fill(none);
    const mask = slots.length - 1;
    for (let at = 0; at < from.length; at += slotInts) {
      if (from[at + 1] === none) continue;
      let slot = firstSlotOf(from[at] as number, mask);
      while (slots[slot + 1] !== none) slot = (slot + slotInts) & mask;
      for (let i = 0; i < slotInts; i++) slots[slot + i] = from[at + i] as number;
    }
    this.#slots = slots;
  }
}

/** mask: the length of the slots' array minus 1. */
function firstSlotOf(hash: number, mask: number): number {
  return ((hash ^ (hash >>> 15)) * slotInts) & mask;
}

/** The most tokens of a vocabulary. All ids are smaller than this. */
export const tokensMax = 2 ** 20;

/** Tokens whose ids are their places in a list, and the score of each. */
export interface ScoredEntries {
  readonly entries: TokenEntries;
  readonly scores: Float64Array;
}

/**
 * Reads the vocabulary of Unigram in a tokenizer.json: a list of tokens with their scores. json: at the beginning of the list.
 * Throws TokenizerError or JsonFault.
 */
export function readScores(json: JsonBytes): ScoredEntries {
  const entries = new TokenEntries();
  const scores: number[] = [];
  json.array(() => {
    const { at } = json;
    const id = scores.length;
    let numMembers = 0;
    if (json.startsArray)
      json.array(() => {
        if (numMembers === 0 && json.startsString) {
          const { bytes, start, end } = json.string();
          entries.put(bytes, start, end, id);
        } else if (numMembers === 1) scores.push(json.value() as number);
        else json.skip();
        numMembers++;
      });
    else json.skip();
    if (numMembers !== 2 || entries.length !== scores.length || !Number.isFinite(scores[id])) {
      const shownEntry = shown(new JsonBytes(json.bytes, at).value());
      throw new TokenizerError(
        `the entry ${id} of its vocabulary, ${shownEntry}, is not a token that occurs once and its score`,
      );
    }
    if (scores.length > tokensMax) throw tooManyTokens();
  });
  return { entries, scores: Float64Array.from(scores) };
}

function tooManyTokens(): TokenizerError {
  return new TokenizerError(
    `its vocabulary has more than ${tokensMax} tokens, which are the most that are allowed`,
  );
}

/**
 * Reads the vocabulary of a tokenizer.json: an object of tokens and their ids. json: at the beginning of the object. Throws
 * TokenizerError or JsonFault.
 */
export function readVocab(json: JsonBytes): TokenEntries {
  const entries = new TokenEntries();
  /** For each entry with an invalid id: the place of that id in the file. A later id of the same token may be valid. */
  const faults = new Map<number, number>();
  json.object((token) => {
    const entry = entries.put(token.bytes, token.start, token.end, none);
    if (entry === tokensMax) throw tooManyTokens();
    if (faults.size > 0) faults.delete(entry);
    const { at } = json;
    const small = json.smallNumber();
    const id = small === none ? json.value() : small;
    if (typeof id === 'number' && Number.isInteger(id) && id >= 0 && id < tokensMax) entries.setId(entry, id);
    else faults.set(entry, at);
  });
  for (const [entry, at] of faults)
    throw new TokenizerError(
      `its token ${shown(entries.textOf(entry))} has the id ${shown(new JsonBytes(json.bytes, at).value())}; ids are integers from 0 to ${tokensMax - 1}`,
    );
  return entries;
}
