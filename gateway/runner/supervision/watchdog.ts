/**
 * Tells a runner that hangs from one that loads, waits or works hard, by what it says of its own accord; it is never
 * asked, because a busy runner would answer late. Three signs: no heartbeat, which has a thread of its own in the runner;
 * a step that does not end; and requests that it does not begin to compute.
 *
 * Waiting is counted in ticks of our own loop. While that is blocked no tick comes and nothing is read, so that a
 * silence that is our own adds one tick, whatever its length.
 */
import type { Clock, Timer } from '../../system/clock.ts';
import type { Heartbeat, Phase } from '../protocol/messages.ts';
import type { StepTimes } from './step-times.ts';

export interface WatchdogLimits {
  /** Without a heartbeat, which comes once a second. */
  readonly silenceMs: number;
  /** With work and without a step, at least; 0: the runner is not watched. */
  readonly wedgeMs: number;
  /** The same as long as nothing is known of how long a step takes. */
  readonly unmeasuredWedgeMs: number;
}

export const defaultWatchdogLimits: WatchdogLimits = {
  silenceMs: 3_000,
  wedgeMs: 10_000,
  unmeasuredWedgeMs: 300_000,
};

export const tickMs = 500;

/** A step may take so many times as long as all but the slowest hundredth. */
export const slowestSteps = 8;

/**
 * What a runner computes in each phase. A chunk of a prompt takes at most as long as its rows one by one, so that a step
 * with one is allowed as many steps' time as it may have rows.
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
  /** A step does not end, or is not begun. Called at most once. */
  onHung(sentence: string): void;
  /** No heartbeat comes: whatever holds it holds the whole process. Called at most once. */
  onSilent(sentence: string): void;
}

export class Watchdog {
  readonly #limits: WatchdogLimits;
  readonly #times: StepTimes;
  readonly #maxStepRows: number;
  readonly #clock: Clock;
  readonly #hasWork: () => boolean;
  readonly #events: HungEvents;
  #timer: Timer | undefined;
  #silentTicks = 0;
  #frozenTicks = 0;
  #phase: Phase = 'idle';
  #step = 0;
  /** When the last step came, unless the runner has been idle since. */
  #steppedAt: number | undefined;

  /** maxStepRows: Ready's max_num_batched_tokens. hasWork: whether the runner owes anybody a token. */
  constructor(
    options: {
      limits: WatchdogLimits;
      times: StepTimes;
      maxStepRows: number;
      clock: Clock;
      hasWork: () => boolean;
    },
    events: HungEvents,
  ) {
    this.#limits = options.limits;
    this.#times = options.times;
    this.#maxStepRows = options.maxStepRows;
    this.#clock = options.clock;
    this.#hasWork = options.hasWork;
    this.#events = events;
    if (this.#limits.wedgeMs > 0) this.#arm();
  }

  onHeartbeat({ phase, step }: Heartbeat): void {
    this.#silentTicks = 0;
    this.#phase = phase;
    if (!this.#isComputing) this.#steppedAt = undefined;
    if (this.#isResting || step > this.#step) this.#frozenTicks = 0;
    this.#step = Math.max(this.#step, step);
  }

  onStep(step: number): void {
    const now = this.#clock.now();
    // By the ticks as well: a sleep of the machine, or our own, is not the step's.
    const mostMs = (this.#frozenTicks + 1) * tickMs;
    if (this.#steppedAt !== undefined) this.#times.add(Math.min(now - this.#steppedAt, mostMs));
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
    // For how long a request waits for its grammar is the runner's to bound: it answers without a step.
    return this.#phase === 'compiling' || (!this.#isComputing && !this.#hasWork());
  }

  #arm(): void {
    this.#timer = this.#clock.after(tickMs, () => this.#tick());
  }

  #tick(): void {
    this.#silentTicks += 1;
    this.#frozenTicks += 1;
    if (this.#isResting) this.#frozenTicks = 0;
    const { silenceMs } = this.#limits;
    if (this.#silentTicks * tickMs > silenceMs) {
      this.#events.onSilent(`The runner was silent for ${silenceMs / 1000} s: no heartbeat came.`);
      return;
    }
    const frozenMs = this.#frozenTicks * tickMs;
    if (frozenMs > this.#longestWaitMs()) {
      const what = this.#isComputing
        ? `was in ${this.#phase} for ${frozenMs / 1000} s without finishing`
        : `said ${this.#phase} for ${frozenMs / 1000} s with requests open and did not begin`;
      this.#events.onHung(`The runner ${what} step ${this.#step + 1}.`);
      return;
    }
    this.#arm();
  }

  #longestWaitMs(): number {
    const { wedgeMs, silenceMs } = this.#limits;
    // What was said before the requests came says nothing of them: within the silence another heartbeat has come.
    return Math.max(wedgeMs, this.#isComputing ? this.#longestStepMs() : silenceMs);
  }

  #longestStepMs(): number {
    if (!this.#times.isKnown) return this.#limits.unmeasuredWedgeMs;
    const rows = workOf[this.#phase] === 'many rows' ? this.#maxStepRows : 1;
    return Math.max(slowestSteps * this.#times.p99Ms, rows * this.#times.meanMs);
  }
}
