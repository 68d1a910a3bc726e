/** Bytes of one connection, counted from its beginning. */
export interface Progress {
  /** Written for the client, sent or not. */
  readonly offeredBytes: number;
  /** Of these, acknowledged by its machine. */
  readonly takenBytes: number;
}

/** A client that has more than this to read and reads less is taken for one that does not read at all. */
export const LEAST_BYTES_PER_SEC = 1024;

/**
 * Whether a client reads what it is sent. In each window it takes all that was there at the beginning, or so many bytes
 * as the least rate wants; when it has, the next window begins.
 */
export class ReadingPace {
  readonly #windowMs: number;
  #start: Progress;
  #startMs: number;

  constructor(windowMs: number, start: Progress, nowMs: number) {
    this.#windowMs = windowMs;
    this.#start = start;
    this.#startMs = nowMs;
  }

  /** To be called several times in a window; whether one is over in which the client took too little. */
  isTooSlow(now: Progress, nowMs: number): boolean {
    const wantedBytes = Math.min(
      this.#start.offeredBytes - this.#start.takenBytes,
      (LEAST_BYTES_PER_SEC * this.#windowMs) / 1000,
    );
    if (now.takenBytes - this.#start.takenBytes < wantedBytes) return nowMs - this.#startMs >= this.#windowMs;
    this.#start = now;
    this.#startMs = nowMs;
    return false;
  }
}
