/** A set that forgets what was added longest ago when it has more than its bound. */
export class RecentSet<Item> {
  readonly #maxItems: number;
  readonly #items = new Set<Item>();

  constructor(maxItems: number) {
    this.#maxItems = maxItems;
  }

  /** An item that is there already becomes the newest. */
  add(item: Item): void {
    this.#items.delete(item);
    this.#items.add(item);
    const [oldest] = this.#items;
    if (this.#items.size > this.#maxItems) this.#items.delete(oldest as Item);
  }

  has(item: Item): boolean {
    return this.#items.has(item);
  }

  clear(): void {
    this.#items.clear();
  }
}
