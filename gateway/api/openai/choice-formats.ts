import { callDigits, type Facts } from '../../calls/call.ts';
import type { ChoiceText } from '../../calls/whole-answer.ts';
import type { SentToken } from '../../generation/sent-tokens.ts';
import type { CallPiece } from '../../generation/tool-call-parser.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { tokenText } from '../../tokenizer/utf8.ts';
import type {
  CallDelta,
  ChatChoice,
  ChatChunkChoice,
  ChatDelta,
  ChatLogprobs,
  CompletionChoice,
  CompletionLogprobs,
  FinishReason,
  TokenLogprob,
} from './answers.ts';
import type { ChoiceFormat } from './completion.ts';

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

type TokenBytes = Pick<Tokenizer, 'bytes'>;

/** Stands for minus infinity, which JSON cannot express, as in OpenAI's answers. */
const LOWEST_LOGPROB = -9999;

/** The form of chat completions and responses: an entry for each token. */
export function tokenLogprobs(tokenizer: TokenBytes, tokens: readonly SentToken[]): TokenLogprob[] {
  const entry = (id: number, logprob: number) => {
    const bytes = tokenizer.bytes(id);
    return { token: tokenText(bytes).text, logprob: finite(logprob), bytes: [...bytes] };
  };
  // Only tokens of echoed prompts lack log-probabilities, and chats echo none.
  const scored = tokens.flatMap(({ id, logprobs }) => (logprobs === undefined ? [] : [{ id, logprobs }]));
  return scored.map(({ id, logprobs: { logprob, topIds, topLogprobs } }) => ({
    ...entry(id, logprob),
    top_logprobs: topIds.map((topId, rank) => entry(topId, topLogprobs[rank] as number)),
  }));
}

/** The member `logprobs` of a chat completion's choice. */
export function chatLogprobs(tokenizer: TokenBytes, tokens: readonly SentToken[]): ChatLogprobs {
  return { content: tokenLogprobs(tokenizer, tokens), refusal: null };
}

/**
 * The form of completions: four parallel lists. top_logprobs always includes the token itself. The first token of an
 * echoed prompt has null, because nothing comes before it.
 */
export function completionLogprobs(tokenizer: TokenBytes, tokens: readonly SentToken[]): CompletionLogprobs {
  const name = (id: number): string => {
    const { text, isText } = tokenText(tokenizer.bytes(id));
    return isText ? text : `bytes:${text}`;
  };
  return {
    text_offset: tokens.map(({ textOffset }) => textOffset),
    token_logprobs: tokens.map(({ logprobs }) => (logprobs === undefined ? null : finite(logprobs.logprob))),
    tokens: tokens.map(({ id }) => name(id)),
    top_logprobs: tokens.map(({ id, logprobs }) => {
      if (logprobs === undefined) return null;
      const { logprob, topIds, topLogprobs } = logprobs;
      const top = topIds.map((topId, rank) => [name(topId), finite(topLogprobs[rank] as number)] as const);
      return Object.fromEntries([...top, [name(id), finite(logprob)]]);
    }),
  };
}

function finite(logprob: number): number {
  return Math.max(logprob, LOWEST_LOGPROB);
}
