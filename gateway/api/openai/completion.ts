import { toApiError } from '../../errors/api-error.ts';
import type { IndexedPart } from '../../generation/merge-streams.ts';
import type { SentToken } from '../../generation/sent-tokens.ts';
import type { AnswerEnd, EndReason } from '../../generation/text-stream.ts';
import { dataEvent } from '../../server/streams/sse.ts';
import { openAiErrorBody } from './errors.ts';

/** What answers of OpenAI's generating routes have in common, whole and in chunks; a Shape is what they have not. */

export interface Completion {
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  /** Of all prompts, each counted once however many choices it has. */
  readonly numPromptTokens: number;
  readonly numChoices: number;
  /** The choices of a prompt stand together. */
  readonly numChoicesPerPrompt: number;
}

/** The text of a choice or a piece of it; its tokens if log-probabilities were asked for. */
export interface ChoiceText {
  readonly text: string;
  readonly tokens: readonly SentToken[] | undefined;
}

export type FinishReason = 'stop' | 'length';

export interface ChoiceFormat {
  readonly object: string;
  readonly chunkObject: string;
  /** A whole choice. */
  choice(index: number, text: ChoiceText, finishReason: FinishReason): object;
  /** What a stream says of a choice before its first text, if anything. */
  opening(index: number): object | undefined;
  delta(index: number, text: ChoiceText): object;
  closing(index: number, finishReason: FinishReason): object;
}

export interface EventOptions {
  readonly includeUsage: boolean;
  /** Sees what ended the stream before its time; the client sees only what toApiError lets through. */
  readonly onError: (error: unknown) => void;
}

/** What is written waits in the connection as text, many times as large as the numbers it is made of. */
const MAX_JOINED_CHARS = 2 ** 16;

type Task = AsyncIterable<readonly IndexedPart[]>;

const FINISH_REASONS: Record<EndReason, FinishReason> = {
  eos: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
  time_limit: 'length',
};

class GrowingText implements ChoiceText {
  text = '';
  tokens: SentToken[] | undefined;

  append(piece: ChoiceText): void {
    this.text += piece.text;
    if (piece.tokens === undefined) return;
    this.tokens ??= [];
    for (const token of piece.tokens) this.tokens.push(token);
  }
}

/** The whole answer; throws what the generation throws. */
export async function wholeCompletion(
  completion: Completion,
  shape: ChoiceFormat,
  steps: Task,
): Promise<object> {
  const texts = Array.from({ length: completion.numChoices }, () => new GrowingText());
  const ends = new Map<number, AnswerEnd>();
  for await (const parts of steps) {
    for (const { index, part } of parts) {
      texts[index]?.append(choiceText(part));
      if (part.end !== undefined) ends.set(index, part.end);
    }
  }
  const choices = texts.map((text, index) => {
    const end = ends.get(index);
    if (end === undefined) throw new Error('an answer ended without saying why');
    return { ...shape.choice(index, text, FINISH_REASONS[end.reason]), ...endedBy(end) };
  });
  const { id, created, model } = completion;
  const continued = [...ends.values()].find(({ continuedBy }) => continuedBy !== undefined);
  const common = { id, object: shape.object, created, model, choices, usage: usage(completion, ends) };
  return { ...common, ...mark(continued) };
}

/**
 * The same as chunks: for each choice its opening, text, finish_reason; then usage if asked for, and `[DONE]`. A
 * failure becomes an error object in the stream, which clients raise; a stream never just stops.
 */
export async function* completionEvents(
  completion: Completion,
  shape: ChoiceFormat,
  steps: Task,
  options: EventOptions,
): AsyncGenerator<string> {
  const { includeUsage } = options;
  const { id, created, model, numChoices } = completion;
  const chunk = (choices: object[], usageOrNull: object | null = null, more: object = {}): string => {
    const common = { id, object: shape.chunkObject, created, model, choices, ...more };
    return dataEvent(JSON.stringify({ ...common, ...(includeUsage ? { usage: usageOrNull } : {}) }));
  };
  const openings = Array.from({ length: numChoices }, (_, index) => shape.opening(index));
  const opened = openings.map((choice) => (choice === undefined ? '' : chunk([choice]))).join('');
  if (opened !== '') yield opened;
  const ends = new Map<number, AnswerEnd>();
  try {
    for await (const parts of steps) {
      // One write for all that a step brought, unless a slow client let a lot come together.
      let events = '';
      for (const { index, part } of parts) {
        if (events.length > MAX_JOINED_CHARS) {
          yield events;
          events = '';
        }
        const text = choiceText(part);
        if (text.text !== '') events += chunk([shape.delta(index, text)]);
        if (part.end === undefined) continue;
        const closing = { ...shape.closing(index, FINISH_REASONS[part.end.reason]), ...endedBy(part.end) };
        events += chunk([closing], null, mark(part.end));
        ends.set(index, part.end);
      }
      if (includeUsage && ends.size === numChoices) events += chunk([], usage(completion, ends));
      if (events !== '') yield events;
    }
  } catch (error) {
    options.onError(error);
    yield dataEvent(JSON.stringify(openAiErrorBody(toApiError(error))));
  }
  yield dataEvent('[DONE]');
}

/** What an answer has that went on by other arithmetic than it began with. */
function mark(end: AnswerEnd | undefined): object {
  return end?.continuedBy === undefined ? {} : { continued_by: end.continuedBy };
}

/** Beside `length` of a choice that ended before its time: more tokens would not have helped. */
function endedBy({ reason }: AnswerEnd): object {
  return reason === 'time_limit' ? { ended_by: reason } : {};
}

function choiceText({ pieces, sentTokens }: IndexedPart['part']): ChoiceText {
  return { text: pieces.map((piece) => piece.text).join(''), tokens: sentTokens };
}

function usage(completion: Completion, ends: ReadonlyMap<number, AnswerEnd>): object {
  const { numPromptTokens, numChoicesPerPrompt } = completion;
  let numTokens = 0;
  let numCachedTokens = 0;
  for (const [index, end] of ends) {
    numTokens += end.numTokens;
    // A prompt counts once: the later choices find in the cache what the first one had to compute.
    if (index % numChoicesPerPrompt === 0) numCachedTokens += end.numCachedTokens;
  }
  return {
    prompt_tokens: numPromptTokens,
    completion_tokens: numTokens,
    total_tokens: numPromptTokens + numTokens,
    prompt_tokens_details: { cached_tokens: numCachedTokens },
  };
}
