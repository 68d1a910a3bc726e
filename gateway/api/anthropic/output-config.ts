import * as z from 'zod';
import type { ThinkingWish } from '../../calls/thinking.ts';
import { violated } from '../fields.ts';
import { schemaGrammar } from '../schema-grammar.ts';

/** The fields that say whether a message thinks before it answers, with how much effort, and what form the answer has. */

const format = z
  .strictObject({ type: z.literal('json_schema'), schema: z.unknown() })
  .transform(({ schema }, ctx) => schemaGrammar(ctx, 'output_config.format.schema', schema, false));

export const outputConfig = z
  .strictObject({
    effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).optional(),
    format: format.optional(),
  })
  .default({});

const enabled = z.strictObject({
  type: z.literal('enabled'),
  budget_tokens: z.int().min(1),
  display: z.literal('summarized').optional(),
});
/** The model decides how long it thinks. */
const adaptive = z.strictObject({ type: z.literal('adaptive'), display: z.literal('summarized').optional() });
const disabled = z.strictObject({ type: z.literal('disabled') });

/** Without this field the message does not think, as with Anthropic. */
export const thinkingField = z.discriminatedUnion('type', [enabled, adaptive, disabled]).optional();

type ThinkingField = z.output<typeof thinkingField>;

/** Checks that the budget is less than max_tokens. */
export function checkThinking(
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
  { thinking, max_tokens }: { readonly thinking?: ThinkingField; readonly max_tokens: number },
): void {
  if (thinking?.type !== 'enabled' || thinking.budget_tokens < max_tokens) return;
  const sentence = `thinking.budget_tokens must be less than max_tokens, which is ${max_tokens} (got ${thinking.budget_tokens})`;
  const rule = { constraint: `range(1..${max_tokens})`, value: String(thinking.budget_tokens) };
  violated(ctx, rule, sentence, ['thinking', 'budget_tokens']);
}

interface AskedToThink {
  readonly thinking?: ThinkingField;
  readonly output_config: { readonly effort?: string | undefined };
}

/** A model that does not think ignores an effort and the type adaptive, which leaves the thinking to the model. */
export function thinkingWishOf({ thinking, output_config: { effort } }: AskedToThink): ThinkingWish {
  if (thinking === undefined || thinking.type === 'disabled') return { isOn: false };
  const hints = effort === undefined ? [] : [EFFORT];
  const wish = { isOn: true, effort, hints };
  if (thinking.type === 'adaptive') return { ...wish, hints: [...hints, 'thinking'] };
  return { ...wish, maxTokens: thinking.budget_tokens, field: 'thinking' };
}

const EFFORT = 'output_config.effort';

/** The fields about thinking that no model obeys: an effort for an answer without thinking. */
export function ignoredEffort({ thinking, output_config: { effort } }: AskedToThink): string[] {
  const isOff = thinking === undefined || thinking.type === 'disabled';
  return isOff && effort !== undefined ? [EFFORT] : [];
}
