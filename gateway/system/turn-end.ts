/** What is to be done once, when all that came in this turn of the event loop has been dealt with. */
export interface AtTurnEnd {
  onTurnEnd(): void;
}

/** However often each is touched in a turn. Who is touched at the end of the turn has its call in the same one. */
export class TurnEnd {
  readonly #touched = new Set<AtTurnEnd>();
  #isComing = false;

  add(touched: AtTurnEnd): void {
    this.#touched.add(touched);
    if (this.#isComing) return;
    this.#isComing = true;
    queueMicrotask(() => this.#run());
  }

  #run(): void {
    try {
      for (const touched of this.#touched) {
        this.#touched.delete(touched);
        touched.onTurnEnd();
      }
    } finally {
      this.#isComing = false;
      // One that has failed does not keep the others from their turn.
      const [next] = this.#touched;
      if (next !== undefined) this.add(next);
    }
  }
}

/** There is one event loop. */
export const turnEnd = new TurnEnd();
