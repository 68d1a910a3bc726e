/** Gives turns to many pieces of work: each turn of the event loop does one piece, and everything else runs in between. */
export class Turns {
  #last: Promise<void> = Promise.resolve();

  /** Resolves in a turn that no other caller gets. Turns are given in the order of the calls. */
  next(): Promise<void> {
    this.#last = this.#last.then(() => new Promise((resolve) => setImmediate(resolve)));
    return this.#last;
  }
}

/** There is one event loop, so there is one instance. */
export const turns = new Turns();

/** Something to do once after everything that came in this turn of the event loop has been handled. */
export interface AtTurnEnd {
  onTurnEnd(): void;
}

/**
 * Calls each added object once at the end of the turn, however often it was added. An object that is added during these calls
 * is called in the same turn.
 */
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
      // An object that throws does not keep the others from being called.
      const [next] = this.#touched;
      if (next !== undefined) this.add(next);
    }
  }
}

/** There is one event loop, so there is one instance. */
export const turnEnd = new TurnEnd();
