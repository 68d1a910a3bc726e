import { randomUUID } from 'node:crypto';
import * as z from 'zod';
import type { Encoding, EventEncoder, EventOutlet, Facts } from '../../calls/call.ts';
import type { FinishedChoice } from '../../calls/whole-answer.ts';
import type { ApiError } from '../../errors/api-error.ts';
import { type AnswerEnd, type AnswerPart, isCutShort } from '../../generation/text-stream.ts';
import { dataEvent } from '../../server/streams/response-stream.ts';
import { ending, type Mark, mark, markFields } from '../answer-fields.ts';
import { openAiErrorBody } from '../error-bodies.ts';
import {
  type BesideFinish,
  type ChoiceFormat,
  chatChoice,
  chatChunkChoice,
  completionChoice,
  type FinishReason,
} from './choices.ts';

/** Answers of OpenAI's generating routes, whole and as chunks. ChoiceFormat has the differences between the routes. */

const usageSchema = z
  .object({
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    prompt_tokens_details: z.object({ cached_tokens: z.int() }),
    completion_tokens_details: z.object({ reasoning_tokens: z.int() }).optional(),
  })
  .meta({ title: 'Usage' });
type Usage = z.infer<typeof usageSchema>;

/** The members of all answers; an answer's own come after them. */
function envelope<Name extends string, Own extends z.ZodRawShape>(object: Name, own: Own) {
  return z.object({
    id: z.string(),
    created: z.int(),
    model: z.string(),
    system_fingerprint: z.string(),
    ...markFields,
    object: z.literal(object),
    ...own,
  });
}

/** The usage is in the last chunk, after all choices; it is null in the others. */
const chunkUsage = { usage: usageSchema.nullable().optional() };

export const chatCompletionSchema = envelope('chat.completion', {
  choices: z.array(chatChoice),
  usage: usageSchema,
}).meta({ title: 'ChatCompletion' });

export const chatChunkSchema = envelope('chat.completion.chunk', {
  choices: z.array(chatChunkChoice),
  ...chunkUsage,
}).meta({ title: 'ChatCompletionChunk' });

export const completionSchema = envelope('text_completion', {
  choices: z.array(completionChoice),
  usage: usageSchema,
}).meta({ title: 'Completion' });

export const completionChunkSchema = envelope('text_completion', {
  choices: z.array(completionChoice),
  ...chunkUsage,
}).meta({ title: 'CompletionChunk' });

/** The members of both routes' answers that do not depend on the ChoiceFormat. */
type Envelope = Omit<z.infer<typeof chatCompletionSchema>, 'object' | 'choices'>;
type ChunkEnvelope = Omit<z.infer<typeof chatChunkSchema>, 'object' | 'choices'>;

/** What the answers repeat or obey of the request. */
interface Asked {
  readonly model: string;
  readonly stream_options?: { readonly include_usage: boolean } | undefined;
}

interface Completion extends Asked {
  readonly facts: Facts;
}

function finishReasonOf(end: AnswerEnd): FinishReason {
  if (end.reason === 'eos' && (end.numCalls ?? 0) > 0) return 'tool_calls';
  return isCutShort(end) ? 'length' : 'stop';
}

function wholeCompletion(
  completion: Completion,
  shape: ChoiceFormat,
  finished: readonly FinishedChoice[],
): object {
  const ends = new Map(finished.map(({ end }, index) => [index, end]));
  const choices = finished.map(({ end, ...text }, index) => {
    return { ...shape.choice(index, text, finishReasonOf(end)), ...besideFinish(end) };
  });
  const continued = finished.find(({ end }) => end.continuedBy !== undefined);
  const counted = { usage: usageOf(completion.facts, ends), ...mark(continued?.end) };
  const answer = { ...begun(completion, shape, shape.object), choices, ...counted };
  return answer satisfies Envelope;
}

/** The first members of an answer and of each of its chunks. */
function begun({ model, facts }: Completion, { prefix }: ChoiceFormat, object: string) {
  const created = Math.floor(facts.createdMs / 1000);
  return { id: prefix + facts.uuid, object, created, model, system_fingerprint: facts.numericsId };
}

/** The members of a choice that go with its finish_reason. */
function besideFinish(end: AnswerEnd): BesideFinish {
  return { ...ending(end), ...(end.timings && { timings: end.timings }) };
}

function usageOf(
  { numPromptTokens, numChoicesPerPrompt }: Facts,
  ends: ReadonlyMap<number, AnswerEnd>,
): Usage {
  let numTokens = 0;
  let numCachedTokens = 0;
  let numThinkingTokens: number | undefined;
  for (const [index, end] of ends) {
    numTokens += end.numTokens;
    if (end.numThinkingTokens !== undefined)
      numThinkingTokens = (numThinkingTokens ?? 0) + end.numThinkingTokens;
    // Each prompt counts once: its later choices find in the cache what the first one computed.
    if (index % numChoicesPerPrompt === 0) numCachedTokens += end.numCachedTokens;
  }
  return {
    prompt_tokens: numPromptTokens,
    completion_tokens: numTokens,
    total_tokens: numPromptTokens + numTokens,
    prompt_tokens_details: { cached_tokens: numCachedTokens },
    ...(numThinkingTokens !== undefined && {
      completion_tokens_details: { reasoning_tokens: numThinkingTokens },
    }),
  };
}

