/**
 * The merges of a BPE vocabulary: (left id, right id) → (rank, merged id). An open-addressing hash table in one typed
 * array, since a Map keyed by pairs would need a boxed key for each of the tens of thousands of merges, and the look-up
 * is the innermost step of encoding.
 */
const slotInts = 4; // left, right, rank, merged
const empty = -1;

export class MergeTable {
  readonly #slots: Int32Array;
  readonly #mask: number;
  #size = 0;

  constructor(numMerges: number) {
    // A power of two at least twice the number of merges: probes stay short, and an empty slot always ends them.
    const numSlots = 2 ** Math.ceil(Math.log2(Math.max(numMerges, 1) * 2));
    this.#slots = new Int32Array(numSlots * slotInts).fill(empty);
    this.#mask = numSlots - 1;
  }

  /** Merges are added in the order of their rank, the first wins. False if the pair is there already. */
  add(left: number, right: number, merged: number): boolean {
    const at = this.#find(left, right);
    if (this.#slots[at] !== empty) return false;
    this.#slots.set([left, right, this.#size++, merged], at);
    return true;
  }

  /** What `rankAt` and `mergedAt` take, or -1 if the pair does not merge. */
  find(left: number, right: number): number {
    const at = this.#find(left, right);
    return this.#slots[at] === empty ? -1 : at;
  }

  /** From 0; the lowest merges first. */
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
