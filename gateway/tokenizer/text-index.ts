/**
 * Finds the token that is written with given bytes: an open-addressing hash table over packed texts, in one array. It
 * has the tokens that text can become, but no control tokens.
 */
import { hashOf, lengthAt, type PackedTexts } from './packed-texts.ts';

const empty = -1;

/** Slots for at most numTexts texts. Half of them stay empty, so that probes are short and end. */
export function newIndexSlots(numTexts: number): Int32Array {
  return new Int32Array(2 ** Math.ceil(Math.log2(Math.max(numTexts, 1) * 2))).fill(empty);
}

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
  ): number {
    const hash = hashOf(right, rightStart, rightEnd, hashOf(left, leftStart, leftEnd));
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
