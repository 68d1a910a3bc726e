import * as z from 'zod';
import { effort } from '../openai/thinking-fields.ts';
import type { ThinkingWish } from '../thinking.ts';
import type { ResponseJson } from './answers.ts';

/** Whether a response thinks before it answers. What is thought is told whole: there is no summary of it. */
export const reasoningField = z
  .strictObject({ effort: effort.optional(), summary: z.literal('auto').optional() })
  .optional();

type ReasoningField = z.output<typeof reasoningField>;

export function thinkingWishOf({ reasoning }: { readonly reasoning?: ReasoningField }): ThinkingWish {
  const wanted = reasoning?.effort;
  if (wanted === undefined) return {};
  return wanted === 'none' ? { isOn: false } : { isOn: true, effort: wanted, field: 'reasoning.effort' };
}

/** As a response repeats it. */
export function describedReasoning({
  reasoning,
}: {
  readonly reasoning?: ReasoningField;
}): ResponseJson['reasoning'] {
  return { effort: reasoning?.effort ?? null, summary: reasoning?.summary ?? null };
}
