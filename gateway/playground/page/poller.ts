/** Does something once a second, one at a time, and not at all while nobody looks. */

const INTERVAL_MS = 1000;
const HURRIED_INTERVAL_MS = 200;

export class Poller {
  readonly #work: () => Promise<void>;
  readonly #isHurried: () => boolean;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isAtWork = false;

  /** isHurried: whether the next time is to come sooner. */
  constructor(work: () => Promise<void>, isHurried: () => boolean) {
    this.#work = work;
    this.#isHurried = isHurried;
  }

  start(): void {
    document.addEventListener('visibilitychange', () => void this.now());
    void this.now();
  }

  /** At once, unless it is at it. */
  async now(): Promise<void> {
    clearTimeout(this.#timer);
    if (document.hidden || this.#isAtWork) return;
    this.#isAtWork = true;
    try {
      await this.#work();
    } finally {
      this.#isAtWork = false;
      this.#timer = setTimeout(() => void this.now(), this.#isHurried() ? HURRIED_INTERVAL_MS : INTERVAL_MS);
    }
  }
}
