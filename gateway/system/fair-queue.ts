/**
 * A queue that callers share fairly, by deficit round robin: callers take turns, and each turn adds one unit of cost for each
 * share to what the caller may take. So two callers that always have work waiting get work of the same cost, whatever its pieces cost and
 * however many wait. A caller that is alone gets everything. Within a caller the order is that of priority, then of arrival.
 */
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
