/** When the next runner of one place starts, from how those before it ended. */
import type { Crash, ExitPolicy } from './exit-policy.ts';

/** More crashes than this within crashWindowMs, of whatever kinds, open the breaker. */
export const maxCrashes = 5;
export const crashWindowMs = 5 * 60_000;
/** The window for kinds with a limit of their own. */
export const kindWindowMs = 10 * 60_000;
/** How long the breaker stays open. Doubles with each failed probation, up to maxOpenMs. */
export const firstOpenMs = 30_000;
export const maxOpenMs = 5 * 60_000;

/**
 * A circuit breaker (closed, open, half open) that stops a crash loop. After too many crashes no runner starts for a while.
 * Then one starts on probation: one request must get a token before the others are sent.
 */
export class Breaker {
  readonly #now: () => number;
  #state: 'closed' | 'open' | 'half_open' = 'closed';
  #crashes: { readonly kind: string; readonly time: number }[] = [];
  #openMs = firstOpenMs;
  #probationAt = 0;

  /** now: a monotonic clock in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  get isOpen(): boolean {
    return this.#state === 'open';
  }

  get isHalfOpen(): boolean {
    return this.#state === 'half_open';
  }

  /** Milliseconds until the next probation; meaningful while the breaker is open. */
  get trialInMs(): number {
    return Math.max(0, this.#probationAt - this.#now());
  }

  /** Counts a crash, and opens the breaker if it was one too many or happened on probation. */
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

  /** Call it when trialInMs has passed: the next runner is on probation. */
  halfOpen(): void {
    this.#state = 'half_open';
  }

  /** Call it when a probation succeeded, or when another spec or file is tried. Forgets all crashes. */
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

export const burstRestarts = 5;
export const burstWindowMs = 30_000;
export const firstDelayMs = 250;
export const maxDelayMs = 30_000;
export const jitter = 0.2;
export const healthyAfterMs = 60_000;

/**
 * How long a supervisor waits before it starts the next runner: the first restarts of a burst are immediate, a crash loop
 * gets slower and slower, and a runner that stays up resets both. The burst is Erlang/OTP's restart "intensity" rule; the
 * delays grow exponentially, with jitter.
 */
export class Backoff {
  readonly #now: () => number;
  readonly #random: () => number;
  /** Times of the immediate restarts within the window, in milliseconds. */
  #burst: number[] = [];
  /** Delays since the last healthy runner; the exponent of the next one. */
  #numDelays = 0;

  /** now: a monotonic clock in milliseconds. random: 0 to 1. */
  constructor(now: () => number, random: () => number) {
    this.#now = now;
    this.#random = random;
  }

  /** Counts one restart and returns its delay in milliseconds. healthyForMs: how long the runner that died had been ready. */
  nextDelayMs(healthyForMs: number): number {
    const now = this.#now();
    if (healthyForMs >= healthyAfterMs) {
      this.#burst = [];
      this.#numDelays = 0;
    }
    this.#burst = this.#burst.filter((time) => now - time < burstWindowMs);
    // After the first delay every restart is delayed. Otherwise the delays would empty the window, and a new burst would
    // follow.
    if (this.#numDelays === 0 && this.#burst.length < burstRestarts) {
      this.#burst.push(now);
      return 0;
    }
    const delayMs = Math.min(maxDelayMs, firstDelayMs * 2 ** this.#numDelays);
    this.#numDelays += 1;
    return delayMs * (1 + jitter * (2 * this.#random() - 1));
  }
}

/** Requests wait this long for a process; then they end with an error, and new ones are refused. */
export const startPatienceMs = 30_000;
export const firstPauseMs = 250;
export const maxPauseMs = 2000;

/**
 * Starts in a row that made no process, mostly because the machine had no descriptors, memory or processes left. They say
 * nothing about the runner or its requests, which therefore wait. The next start is tried after a pause from the first failure
 * on, because the shortage will not end by itself in a microsecond.
 */
export class FailedStarts {
  readonly #now: () => number;
  #count = 0;
  #firstAt = 0;

  /** now: a monotonic clock in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  nextPauseMs(): number {
    if (this.#count === 0) this.#firstAt = this.#now();
    const pauseMs = Math.min(maxPauseMs, firstPauseMs * 2 ** this.#count);
    this.#count += 1;
    return pauseMs;
  }

  get hasSome(): boolean {
    return this.#count > 0;
  }

  /** Whether the first of them is longer ago than requests wait. */
  get areTooMany(): boolean {
    return this.hasSome && this.#now() - this.#firstAt >= startPatienceMs;
  }

  end(): void {
    this.#count = 0;
  }
}

/**
 * After this many runners in a row that died before they were ready, the gateway refuses requests instead of letting them
 * wait. Runners that somebody killed do not count.
 */
export const maxFruitlessStarts = 3;

/** When the next runner starts. isHopeless: requests do not wait for it. */
export interface NextStart {
  readonly delayMs: number;
  readonly isHopeless: boolean;
}

export class Restarts {
  readonly #backoff: Backoff;
  readonly #breaker: Breaker;
  readonly #failedStarts: FailedStarts;
  /** Runners in a row that died before they were ready. Runners that somebody killed do not count. */
  #fruitlessStarts = 0;

  constructor(now: () => number, backoff: Backoff) {
    this.#backoff = backoff;
    this.#breaker = new Breaker(now);
    this.#failedStarts = new FailedStarts(now);
  }

  /** Milliseconds until the breaker lets the next runner start; undefined while it is not open. */
  get heldBackMs(): number | undefined {
    return this.#breaker.isOpen ? this.#breaker.trialInMs : undefined;
  }

  /** Whether the next runner, or the one that runs, is on probation. */
  get isOnProbation(): boolean {
    return this.#breaker.isHalfOpen;
  }

  /** Whether one more runner that dies before it is ready makes too many. */
  get isLastTry(): boolean {
    return this.#fruitlessStarts + 1 >= maxFruitlessStarts;
  }

  /** Whether the last start made no process. */
  get hasNoProcess(): boolean {
    return this.#failedStarts.hasSome;
  }

  /** Another spec is followed: crashes and failed starts of the old spec's runners say nothing about it. */
  forget(): void {
    this.#breaker.close();
    this.#fruitlessStarts = 0;
  }

  beginProbation(): void {
    this.#breaker.halfOpen();
  }

  /** The probation succeeded, or another file is tried. */
  closeBreaker(): void {
    this.#breaker.close();
  }

  onProcess(): void {
    this.#failedStarts.end();
  }

  onReady(): void {
    this.#fruitlessStarts = 0;
  }

  /** readyForMs: as in Death. Undefined: the breaker holds the next runner back. */
  afterDeath(policy: ExitPolicy, readyForMs: number | undefined): NextStart | undefined {
    if (policy.crash !== undefined) this.#breaker.count(policy.crash);
    if (this.#breaker.isOpen) return undefined;
    if (readyForMs === undefined && policy.countsForStarts) this.#fruitlessStarts += 1;
    return {
      delayMs: policy.countsForBackoff ? this.#backoff.nextDelayMs(readyForMs ?? 0) : 0,
      isHopeless: this.#fruitlessStarts >= maxFruitlessStarts,
    };
  }

  /** There is no process, which is nobody's fault: requests wait for the next try, though not for ever. */
  afterNoProcess(): NextStart {
    const delayMs = this.#failedStarts.nextPauseMs();
    return { delayMs, isHopeless: this.#failedStarts.areTooMany };
  }
}
