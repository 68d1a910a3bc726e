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
