import { callDigits, type Facts } from '../../calls/call.ts';
import type { ChoiceText } from '../../calls/whole-answer.ts';
import type { CallPiece } from '../../generation/tool-call-parser.ts';
import type {
  CallDelta,
  ChatChoice,
  ChatChunkChoice,
  ChatDelta,
  CompletionChoice,
  FinishReason,
} from './answers.ts';
import type { ChoiceFormat } from './completion.ts';
import { chatLogprobs, completionLogprobs } from './logprobs.ts';

/** Formats the choices of chat completions: a message, or a delta of it. */
export function chatFormat({ tokenizer, uuid }: Facts): ChoiceFormat {
  const digits = callDigits(uuid);
  // At most 40 characters, the longest that OpenAI accepts in a conversation.
  const callId = (choice: number, call: number) => `call_${digits}_${choice}_${call}`;
  const logprobs = ({ tokens }: ChoiceText) =>
    tokens === undefined ? null : chatLogprobs(tokenizer, tokens);
  const chunk = (
    index: number,
    delta: ChatDelta,
    finish_reason: FinishReason | null = null,
  ): ChatChunkChoice => {
    return { index, delta, logprobs: null, finish_reason };
  };
  return {
    prefix: 'chatcmpl-',
    object: 'chat.completion',
    chunkObject: 'chat.completion.chunk',
    choice: (index, text, finish_reason): ChatChoice => {
      const called = text.calls.map(({ index: call, name = '', arguments: given }) => {
        return { id: callId(index, call), type: 'function' as const, function: { name, arguments: given } };
      });
      const hasCalls = called.length > 0;
      const content = hasCalls && text.text === '' ? null : text.text;
      const calls = hasCalls ? { tool_calls: called } : {};
      const thought = text.thought === undefined ? {} : { reasoning_content: text.thought };
      const message = { role: 'assistant' as const, content, refusal: null, ...thought, ...calls };
      return { index, message, logprobs: logprobs(text), finish_reason };
    },
    opening: (index) => chunk(index, { role: 'assistant', content: '' }),
    delta: (index, text): ChatChunkChoice => {
      if (text.calls.length === 0)
        return { ...chunk(index, { content: text.text }), logprobs: logprobs(text) };
      const content = text.text === '' ? {} : { content: text.text };
      return chunk(index, {
        ...content,
        tool_calls: text.calls.map((piece) => callDelta(piece, callId(index, piece.index))),
      });
    },
    thought: (index, thought) => chunk(index, { reasoning_content: thought }),
    closing: (index, finishReason) => chunk(index, {}, finishReason),
  };
}

/** The id and the name come once, with the call's first piece. */
function callDelta({ index, name, arguments: given }: CallPiece, id: string): CallDelta {
  if (name === undefined) return { index, function: { arguments: given } };
  return { index, id, type: 'function', function: { name, arguments: given } };
}

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
