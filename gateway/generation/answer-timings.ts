import * as z from 'zod';
import type { AnswerTimes } from '../runner/runner.ts';

/**
 * Times and token counts of one answer, under the names that clients see. Times are in milliseconds; null means that the answer
 * had no such time.
 */
export const timingsSchema = z
  .object({
    queue_ms: z.number().nullable(),
    prefill_ms: z.number().nullable(),
    first_token_ms: z.number().nullable(),
    between_tokens_ms: z.number().nullable(),
    tokens_per_second: z.number().nullable(),
    total_ms: z.number(),
    resume_pause_ms: z.number(),
    prompt_tokens: z.int(),
    cached_tokens: z.int(),
    completion_tokens: z.int(),
  })
  .meta({ title: 'Timings' });
export type AnswerTimings = Readonly<z.infer<typeof timingsSchema>>;

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
