import type { TokenBatch } from '../runner/runner.ts';

/** How long one answer took, in milliseconds; null: there was no such thing. Under the names that clients see. */
export interface AnswerTimings {
  /** Until the runner began with it, and from there to the first token, by the runner's own clock. */
  readonly queue_ms: number | null;
  readonly prefill_ms: number | null;
  /** From admission to the first token. */
  readonly first_token_ms: number | null;
  /** The mean between tokens behind the first that came. */
  readonly between_tokens_ms: number | null;
  readonly tokens_per_second: number | null;
  /** From admission to the end. */
  readonly total_ms: number;
  /** Of the total: how long it waited for another runner to go on. */
  readonly resume_pause_ms: number;
  readonly prompt_tokens: number;
  /** Of these, those that were found in the KV cache. */
  readonly cached_tokens: number;
  readonly completion_tokens: number;
}

/** Keeps the times of one answer, for who asks for them: it looks at the clock for each batch. */
export class AnswerTimes {
  readonly #now: () => number;
  readonly #numPromptTokens: number;
  readonly #beginMs: number;
  #first: TokenBatch['first'];
  #firstMs: number | undefined;
  #numFirstTokens = 0;
  #lastMs = 0;
  #pauseMs = 0;

  /** now: milliseconds that only grow. Begins when it is made. */
  constructor(now: () => number, numPromptTokens: number) {
    this.#now = now;
    this.#numPromptTokens = numPromptTokens;
    this.#beginMs = now();
  }

  onTokens({ first, tokenIds, isResumed }: TokenBatch): void {
    this.#first ??= first;
    if (tokenIds.length === 0) return;
    const nowMs = this.#now();
    if (this.#firstMs === undefined) {
      this.#firstMs = nowMs;
      this.#numFirstTokens = tokenIds.length;
    } else if (isResumed) this.#pauseMs += nowMs - this.#lastMs;
    this.#lastMs = nowMs;
  }

  /** numTokens: of the answer. */
  timings(numTokens: number): AnswerTimings {
    const first = this.#first;
    const firstMs = this.#firstMs;
    const numLater = Math.max(0, numTokens - this.#numFirstTokens);
    const laterMs = this.#lastMs - (firstMs ?? this.#lastMs);
    return {
      queue_ms: first === undefined ? null : first.queuedUs / 1000,
      prefill_ms: first === undefined ? null : first.prefillUs / 1000,
      first_token_ms: firstMs === undefined ? null : rounded(firstMs - this.#beginMs),
      between_tokens_ms: numLater === 0 ? null : rounded(laterMs / numLater),
      tokens_per_second: numLater === 0 || laterMs === 0 ? null : rounded((numLater * 1000) / laterMs),
      total_ms: rounded(this.#now() - this.#beginMs),
      resume_pause_ms: rounded(this.#pauseMs),
      prompt_tokens: this.#numPromptTokens,
      cached_tokens: first?.numCachedTokens ?? 0,
      completion_tokens: numTokens,
    };
  }
}

/** To microseconds. */
function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
