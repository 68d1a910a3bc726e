import type { TokenBatch } from '../runner/runner.ts';

/**
 * Times and token counts of one answer, under the names that clients see. Times are in milliseconds; null means that the answer
 * had no such time.
 */
export interface AnswerTimings {
  /** From the request's admission until the runner computes, and from there to the first token, by the runner's clock. */
  readonly queue_ms: number | null;
  readonly prefill_ms: number | null;
  /** From admission to the first token. */
  readonly first_token_ms: number | null;
  /** The mean time between tokens, counted after the first batch. */
  readonly between_tokens_ms: number | null;
  readonly tokens_per_second: number | null;
  /** From admission to the end. */
  readonly total_ms: number;
  /** The part of total_ms in which the answer waited for another runner to continue it. */
  readonly resume_pause_ms: number;
  readonly prompt_tokens: number;
  /** The prompt tokens that were found in the KV cache. */
  readonly cached_tokens: number;
  readonly completion_tokens: number;
}

/** Keeps the times of one answer. It reads the clock once for each batch, so it exists only for requests that ask for timings. */
export class AnswerTimes {
  readonly #now: () => number;
  readonly #numPromptTokens: number;
  readonly #beginMs: number;
  #first: TokenBatch['first'];
  #firstMs: number | undefined;
  #numFirstTokens = 0;
  #lastMs = 0;
  #pauseMs = 0;

  /** now: a clock in milliseconds that never goes back. The measured time begins with this call. */
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

  /** numTokens: the number of tokens in the answer. */
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

/** Rounds milliseconds to whole microseconds. */
function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
