import type { AnswerEnd } from '../../generation/text-stream.ts';
import { type CallPiece, inOrder } from '../../generation/tool-call-parser.ts';
import { RawJson } from '../json-text.ts';
import { endedBy, mark } from '../openai/completion.ts';
import type { FinishedText } from '../whole-text.ts';
import type { Block, CallBlock, MessageObject, Stop, TextBlock, ThinkingBlock, Usage } from './answers.ts';

/** An answer of Anthropic's API, whole or as events (message-events.ts). */

export interface Message {
  readonly id: string;
  /** The name in the request. */
  readonly model: string;
  readonly numPromptTokens: number;
  /** max_tokens of the request, or the server's limit if that is less. The context may leave less. */
  readonly maxTokens: number;
  /** Whether the first block is text, because the answer can neither think nor call tools. */
  readonly beginsWithText: boolean;
  /** The signature of the thinking block, which Anthropic's clients require. Nobody checks it. */
  readonly signature: string;
  /** The id of a call, by its index among the answer's calls. */
  readonly callId: (call: number) => string;
}

/** The reason of the end, with its marks. */
export function stopOf({ maxTokens }: Message, end: AnswerEnd): Stop {
  return {
    stop_reason: stopReason(maxTokens, end),
    stop_sequence: end.stopMatched,
    ...endedBy(end),
    ...mark(end),
  };
}

function stopReason(maxTokens: number, { reason, numTokens, numCalls = 0 }: AnswerEnd): Stop['stop_reason'] {
  if (reason === 'eos') return numCalls > 0 ? 'tool_use' : 'end_turn';
  if (reason === 'stop_sequence') return reason;
  if (reason === 'time_limit' || numTokens >= maxTokens) return 'max_tokens';
  return 'model_context_window_exceeded';
}

/**
 * The usage. Prompt tokens that were found in the cache are counted apart from the others. end: undefined before it is
 * known.
 */
export function usageOf({ numPromptTokens }: Message, end: AnswerEnd | undefined): Usage {
  const numCachedTokens = end?.numCachedTokens ?? 0;
  return {
    input_tokens: numPromptTokens - numCachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: numCachedTokens,
    output_tokens: end?.numTokens ?? 0,
  };
}

export function messageObject(message: Message, content: Block[], stop: Stop, usage: Usage): MessageObject {
  const { id, model } = message;
  return { id, type: 'message', role: 'assistant', model, content, ...stop, usage };
}

/** The whole message. It leaves out a call that is cut off: the call's input would not be an object. */
export function wholeMessage(message: Message, { thought, text, calls, end }: FinishedText): MessageObject {
  const whole = calls.slice(0, end.numCalls);
  const content = inOrder(text, whole).map((item) => {
    return typeof item === 'string' ? textBlock(item) : callBlock(message, item, new RawJson(item.arguments));
  });
  const said = content.length === 0 ? [textBlock('')] : content;
  const blocks = thought === '' ? said : [thinkingBlock(thought, message.signature), ...said];
  return messageObject(message, blocks, stopOf(message, end), usageOf(message, end));
}

export function textBlock(text: string): TextBlock {
  return { type: 'text', text };
}

export function thinkingBlock(thinking: string, signature: string): ThinkingBlock {
  return { type: 'thinking', thinking, signature };
}

export function callBlock({ callId }: Message, { index, name = '' }: CallPiece, input: object): CallBlock {
  return { type: 'tool_use', id: callId(index), name, input };
}
