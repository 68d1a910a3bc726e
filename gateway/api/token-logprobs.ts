import * as z from 'zod';
import type { SentToken } from '../generation/text-stream.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { tokenText } from '../tokenizer/utf8.ts';

/** Log-probabilities as the APIs write them that have an entry for each token. */

const logprob = z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()) });
export const tokenLogprobSchema = logprob
  .extend({ top_logprobs: z.array(logprob) })
  .meta({ title: 'TokenLogprob' });

/** Stands for minus infinity, which JSON cannot express, as in OpenAI's answers. */
const LOWEST_LOGPROB = -9999;

export function tokenLogprobs(
  tokenizer: Pick<Tokenizer, 'bytes'>,
  tokens: readonly SentToken[],
): z.infer<typeof tokenLogprobSchema>[] {
  const entry = (id: number, logprob: number) => {
    const bytes = tokenizer.bytes(id);
    return { token: tokenText(bytes).text, logprob: finiteLogprob(logprob), bytes: [...bytes] };
  };
  // Only tokens of echoed prompts lack log-probabilities, and chats echo none.
  const scored = tokens.flatMap(({ id, logprobs }) => (logprobs === undefined ? [] : [{ id, logprobs }]));
  return scored.map(({ id, logprobs: { logprob, topIds, topLogprobs } }) => ({
    ...entry(id, logprob),
    top_logprobs: topIds.map((topId, rank) => entry(topId, topLogprobs[rank] as number)),
  }));
}

export function finiteLogprob(logprob: number): number {
  return Math.max(logprob, LOWEST_LOGPROB);
}
