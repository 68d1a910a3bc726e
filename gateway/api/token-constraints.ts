import type { z } from 'zod';
import * as fields from './fields.ts';

/** Fields that say which tokens an answer may have and which end it. Every generating route has them. */

/** The runner takes 64, and some of these are the model's own. */
const MAX_STOP_TOKEN_IDS = 32;
const MAX_MASKED_TOKEN_IDS = 1024;

// Ids are checked against the model later.
export const tokenConstraints = {
  min_tokens: fields.integer('min_tokens', 0, 2 ** 31 - 1).default(0),
  stop_token_ids: fields.tokenIds('stop_token_ids', 0, MAX_STOP_TOKEN_IDS).default([]),
  allowed_token_ids: fields.tokenIds('allowed_token_ids', 1, MAX_MASKED_TOKEN_IDS).default([]),
  banned_token_ids: fields.tokenIds('banned_token_ids', 0, MAX_MASKED_TOKEN_IDS).default([]),
};

/** The bound of an answer's length, as the request has it. Without a value, the context decides. */
interface MaxTokens {
  readonly name: string;
  readonly value: number | undefined;
  /** The value if the request has none. */
  readonly fallback?: number;
}

/** Checks min_tokens against max_tokens. */
export function checkMinTokens(
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
  minTokens: number,
  { name, value, fallback }: MaxTokens,
): void {
  if (value === undefined || minTokens <= value) return;
  const rule = { constraint: `range(0..=${value})`, value: String(minTokens) };
  const bound = value === fallback ? `${value}, the default of ${name}` : `${name}, which is ${value}`;
  fields.violated(ctx, rule, `min_tokens must be at most ${bound} (got ${minTokens})`, ['min_tokens']);
}
