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
