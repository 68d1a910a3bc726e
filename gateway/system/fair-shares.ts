import type { Caller } from './caller.ts';

export interface QueueItem {
  readonly caller: Caller;
  /** Lower is earlier, among the items of the same caller. */
  readonly priority: number;
  /** What the item takes of the shared resource: not negative, in any unit. */
  readonly cost: number;
}

interface Line<Item> {
  caller: Caller;
  /** What the caller may take without another turn. */
  deficit: number;
  readonly items: { readonly item: Item; readonly order: number }[];
}

export interface Choice<Item> {
  /** Whether the item can be taken now; by default each can. */
  readonly fits?: (item: Item) => boolean;
  /** What a caller has of the resource now. Callers with the least for each share come first; by default all have the same. */
  readonly held?: (caller: Caller) => number;
}

/**
 * A queue that callers share fairly, by deficit round robin: callers take turns, and each turn adds one unit of cost for each
 * share to what the caller may take. So two callers that always have work waiting get work of the same cost, whatever its pieces cost and
 * however many wait. A caller that is alone gets everything. Within a caller the order is that of priority, then of arrival.
 */
export class FairQueue<Item extends QueueItem> {
  readonly #maxItems: number;
  /** By the callers' names. A caller without items has no line. */
  readonly #lines = new Map<string, Line<Item>>();
  readonly #waiting = new Set<Item>();

  /** maxItems: the most that wait at a time. Callers are refused fairly by a SharedLimit, before they come here. */
  constructor(maxItems: number) {
    this.#maxItems = maxItems;
  }

  get size(): number {
    return this.#waiting.size;
  }

  has(item: Item): boolean {
    return this.#waiting.has(item);
  }

  *[Symbol.iterator](): Generator<Item> {
    for (const { items } of [...this.#lines.values()]) for (const { item } of [...items]) yield item;
  }

  /** order: the item's arrival, by which an item that was taken and comes back finds its place. Smaller is earlier. */
  add(item: Item, order: number): void {
    if (this.#waiting.has(item)) throw new Error('an item was added to a queue twice');
    if (this.size >= this.#maxItems) throw new RangeError(`a queue has ${this.#maxItems} items, its limit`);
    const { caller } = item;
    let line = this.#lines.get(caller.name);
    if (line === undefined) {
      line = { caller, deficit: 0, items: [] };
      this.#lines.set(caller.name, line);
    }
    // The caller's shares may have changed since.
    line.caller = caller;
    this.#waiting.add(item);
    const place = line.items.findIndex(
      (other) =>
        item.priority < other.item.priority || (item.priority === other.item.priority && order < other.order),
    );
    line.items.splice(place === -1 ? line.items.length : place, 0, { item, order });
  }

  /** Removes an item that need not be taken any more. Does nothing if it does not wait. */
  delete(item: Item): void {
    if (!this.#waiting.delete(item)) return;
    const line = this.#lines.get(item.caller.name);
    if (line === undefined) return;
    line.items.splice(
      line.items.findIndex((other) => other.item === item),
      1,
    );
    if (line.items.length === 0) this.#lines.delete(item.caller.name);
  }

  /** Takes the next item out of the queue; undefined if none can be taken. */
  take(choice: Choice<Item> = {}): Item | undefined {
    const item = this.peek(choice);
    if (item === undefined) return undefined;
    const line = this.#lines.get(item.caller.name);
    // Who takes what nobody else wants owes nothing for it.
    if (line !== undefined) line.deficit = Math.max(0, line.deficit - item.cost);
    this.delete(item);
    return item;
  }

  /** The item that take() takes next. */
  peek({ fits = () => true, held = () => 0 }: Choice<Item> = {}): Item | undefined {
    const candidates: { readonly line: Line<Item>; readonly item: Item; readonly perShare: number }[] = [];
    for (const line of this.#lines.values()) {
      const found = line.items.find(({ item }) => fits(item));
      const perShare = held(line.caller) / line.caller.shares;
      if (found !== undefined) candidates.push({ line, item: found.item, perShare });
    }
    const least = Math.min(...candidates.map(({ perShare }) => perShare));
    const first = candidates.filter(({ perShare }) => perShare === least);
    if (first.length <= 1) return first[0]?.item;
    // As many rounds at once as it takes until somebody has enough.
    const roundsOf = ({ line, item }: (typeof first)[number]): number =>
      Math.max(0, Math.ceil((item.cost - line.deficit) / line.caller.shares));
    const numRounds = Math.min(...first.map(roundsOf));
    const next = first.find((each) => roundsOf(each) === numRounds);
    for (const each of first) each.line.deficit += numRounds * each.line.caller.shares;
    return next?.item;
  }
}

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
