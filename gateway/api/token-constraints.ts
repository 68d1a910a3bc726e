import type { z } from 'zod';
import * as fields from './fields.ts';

/** Which tokens an answer may have and which end it: the fields that every generating route has for it. */

/** The runner takes 64, and some of them are the model's own. */
const MAX_STOP_TOKEN_IDS = 32;
const MAX_MASKED_TOKEN_IDS = 1024;

// Ids are checked against the model later.
export const tokenConstraints = {
  min_tokens: fields.integer('min_tokens', 0, 2 ** 31 - 1).default(0),
  stop_token_ids: fields.tokenIds('stop_token_ids', 0, MAX_STOP_TOKEN_IDS).default([]),
  allowed_token_ids: fields.tokenIds('allowed_token_ids', 1, MAX_MASKED_TOKEN_IDS).default([]),
  banned_token_ids: fields.tokenIds('banned_token_ids', 0, MAX_MASKED_TOKEN_IDS).default([]),
};

export type TokenConstraints = z.output<z.ZodObject<typeof tokenConstraints>>;

/** A rule across fields. maxTokens: what the request says of it, undefined where the context decides. */
export function checkMinTokens(
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
  minTokens: number,
  maxTokens: number | undefined,
): void {
  if (maxTokens === undefined || minTokens <= maxTokens) return;
  const rule = { constraint: `range(0..=${maxTokens})`, value: String(minTokens) };
  const sentence = `min_tokens must be at most max_tokens, which is ${maxTokens} (got ${minTokens})`;
  fields.violated(ctx, rule, sentence, ['min_tokens']);
}
