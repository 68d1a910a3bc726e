import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import type { ChoiceFormat, ChoiceText, FinishReason } from './completion.ts';
import { chatLogprobs } from './logprobs.ts';

/** Choices as chat completions have them: a message, or what is new of it. */
export function chatFormat(tokenizer: Tokenizer): ChoiceFormat {
  const logprobs = ({ tokens }: ChoiceText) =>
    tokens === undefined ? null : chatLogprobs(tokenizer, tokens);
  const chunk = (index: number, delta: object, finish_reason: FinishReason | null = null) => {
    return { index, delta, logprobs: null, finish_reason };
  };
  return {
    object: 'chat.completion',
    chunkObject: 'chat.completion.chunk',
    choice: (index, text, finish_reason) => {
      const message = { role: 'assistant', content: text.text, refusal: null };
      return { index, message, logprobs: logprobs(text), finish_reason };
    },
    opening: (index) => chunk(index, { role: 'assistant', content: '' }),
    delta: (index, text) => ({ ...chunk(index, { content: text.text }), logprobs: logprobs(text) }),
    closing: (index, finishReason) => chunk(index, {}, finishReason),
  };
}
