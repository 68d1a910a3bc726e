/**
 * Tells a runner that hangs from one that loads, waits or works hard, by what the runner sends of its own accord. The
 * watchdog never asks, because a busy runner would answer late. It knows three signs of a hang: no heartbeat, which a thread
 * of its own sends; a step that does not end; and requests that the runner does not begin to compute.
 *
 * Time is counted in ticks of the gateway's event loop. While the loop is blocked, no tick comes and nothing is read, so a
 * pause of the gateway itself counts as one tick, however long it is.
 */
import type { Clock, Timer } from '../../system/clock.ts';
import type { Heartbeat, Phase } from '../protocol/from-runner.ts';

export interface WatchdogLimits {
  /** The longest time without a heartbeat, which comes once a second. */
  readonly silenceMs: number;
  /** The least time with work and without a step that counts as a hang; 0: the runner is not watched at all. */
  readonly wedgeMs: number;
  /** Used in place of wedgeMs until enough step times are known. */
  readonly unmeasuredWedgeMs: number;
}

export const defaultWatchdogLimits: WatchdogLimits = {
  silenceMs: 3_000,
  wedgeMs: 10_000,
  unmeasuredWedgeMs: 300_000,
};

export const tickMs = 500;

/** A step is too slow if it takes more than this many times the 99th percentile. */
export const slowestSteps = 8;

/**
 * What a runner computes in a step of each phase. A chunk of a prompt takes at most as long as its rows one by one, so a step
 * with a chunk is allowed one mean step time for each row that it may have.
 */
const workOf: Readonly<Record<Phase, 'none' | 'one row each' | 'many rows'>> = {
  loading: 'none',
  idle: 'none',
  prefill: 'many rows',
  decode: 'one row each',
  mixed: 'many rows',
  compiling: 'none',
};

export interface HungEvents {
  /** A step does not end, or does not begin. Called at most once. */
  onHung(sentence: string): void;
  /** No heartbeat comes, so the whole process hangs. Called at most once. */
  onSilent(sentence: string): void;
}

interface WatchdogOptions {
  readonly limits: WatchdogLimits;
  readonly times: StepTimes;
  /** Ready's max_num_batched_tokens. */
  readonly maxStepRows: number;
  readonly clock: Clock;
  /** Whether the runner owes tokens to a request. */
  readonly hasWork: () => boolean;
}

export class Watchdog {
  readonly #options: WatchdogOptions;
  readonly #events: HungEvents;
  #timer: Timer | undefined;
  #silentTicks = 0;
  #frozenTicks = 0;
  #phase: Phase = 'idle';
  #step = 0;
  /** When the last step ended; undefined if the runner has been idle since. */
  #steppedAt: number | undefined;

  constructor(options: WatchdogOptions, events: HungEvents) {
    this.#options = options;
    this.#events = events;
    if (options.limits.wedgeMs > 0) this.#arm();
  }

  onHeartbeat({ phase, step }: Heartbeat): void {
    this.#silentTicks = 0;
    this.#phase = phase;
    if (!this.#isComputing) this.#steppedAt = undefined;
    if (this.#isResting || step > this.#step) this.#frozenTicks = 0;
    this.#step = Math.max(this.#step, step);
  }

  onStep(step: number): void {
    const now = this.#options.clock.now();
    // The ticks bound the time too, so that a sleep of the machine or a pause of the gateway is not taken for a slow step.
    const mostMs = (this.#frozenTicks + 1) * tickMs;
    if (this.#steppedAt !== undefined) this.#options.times.add(Math.min(now - this.#steppedAt, mostMs));
    this.#steppedAt = now;
    this.#step = step;
    this.#silentTicks = 0;
    this.#frozenTicks = 0;
  }

  stop(): void {
    this.#timer?.cancel();
  }

  get #isComputing(): boolean {
    return workOf[this.#phase] !== 'none';
  }

  get #isResting(): boolean {
    // While requests wait for their grammars, no step is computed, and the runner itself bounds that wait.
    return this.#phase === 'compiling' || (!this.#isComputing && !this.#options.hasWork());
  }

  #arm(): void {
    this.#timer = this.#options.clock.after(tickMs, () => this.#tick());
  }

  #tick(): void {
    this.#silentTicks += 1;
    this.#frozenTicks += 1;
    if (this.#isResting) this.#frozenTicks = 0;
    const { silenceMs } = this.#options.limits;
    if (this.#silentTicks * tickMs > silenceMs) {
      this.#events.onSilent(`The runner was silent for ${silenceMs / 1000} s: no heartbeat came.`);
      return;
    }
    const frozenMs = this.#frozenTicks * tickMs;
    if (frozenMs > this.#longestWaitMs()) {
      const what = this.#isComputing
        ? `was in ${this.#phase} for ${frozenMs / 1000} s without finishing`
        : `reported the phase ${this.#phase} for ${frozenMs / 1000} s although requests are open, and did not begin`;
      this.#events.onHung(`The runner ${what} step ${this.#step + 1}.`);
      return;
    }
    this.#arm();
  }

  #longestWaitMs(): number {
    const { wedgeMs, silenceMs } = this.#options.limits;
    // If requests are open and the last heartbeat says idle, it may be older than they are. Within silenceMs the next one
    // comes.
    return Math.max(wedgeMs, this.#isComputing ? this.#longestStepMs() : silenceMs);
  }

  #longestStepMs(): number {
    if (!this.#options.times.isKnown) return this.#options.limits.unmeasuredWedgeMs;
    const rows = workOf[this.#phase] === 'many rows' ? this.#options.maxStepRows : 1;
    return Math.max(slowestSteps * this.#options.times.p99Ms, rows * this.#options.times.meanMs);
  }
}

/** The last step times of a runner. They outlive the runner, because the next one computes the same. */
export const maxStepTimes = 512;

/** Fewer times say nothing: the first steps bring the weights into memory. */
export const minStepTimes = 8;

export class StepTimes {
  readonly #timesMs: number[] = [];
  #next = 0;

  add(timeMs: number): void {
    this.#timesMs[this.#next] = timeMs;
    this.#next = (this.#next + 1) % maxStepTimes;
  }

  get isKnown(): boolean {
    return this.#timesMs.length >= minStepTimes;
  }

  /** The mean, not the median: when the gateway's loop is late, several steps are read together and some seem to take no time. */
  get meanMs(): number {
    return this.#timesMs.reduce((sum, timeMs) => sum + timeMs, 0) / Math.max(1, this.#timesMs.length);
  }

  get p99Ms(): number {
    const sorted = this.#timesMs.toSorted((a, b) => a - b);
    return sorted[Math.floor(sorted.length * 0.99)] ?? 0;
  }
}
