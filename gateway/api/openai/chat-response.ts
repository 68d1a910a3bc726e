import { GenerationError } from '../../runner/runner.ts';
import type { AnswerEnd, AnswerPart, EndReason } from '../../tokenizer/answer.ts';
import { toApiError } from '../error.ts';
import { dataEvent } from '../sse.ts';
import { openAiErrorBody } from './errors.ts';

/** Shapes of chat completions, whole and in chunks. */

export interface Completion {
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly numPromptTokens: number;
}

const FINISH_REASONS: Record<EndReason, 'stop' | 'length'> = {
  eos: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
};

/** The whole answer; throws what the generation throws. */
export async function chatCompletion(
  completion: Completion,
  answer: AsyncIterable<AnswerPart>,
): Promise<object> {
  let content = '';
  let end: AnswerEnd | undefined;
  for await (const part of answer) {
    for (const piece of part.pieces) content += piece.text;
    end = part.end ?? end;
  }
  if (end === undefined) throw new Error('the answer ended without saying why');
  return {
    id: completion.id,
    object: 'chat.completion',
    created: completion.created,
    model: completion.model,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content, refusal: null },
        logprobs: null,
        finish_reason: FINISH_REASONS[end.reason],
      },
    ],
    usage: usage(completion, end),
  };
}

/**
 * The same as chunks: role, content, finish_reason, usage if asked for, `[DONE]`. A failure becomes an error object in
 * the stream, which clients raise; a stream never just stops.
 */
export async function* chatCompletionEvents(
  completion: Completion,
  answer: AsyncIterable<AnswerPart>,
  includeUsage: boolean,
  onFault: (error: unknown) => void,
): AsyncGenerator<string> {
  const chunk = (choices: object[], usageOrNull: object | null = null): string =>
    dataEvent(
      JSON.stringify({
        id: completion.id,
        object: 'chat.completion.chunk',
        created: completion.created,
        model: completion.model,
        choices,
        ...(includeUsage ? { usage: usageOrNull } : {}),
      }),
    );
  const choice = (delta: object, finishReason: string | null = null): object[] => [
    { index: 0, delta, logprobs: null, finish_reason: finishReason },
  ];

  yield chunk(choice({ role: 'assistant', content: '' }));
  try {
    for await (const part of answer) {
      const content = part.pieces.map((piece) => piece.text).join('');
      let events = content === '' ? '' : chunk(choice({ content }));
      if (part.end !== undefined) {
        events += chunk(choice({}, FINISH_REASONS[part.end.reason]));
        if (includeUsage) events += chunk([], usage(completion, part.end));
      }
      if (events !== '') yield events;
    }
  } catch (error) {
    if (!(error instanceof GenerationError)) onFault(error);
    yield dataEvent(JSON.stringify(openAiErrorBody(toApiError(error))));
  }
  yield dataEvent('[DONE]');
}

function usage(completion: Completion, end: AnswerEnd): object {
  return {
    prompt_tokens: completion.numPromptTokens,
    completion_tokens: end.numTokens,
    total_tokens: completion.numPromptTokens + end.numTokens,
  };
}
