/** A timer of a clock. Code that waits takes a Clock, so that simulations can replace the system's time. */
export interface Timer {
  /** Does nothing after the timer has fired. */
  cancel(): void;
}

export interface Clock {
  /** The time in milliseconds. It never goes back. */
  now(): number;
  after(delayMs: number, ring: () => void): Timer;
}

/** Rings again and again. Unlike a timer of a Clock, it keeps no process from ending. */
export type Every = (intervalMs: number, ring: () => void) => Timer;

export const systemEvery: Every = (intervalMs, ring) => {
  const timer = setInterval(ring, intervalMs).unref();
  return { cancel: () => clearInterval(timer) };
};

export const systemClock: Clock = {
  now: () => performance.now(),
  after: (delayMs, ring) => {
    const timer = setTimeout(ring, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
};

/**
 * Whether the promise settles within timeoutMs. No timer is left behind, and the promise may go on. Rejects if the promise
 * rejects in time.
 */
export async function settlesWithin(
  promise: Promise<unknown>,
  timeoutMs: number,
  clock: Clock,
): Promise<boolean> {
  let timer: Timer | undefined;
  const elapsed = new Promise<false>((resolve) => {
    timer = clock.after(timeoutMs, () => resolve(false));
  });
  try {
    return await Promise.race([promise.then(() => true), elapsed]);
  } finally {
    timer?.cancel();
  }
}

/** The longest delay of the system's timers. */
export const maxDelayMs = 2 ** 31 - 1;

/** One timer for many deadlines. It is set for the earliest one and, when it fires, finds all that are due. */
export class DeadlineTimer<Key> {
  readonly #clock: Clock;
  readonly #onDue: (key: Key, nowMs: number) => void;
  readonly #dueMs = new Map<Key, number>();
  #timer: Timer | undefined;
  #ringsAtMs = Number.POSITIVE_INFINITY;

  /** onDue: called once for each key that is due. It may set the key again. */
  constructor(clock: Clock, onDue: (key: Key, nowMs: number) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  get size(): number {
    return this.#dueMs.size;
  }

  set(key: Key, dueMs: number): void {
    this.#dueMs.set(key, dueMs);
    if (dueMs < this.#ringsAtMs) this.#arm(dueMs);
  }

  /** With the last key the timer goes too, so it never keeps the process from ending. */
  delete(key: Key): void {
    this.#dueMs.delete(key);
    if (this.#dueMs.size === 0) this.#disarm();
  }

  #arm(dueMs: number): void {
    this.#disarm();
    this.#ringsAtMs = dueMs;
    const delayMs = Math.min(Math.max(0, Math.ceil(dueMs - this.#clock.now())), maxDelayMs);
    this.#timer = this.#clock.after(delayMs, () => this.#ring());
  }

  #disarm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#ringsAtMs = Number.POSITIVE_INFINITY;
  }

  #ring(): void {
    const nowMs = this.#clock.now();
    const due: Key[] = [];
    for (const [key, dueMs] of this.#dueMs) if (dueMs <= nowMs) due.push(key);
    this.#disarm();
    for (const key of due) {
      // The handler of an earlier key may have removed or postponed this one.
      if ((this.#dueMs.get(key) ?? Number.POSITIVE_INFINITY) > nowMs) continue;
      this.#dueMs.delete(key);
      this.#onDue(key, nowMs);
    }
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const dueMs of this.#dueMs.values()) earliestMs = Math.min(earliestMs, dueMs);
    if (this.#dueMs.size > 0) this.#arm(earliestMs);
  }
}
