import * as z from 'zod';
import { budgetFields, effort, type SaidOfThinking, saidBy } from '../thinking-parts.ts';
import type { ResponseJson } from './answers.ts';

/** The fields that say whether a response thinks, and for how long. All of the thinking is returned, never a summary. */
export const reasoningFields = {
  reasoning: z.strictObject({ effort: effort.optional(), summary: z.literal('auto').optional() }).optional(),
  /** OpenAI has no budget; these have the names that chats use. */
  ...budgetFields,
};

type ReasoningFields = z.output<z.ZodObject<typeof reasoningFields>>;

export function saidOfThinking(request: ReasoningFields): SaidOfThinking {
  return saidBy('reasoning.effort', request.reasoning?.effort, request);
}

/** The field `reasoning` as a response repeats it. */
export function describedReasoning({
  reasoning,
}: Pick<ReasoningFields, 'reasoning'>): ResponseJson['reasoning'] {
  return { effort: reasoning?.effort ?? null, summary: reasoning?.summary ?? null };
}
