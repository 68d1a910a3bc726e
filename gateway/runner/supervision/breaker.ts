/**
 * Stops a crash loop: after too many crashes no runner is started for a while; then one is, on probation, and one request
 * must get a token before all do. The pattern is the circuit breaker's: closed, open, half open.
 */

/** More of any kind within the window open it. */
export const maxCrashes = 5;
export const crashWindowMs = 5 * 60_000;
/** Kinds that have a limit of their own are counted longer. */
export const kindWindowMs = 10 * 60_000;
/** Doubles with each probation that fails. */
export const firstOpenMs = 30_000;
export const maxOpenMs = 5 * 60_000;

export interface Crash {
  /** What crashes are counted together. */
  readonly kind: string;
  /** More of this kind open it; absent: the kind has no limit of its own. */
  readonly maxOfKind?: number;
}

export class Breaker {
  readonly #now: () => number;
  #state: 'closed' | 'open' | 'half_open' = 'closed';
  #crashes: { readonly kind: string; readonly time: number }[] = [];
  #openMs = firstOpenMs;
  #probationAt = 0;

  /** now: milliseconds that only grow. */
  constructor(now: () => number) {
    this.#now = now;
  }

  get isOpen(): boolean {
    return this.#state === 'open';
  }

  get isHalfOpen(): boolean {
    return this.#state === 'half_open';
  }

  /** Until the next probation, while it is open. */
  get trialInMs(): number {
    return Math.max(0, this.#probationAt - this.#now());
  }

  count({ kind, maxOfKind = Number.POSITIVE_INFINITY }: Crash): void {
    const now = this.#now();
    if (this.#state === 'half_open') {
      this.#openMs = Math.min(maxOpenMs, this.#openMs * 2);
      this.#open();
      return;
    }
    this.#crashes = this.#crashes.filter(({ time }) => now - time < kindWindowMs);
    this.#crashes.push({ kind, time: now });
    const numRecent = this.#crashes.filter(({ time }) => now - time < crashWindowMs).length;
    const numOfKind = this.#crashes.filter((crash) => crash.kind === kind).length;
    if (numRecent > maxCrashes || numOfKind > maxOfKind) this.#open();
  }

  /** The time has come for a probation. */
  halfOpen(): void {
    this.#state = 'half_open';
  }

  /** The probation went well, or what kept crashing is another one now: nothing is held against it. */
  close(): void {
    this.#state = 'closed';
    this.#openMs = firstOpenMs;
    this.#crashes = [];
  }

  #open(): void {
    this.#state = 'open';
    this.#probationAt = this.#now() + this.#openMs;
  }
}
