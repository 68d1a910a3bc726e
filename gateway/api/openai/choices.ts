import * as z from 'zod';
import { callDigits, type Facts } from '../../calls/call.ts';
import { timingsSchema } from '../../generation/answer-timings.ts';
import type { AnswerText, SentToken } from '../../generation/text-stream.ts';
import type { CallPiece } from '../../generation/tool-call-parser.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { tokenText } from '../../tokenizer/utf8.ts';
import { endingFields } from '../answer-fields.ts';
import { finiteLogprob, tokenLogprobSchema, tokenLogprobs } from '../token-logprobs.ts';

/** The choices of chat completions and of completions, whole and as deltas. */

const chatLogprobs = z.object({ content: z.array(tokenLogprobSchema), refusal: z.null() });

const completionLogprobs = z.object({
  text_offset: z.array(z.int()),
  token_logprobs: z.array(z.number().nullable()),
  tokens: z.array(z.string()),
  top_logprobs: z.array(z.record(z.string(), z.number()).nullable()),
});

const besideFinish = { ...endingFields, timings: timingsSchema.optional() };
export type BesideFinish = z.infer<z.ZodObject<typeof besideFinish>>;

const finishReason = z.enum(['stop', 'length', 'tool_calls']);
export type FinishReason = z.infer<typeof finishReason>;

const calledFunction = z.object({ name: z.string(), arguments: z.string() });

const message = z.object({
  role: z.literal('assistant'),
  content: z.string().nullable(),
  refusal: z.null(),
  reasoning_content: z.string().optional(),
  tool_calls: z
    .array(z.object({ id: z.string(), type: z.literal('function'), function: calledFunction }))
    .optional(),
});

export const chatChoice = z.object({
  index: z.int(),
  message,
  logprobs: chatLogprobs.nullable(),
  finish_reason: finishReason,
  ...besideFinish,
});

/** The id and the name come once, with the call's first piece. */
const callDelta = z.object({
  index: z.int(),
  id: z.string().optional(),
  type: z.literal('function').optional(),
  function: z.object({ name: z.string().optional(), arguments: z.string() }),
});

const chatDelta = z.object({
  role: z.literal('assistant').optional(),
  content: z.string().optional(),
  reasoning_content: z.string().optional(),
  tool_calls: z.array(callDelta).optional(),
});

export const chatChunkChoice = z.object({
  index: z.int(),
  delta: chatDelta,
  logprobs: chatLogprobs.nullable(),
  finish_reason: finishReason.nullable(),
  ...besideFinish,
});

export const completionChoice = z.object({
  index: z.int(),
  text: z.string(),
  logprobs: completionLogprobs.nullable(),
  finish_reason: finishReason.nullable(),
  ...besideFinish,
});

/** How a route writes the choices of its answers. */
export interface ChoiceFormat {
  /** Begins the answer's id. */
  readonly prefix: string;
  readonly object: string;
  readonly chunkObject: string;
  /** A whole choice. */
  choice(index: number, text: AnswerText, finishReason: FinishReason): object;
  /** The first chunk of a choice, before its text; undefined if there is none. */
  opening(index: number): object | undefined;
  delta(index: number, text: AnswerText): object;
  /** A chunk of new thinking. Undefined for a format that has none. */
  readonly thought?: (index: number, thought: string) => object;
  closing(index: number, finishReason: FinishReason): object;
}

