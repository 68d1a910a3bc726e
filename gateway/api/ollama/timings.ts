import type { AnswerTimings } from '../../generation/answer-timings.ts';

/** How long the parts of an answer took, in nanoseconds. */
export interface Durations {
  readonly total_duration: number;
  /** Until the model could be asked. */
  readonly load_duration: number;
  /** The time in which the runner computed the prompt, by its own clock. */
  readonly prompt_eval_duration: number;
  /** From the first token to the last. */
  readonly eval_duration: number;
}

const NS_PER_MS = 1e6;

/** Measures one request on its way. */
export class Timings {
  readonly #now: () => number;
  readonly #beginMs: number;
  #readyMs: number;

  /** Starts the measurement. now: milliseconds that never go back. */
  constructor(now: () => number) {
    this.#now = now;
    this.#beginMs = now();
    this.#readyMs = this.#beginMs;
  }

  onModel(): void {
    this.#readyMs = this.#now();
  }

  /** The durations until now. answer: the timings of the answer, if there is one. */
  durations(answer?: AnswerTimings): Durations {
    const { prefill_ms: prefillMs, total_ms: totalMs = 0, first_token_ms: firstMs } = answer ?? {};
    const ns = (ms: number): number => Math.round(ms * NS_PER_MS);
    return {
      total_duration: ns(this.#now() - this.#beginMs),
      load_duration: ns(this.#readyMs - this.#beginMs),
      prompt_eval_duration: ns(prefillMs ?? 0),
      eval_duration: ns(totalMs - (firstMs ?? totalMs)),
    };
  }
}
