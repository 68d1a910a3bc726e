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