/** Formats the choices of chat completions: a message, or a delta of it. */
export function chatFormat({ tokenizer, uuid }: Facts): ChoiceFormat {
  const digits = callDigits(uuid);
  // At most 40 characters, the longest that OpenAI accepts in a conversation.
  const callId = (choice: number, call: number) => `call_${digits}_${choice}_${call}`;
  const logprobs = ({ sentTokens }: AnswerText): z.infer<typeof chatLogprobs> | null =>
    sentTokens === undefined ? null : { content: tokenLogprobs(tokenizer, sentTokens), refusal: null };
  const chunk = (
    index: number,
    delta: z.infer<typeof chatDelta>,
    finish_reason: FinishReason | null = null,
  ): z.infer<typeof chatChunkChoice> => ({ index, delta, logprobs: null, finish_reason });
  return {
    prefix: 'chatcmpl-',
    object: 'chat.completion',
    chunkObject: 'chat.completion.chunk',
    choice: (index, answer, finish_reason): z.infer<typeof chatChoice> => {
      const { text, thought, calls = [] } = answer;
      const called = calls.map(({ index: call, name = '', arguments: given }) => {
        return { id: callId(index, call), type: 'function' as const, function: { name, arguments: given } };
      });
      const hasCalls = called.length > 0;
      const message = {
        role: 'assistant' as const,
        content: hasCalls && text === '' ? null : text,
        refusal: null,
        ...(thought !== undefined && { reasoning_content: thought }),
        ...(hasCalls && { tool_calls: called }),
      };
      return { index, message, logprobs: logprobs(answer), finish_reason };
    },
    opening: (index) => chunk(index, { role: 'assistant', content: '' }),
    delta: (index, answer) => {
      const { text, calls = [] } = answer;
      if (calls.length === 0) return { ...chunk(index, { content: text }), logprobs: logprobs(answer) };
      const content = text === '' ? {} : { content: text };
      const tool_calls = calls.map((piece) => callPiece(piece, callId(index, piece.index)));
      return chunk(index, { ...content, tool_calls });
    },
    thought: (index, thought) => chunk(index, { reasoning_content: thought }),
    closing: (index, finishReason) => chunk(index, {}, finishReason),
  };
}

function callPiece({ index, name, arguments: given }: CallPiece, id: string): z.infer<typeof callDelta> {
  if (name === undefined) return { index, function: { arguments: given } };
  return { index, id, type: 'function', function: { name, arguments: given } };
}

/** Formats the choices of completions: their text, or a piece of it. */
export function completionFormat({ tokenizer }: Facts): ChoiceFormat {
  const choice = (
    index: number,
    { text, sentTokens }: AnswerText,
    finish_reason: FinishReason | null,
  ): z.infer<typeof completionChoice> => {
    const logprobs = sentTokens === undefined ? null : listedLogprobs(tokenizer, sentTokens);
    return { index, text, logprobs, finish_reason };
  };
  return {
    prefix: 'cmpl-',
    object: 'text_completion',
    chunkObject: 'text_completion',
    choice,
    opening: () => undefined,
    delta: (index, text) => choice(index, text, null),
    closing: (index, finishReason) => choice(index, { text: '' }, finishReason),
  };
}

/**
 * The form of completions: four parallel lists. top_logprobs always includes the token itself. The first token of an
 * echoed prompt has null, because nothing comes before it.
 */
function listedLogprobs(
  tokenizer: Pick<Tokenizer, 'bytes'>,
  tokens: readonly SentToken[],
): z.infer<typeof completionLogprobs> {
  const name = (id: number): string => {
    const { text, isText } = tokenText(tokenizer.bytes(id));
    return isText ? text : `bytes:${text}`;
  };
  return {
    text_offset: tokens.map(({ textOffset }) => textOffset),
    token_logprobs: tokens.map(({ logprobs }) =>
      logprobs === undefined ? null : finiteLogprob(logprobs.logprob),
    ),
    tokens: tokens.map(({ id }) => name(id)),
    top_logprobs: tokens.map(({ id, logprobs }) => {
      if (logprobs === undefined) return null;
      const { logprob, topIds, topLogprobs } = logprobs;
      const top = topIds.map(
        (topId, rank) => [name(topId), finiteLogprob(topLogprobs[rank] as number)] as const,
      );
      return Object.fromEntries([...top, [name(id), finiteLogprob(logprob)]]);
    }),
  };
}
