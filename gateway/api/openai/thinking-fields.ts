import * as z from 'zod';
import { budgetFields, effort, type SaidOfThinking, saidBy } from '../thinking-parts.ts';

/** The fields of chats that say whether a model thinks and for how long (docs/thinking.md). */

export const thinkingFields = {
  reasoning_effort: effort.optional(),
  /** Qwen's switch. */
  enable_thinking: z.boolean().optional(),
  /** As in llama-server. none: the thinking stays in the text, with its marks. */
  reasoning_format: z
    .enum(['none', 'auto', 'deepseek'])
    .default('auto')
    .transform((format) => (format === 'none' ? 'none' : 'auto')),
  ...budgetFields,
};

type ThinkingFields = z.output<z.ZodObject<typeof thinkingFields>> & {
  readonly chat_template_kwargs: Readonly<Record<string, unknown>>;
};

/** What a chat says about thinking. */
export function saidOfThinking(request: ThinkingFields): SaidOfThinking {
  const { reasoning_effort: wanted, enable_thinking: isOn, chat_template_kwargs: kwargs } = request;
  const said = kwargs.enable_thinking ?? kwargs.thinking;
  const byEffort = saidBy('reasoning_effort', wanted, request, [
    ['enable_thinking', isOn],
    ['chat_template_kwargs', typeof said === 'boolean' ? said : undefined],
  ]);
  if (isOn === undefined) return byEffort;
  if (isOn) return { ...byEffort, needing: 'enable_thinking' };
  return { ...byEffort, hints: [...(byEffort.hints ?? []), 'enable_thinking'] };
}
