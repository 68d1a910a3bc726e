import type { AnswerEnd } from '../../generation/text-stream.ts';
import { endedBy, mark } from '../openai/completion.ts';
import type { FinishedText } from '../whole-text.ts';

/** An answer as Anthropic's API has it, whole and in events (message-events.ts). */

export interface Message {
  readonly id: string;
  /** As the request names it. */
  readonly model: string;
  readonly numPromptTokens: number;
  /** As the request says it; the context may leave less. */
  readonly maxTokens: number;
}

export type StopReason = 'end_turn' | 'max_tokens' | 'stop_sequence' | 'model_context_window_exceeded';

export interface Stop {
  readonly stop_reason: StopReason | null;
  readonly stop_sequence: string | null;
}

/** With what else there is to say of an end. */
export function stopOf({ maxTokens }: Message, end: AnswerEnd): Stop {
  return {
    stop_reason: stopReason(maxTokens, end),
    stop_sequence: end.stopMatched,
    ...endedBy(end),
    ...mark(end),
  };
}

function stopReason(maxTokens: number, { reason, numTokens }: AnswerEnd): StopReason {
  if (reason === 'eos') return 'end_turn';
  if (reason === 'stop_sequence') return reason;
  if (reason === 'time_limit' || numTokens >= maxTokens) return 'max_tokens';
  return 'model_context_window_exceeded';
}

/** Tokens of the prompt that were found in the cache are counted apart from the others; undefined: not known yet. */
export function usageOf({ numPromptTokens }: Message, end: AnswerEnd | undefined): object {
  const numCachedTokens = end?.numCachedTokens ?? 0;
  return {
    input_tokens: numPromptTokens - numCachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: numCachedTokens,
    output_tokens: end?.numTokens ?? 0,
  };
}

export function messageObject(
  message: Message,
  content: readonly object[],
  stop: Stop,
  usage: object,
): object {
  const { id, model } = message;
  return { id, type: 'message', role: 'assistant', model, content, ...stop, usage };
}

export function wholeMessage(message: Message, { text, end }: FinishedText): object {
  const content = [{ type: 'text', text }];
  return messageObject(message, content, stopOf(message, end), usageOf(message, end));
}
