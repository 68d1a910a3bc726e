/** Time as the supervisor and its parts have it: the system's, or a simulation's. */
export interface Timer {
  /** Does nothing once it has rung. */
  cancel(): void;
}

export interface Clock {
  /** Milliseconds that only grow. */
  now(): number;
  after(delayMs: number, ring: () => void): Timer;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after: (delayMs, ring) => {
    const timer = setTimeout(ring, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
};
