import type { Caller } from './caller.ts';

/**
 * A limit on what callers hold of one resource together. A caller that is alone may hold all of it. When it is all held, a
 * caller that has less than its share still gets the rest of that share, so that nobody can shut others out; what is held may
 * then exceed the limit, up to the ceiling of twice the limit.
 */
export class SharedLimit {
  readonly limit: number;
  /** What is never exceeded. */
  readonly ceiling: number;
  readonly #held = new Map<string, { amount: number; shares: number }>();
  #total = 0;

  constructor(limit: number) {
    this.limit = limit;
    this.ceiling = 2 * limit;
  }

  get total(): number {
    return this.#total;
  }

  heldBy({ name }: Caller): number {
    return this.#held.get(name)?.amount ?? 0;
  }

  get numCallers(): number {
    return this.#held.size;
  }

  /** Whether the caller may hold this much more. others: what else counts against the limit, and is nobody's. */
  hasRoom(caller: Caller, amount: number, others = 0): boolean {
    const wanted = this.#total + others + amount;
    if (wanted <= this.limit) return true;
    if (this.#sharesBeside(caller) === 0 || wanted > this.ceiling) return false;
    return this.heldBy(caller) + amount <= this.shareOf(caller);
  }

  /** What the caller may have of the limit beside the others that hold something now. */
  shareOf(caller: Caller): number {
    return (this.limit * caller.shares) / (caller.shares + this.#sharesBeside(caller));
  }

  #sharesBeside(caller: Caller): number {
    let shares = 0;
    for (const [name, held] of this.#held) if (name !== caller.name) shares += held.shares;
    return shares;
  }

  /** Holds this much more, whether there is room or not. */
  hold({ name, shares }: Caller, amount: number): void {
    if (amount === 0) return;
    this.#total += amount;
    this.#held.set(name, { amount: (this.#held.get(name)?.amount ?? 0) + amount, shares });
  }

  release({ name }: Caller, amount: number): void {
    if (amount === 0) return;
    const held = this.#held.get(name);
    if (held === undefined || held.amount < amount)
      throw new Error('a caller released more of a resource than it held');
    this.#total -= amount;
    held.amount -= amount;
    if (held.amount === 0) this.#held.delete(name);
  }
}
