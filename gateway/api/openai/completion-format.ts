import type { Facts } from '../call.ts';
import type { ChoiceText } from '../whole-text.ts';
import type { CompletionChoice, FinishReason } from './answers.ts';
import type { ChoiceFormat } from './completion.ts';
import { completionLogprobs } from './logprobs.ts';

/** Formats the choices of completions: their text, or a piece of it. */
export function completionFormat({ tokenizer }: Facts): ChoiceFormat {
  const choice = (
    index: number,
    { text, tokens }: ChoiceText,
    finish_reason: FinishReason | null,
  ): CompletionChoice => {
    const logprobs = tokens === undefined ? null : completionLogprobs(tokenizer, tokens);
    return { index, text, logprobs, finish_reason };
  };
  return {
    prefix: 'cmpl-',
    object: 'text_completion',
    chunkObject: 'text_completion',
    choice,
    opening: () => undefined,
    delta: (index, text) => choice(index, text, null),
    closing: (index, finishReason) => choice(index, { text: '', tokens: undefined, calls: [] }, finishReason),
  };
}