const DONE = dataEvent('[DONE]');

/** How a route with this format writes its answers. */
export function completionEncoding(asked: Asked, formatOf: (facts: Facts) => ChoiceFormat): Encoding {
  const { model, stream_options } = asked;
  const request = { model, stream_options };
  return {
    whole: (facts, choices) =>
      JSON.stringify(wholeCompletion({ ...request, facts }, formatOf(facts), choices)),
    stream: (facts, outlet) => new CompletionEvents({ ...request, facts }, formatOf(facts), outlet),
    failureEvent: (error) => errorEvent(error) + DONE,
  };
}

function errorEvent(error: ApiError): string {
  return dataEvent(JSON.stringify(openAiErrorBody(error)));
}

/** The JSON before and after the text, which is the same in each chunk of a choice. */
type Frame = readonly [prefix: string, suffix: string];

/** Stands for the text while a frame is made. No real text equals it. */
const PLACEHOLDER = randomUUID();

/**
 * Writes an answer as chunks: for each choice its opening, its text and its finish_reason; then the usage if asked for,
 * and `[DONE]`. A failure becomes an error object in the stream, which clients raise: a stream never just stops.
 */
class CompletionEvents implements EventEncoder {
  readonly #completion: Completion;
  readonly #includesUsage: boolean;
  readonly #shape: ChoiceFormat;
  readonly #outlet: EventOutlet;
  /** The frames of text by choice, from its first text on, and those of thinking. */
  readonly #frames: Frame[] = [];
  readonly #thoughtFrames: Frame[] = [];
  readonly #ends = new Map<number, AnswerEnd>();

  /** Writes the openings of all choices. */
  constructor(completion: Completion, shape: ChoiceFormat, outlet: EventOutlet) {
    this.#completion = completion;
    this.#includesUsage = completion.stream_options?.include_usage ?? false;
    this.#shape = shape;
    this.#outlet = outlet;
    for (let index = 0; index < completion.facts.numChoices; index++) {
      const opening = shape.opening(index);
      if (opening !== undefined) outlet.write(this.#chunk([opening]));
    }
  }

  onPart(part: AnswerPart, index: number): void {
    const { thought, text, sentTokens, calls = [], end } = part;
    if (thought !== undefined) this.#outlet.write(this.#thoughtDelta(index, thought));
    if (text !== '' || calls.length > 0) {
      const isPlain = sentTokens === undefined && calls.length === 0;
      this.#outlet.write(isPlain ? this.#plainDelta(index, text) : this.#delta(index, part));
    }
    if (end !== undefined) this.#onEnd(index, end);
  }

  onFailure(error: ApiError): void {
    this.#outlet.write(errorEvent(error));
    this.#done();
  }

  #delta(index: number, part: AnswerPart): string {
    return this.#chunk([this.#shape.delta(index, part)]);
  }

  /** Makes the same bytes as #delta for a text without log-probabilities, from a frame that is made once. */
  #plainDelta(index: number, text: string): string {
    this.#frames[index] ??= this.#frameOf(this.#shape.delta(index, { text: PLACEHOLDER }));
    return framed(this.#frames[index], text);
  }

  #thoughtDelta(index: number, thought: string): string {
    this.#thoughtFrames[index] ??= this.#frameOf(this.#shape.thought?.(index, PLACEHOLDER) ?? {});
    return framed(this.#thoughtFrames[index], thought);
  }

  /** Makes the frame of a delta whose text is PLACEHOLDER. */
  #frameOf(delta: object): Frame {
    const [prefix = '', suffix = ''] = this.#chunk([delta]).split(JSON.stringify(PLACEHOLDER));
    return [prefix, suffix];
  }

  #onEnd(index: number, end: AnswerEnd): void {
    const closing = { ...this.#shape.closing(index, finishReasonOf(end)), ...besideFinish(end) };
    this.#outlet.write(this.#chunk([closing], null, mark(end)));
    this.#ends.set(index, end);
    const { facts } = this.#completion;
    if (this.#ends.size < facts.numChoices) return;
    if (this.#includesUsage) this.#outlet.write(this.#chunk([], usageOf(facts, this.#ends)));
    this.#done();
  }

  #done(): void {
    this.#outlet.write(DONE);
    this.#outlet.end();
  }

  #chunk(choices: object[], usage: Usage | null = null, more: Mark = {}): string {
    const common = { ...begun(this.#completion, this.#shape, this.#shape.chunkObject), choices, ...more };
    const chunk = { ...common, ...(this.#includesUsage && { usage }) } satisfies ChunkEnvelope;
    return dataEvent(JSON.stringify(chunk));
  }
}

function framed([prefix, suffix]: Frame, text: string): string {
  return prefix + JSON.stringify(text) + suffix;
}
