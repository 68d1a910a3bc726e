import { isUtf8 } from 'node:buffer';

/**
 * Many byte strings in one block. A vocabulary of a quarter of a million tokens is then two arrays in place of as many objects,
 * and one process can send it to another.
 */
export interface PackedTexts {
  readonly bytes: Uint8Array;
  /** Text i lies from starts[i] to starts[i + 1], so there is one start more than there are texts. */
  readonly starts: Uint32Array;
}

/** Takes texts one after another. Its memory grows as needed. */
export class TextPacker {
  #bytes: Uint8Array;
  readonly #starts: Uint32Array;
  #numTexts = 0;
  #length = 0;

  /** numTexts: the exact number of texts. numBytes: a guess of their size. */
  constructor(numTexts: number, numBytes: number) {
    this.#bytes = new Uint8Array(Math.max(numBytes, 64));
    this.#starts = new Uint32Array(numTexts + 1);
  }

  /** Returns where the next text, of at most mostBytes bytes, may be written. end() then says how many bytes it has. */
  begin(mostBytes: number): { readonly bytes: Uint8Array; readonly at: number } {
    const needed = this.#length + mostBytes;
    if (needed > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
      grown.set(this.#bytes);
      this.#bytes = grown;
    }
    return { bytes: this.#bytes, at: this.#length };
  }

  end(numBytes: number): void {
    this.#length += numBytes;
    this.#starts[++this.#numTexts] = this.#length;
  }

  /** Returns all texts in memory of exactly the needed size. */
  finish(): PackedTexts {
    return { bytes: this.#bytes.slice(0, this.#length), starts: this.#starts };
  }
}

export function packTexts(texts: readonly Uint8Array[]): PackedTexts {
  const packer = new TextPacker(
    texts.length,
    texts.reduce((sum, { length }) => sum + length, 0),
  );
  for (const text of texts) {
    const { bytes, at } = packer.begin(text.length);
    bytes.set(text, at);
    packer.end(text.length);
  }
  return packer.finish();
}

export function lengthAt({ starts }: PackedTexts, index: number): number {
  return (starts[index + 1] as number) - (starts[index] as number);
}

/** A view of the bytes of a text. */
export function bytesAt({ bytes, starts }: PackedTexts, index: number): Uint8Array {
  return bytes.subarray(starts[index], starts[index + 1]);
}

/** Whether a text equals the first `length` bytes of `other`. */
export function isTextAt(texts: PackedTexts, index: number, other: Uint8Array, length: number): boolean {
  const { bytes, starts } = texts;
  if (lengthAt(texts, index) !== length) return false;
  const start = starts[index] as number;
  for (let i = 0; i < length; i++) if (bytes[start + i] !== other[i]) return false;
  return true;
}

export function stringAt({ bytes, starts }: PackedTexts, index: number): string {
  return decodeUtf8(bytes, starts[index] as number, starts[index + 1] as number);
}

/** Decodes bytes that are known to be UTF-8. A byte order mark is kept. */
export function decodeUtf8(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length).toString(
    'utf8',
    start,
    end,
  );
}

/** The index of the first text that is not UTF-8, or -1. */
export function firstInvalidUtf8(texts: PackedTexts): number {
  const { bytes, starts } = texts;
  const numTexts = starts.length - 1;
  // Each text is UTF-8 if all of them together are and none begins in the middle of a character.
  let areWhole = isUtf8(bytes);
  for (let i = 0; i < numTexts && areWhole; i++)
    areWhole = ((bytes[starts[i] as number] ?? 0) & 0xc0) !== 0x80;
  if (areWhole) return -1;
  for (let i = 0; i < numTexts; i++) if (!isUtf8(bytesAt(texts, i))) return i;
  return -1;
}

/** 32-bit FNV-1a, as published by Fowler, Noll and Vo. */
export const hashStart = 0x811c9dc5 | 0;
const hashPrime = 0x01000193;

/** before: the hash of the bytes in front, so that a text can be hashed in parts. */
export function hashOf(bytes: Uint8Array, start: number, end: number, before = hashStart): number {
  let hash = before;
  for (let i = start; i < end; i++) hash = Math.imul(hash ^ (bytes[i] as number), hashPrime);
  return hash;
}

const empty = -1;

/** Slots for at most numTexts texts. Half of them stay empty, so that probes are short and end. */
export function newIndexSlots(numTexts: number): Int32Array {
  return new Int32Array(2 ** Math.ceil(Math.log2(Math.max(numTexts, 1) * 2))).fill(empty);
}

/**
 * Finds the token that is written with given bytes: an open-addressing hash table over packed texts, in one array. It has the
 * tokens that text can become, but no control tokens.
 */
export class TextIndex {
  readonly #texts: PackedTexts;
  readonly #slots: Int32Array;
  readonly #mask: number;

  constructor(texts: PackedTexts, slots: Int32Array) {
    this.#texts = texts;
    this.#slots = slots;
    this.#mask = slots.length - 1;
  }

  /** Adds the text of an id. Returns the id of an equal text if there is one already, else -1. */
  add(id: number): number {
    const { bytes, starts } = this.#texts;
    const slot = this.#find(bytes, starts[id] as number, starts[id + 1] as number, bytes, 0, 0);
    const other = this.#slots[slot] as number;
    if (other === empty) this.#slots[slot] = id;
    return other;
  }

  /** The id of the token written with these bytes, or -1. */
  find(bytes: Uint8Array, start: number, end: number): number {
    return this.#slots[this.#find(bytes, start, end, bytes, 0, 0)] as number;
  }

  /** As find(). hash: that of the bytes, by hashOf(). */
  findHashed(bytes: Uint8Array, start: number, end: number, hash: number): number {
    return this.#slots[this.#find(bytes, start, end, bytes, 0, 0, hash)] as number;
  }

  /** The id of the token written with the left bytes followed by the right ones, or -1. */
  findJoined(
    left: Uint8Array,
    leftStart: number,
    leftEnd: number,
    right: Uint8Array,
    rightStart: number,
    rightEnd: number,
  ): number {
    return this.#slots[this.#find(left, leftStart, leftEnd, right, rightStart, rightEnd)] as number;
  }

  /** The slot of the joined bytes, or the empty slot where they belong. */
  #find(
    left: Uint8Array,
    leftStart: number,
    leftEnd: number,
    right: Uint8Array,
    rightStart: number,
    rightEnd: number,
    hash = hashOf(right, rightStart, rightEnd, hashOf(left, leftStart, leftEnd)),
  ): number {
    const length = leftEnd - leftStart + rightEnd - rightStart;
    let slot = (hash ^ (hash >>> 15)) & this.#mask;
    for (;;) {
      const id = this.#slots[slot] as number;
      if (id === empty) return slot;
      if (lengthAt(this.#texts, id) === length) {
        const { bytes, starts } = this.#texts;
        let at = starts[id] as number;
        let i = leftStart;
        while (i < leftEnd && bytes[at] === left[i]) {
          i++;
          at++;
        }
        if (i === leftEnd) {
          i = rightStart;
          while (i < rightEnd && bytes[at] === right[i]) {
            i++;
            at++;
          }
          if (i === rightEnd) return slot;
        }
      }
      slot = (slot + 1) & this.#mask;
    }
  }
}
