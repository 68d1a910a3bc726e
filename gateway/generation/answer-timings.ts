import type { AnswerTimes } from '../runner/runner.ts';

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

/** The timings of an answer that has ended. */
export function timingsOf(times: AnswerTimes, numPromptTokens: number, numTokens: number): AnswerTimings {
  const { admittedMs, first, firstMs, lastMs, endMs = admittedMs } = times;
  const numLater = Math.max(0, numTokens - times.numFirstTokens);
  const laterMs = firstMs === undefined ? 0 : lastMs - firstMs;
  return {
    queue_ms: first === undefined ? null : first.queuedUs / 1000,
    prefill_ms: first === undefined ? null : first.prefillUs / 1000,
    first_token_ms: firstMs === undefined ? null : rounded(firstMs - admittedMs),
    between_tokens_ms: numLater === 0 ? null : rounded(laterMs / numLater),
    tokens_per_second: numLater === 0 || laterMs === 0 ? null : rounded((numLater * 1000) / laterMs),
    total_ms: rounded(endMs - admittedMs),
    resume_pause_ms: rounded(times.resumePauseMs),
    prompt_tokens: numPromptTokens,
    cached_tokens: first?.numCachedTokens ?? 0,
    completion_tokens: numTokens,
  };
}

/** Rounds milliseconds to whole microseconds. */
function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
