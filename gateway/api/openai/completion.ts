import { randomUUID } from 'node:crypto';
import type { Encoding, EventEncoder, EventOutlet, Facts } from '../../calls/call.ts';
import { type ChoiceText, choiceText, type FinishedChoice, textOf } from '../../calls/whole-answer.ts';
import type { ApiError } from '../../errors/api-error.ts';
import { type AnswerEnd, type AnswerPart, isCutShort } from '../../generation/text-stream.ts';
import { dataEvent } from '../../server/streams/sse.ts';
import { endedBy, type Mark, mark } from '../answer-fields.ts';
import {
  type BesideFinish,
  type ChunkEnvelope,
  type CompletionEnvelope,
  type FinishReason,
  openAiErrorBody,
  type Usage,
} from './answers.ts';

/** Answers of OpenAI's generating routes, whole and as chunks. ChoiceFormat has the differences between the routes. */

export interface Completion {
  readonly model: string;
  readonly includesUsage: boolean;
  readonly facts: Facts;
}

export interface ChoiceFormat {
  /** Begins the answer's id. */
  readonly prefix: string;
  readonly object: string;
  readonly chunkObject: string;
  /** A whole choice. */
  choice(index: number, text: ChoiceText, finishReason: FinishReason): object;
  /** The first chunk of a choice, before its text; undefined if there is none. */
  opening(index: number): object | undefined;
  delta(index: number, text: ChoiceText): object;
  /** A chunk of new thinking. Undefined for a format that has none. */
  readonly thought?: (index: number, thought: string) => object;
  closing(index: number, finishReason: FinishReason): object;
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
  const counted = { usage: usage(completion.facts, ends), ...mark(continued?.end) };
  const answer = { ...begun(completion, shape, shape.object), choices, ...counted };
  return answer satisfies CompletionEnvelope;
}

/** The first members of an answer and of each of its chunks. */
function begun({ model, facts }: Completion, { prefix }: ChoiceFormat, object: string) {
  const created = Math.floor(facts.createdMs / 1000);
  return { id: prefix + facts.uuid, object, created, model, system_fingerprint: facts.numericsId };
}

/** The members of a choice that go with its finish_reason. */
function besideFinish(end: AnswerEnd): BesideFinish {
  return { ...endedBy(end), ...(end.timings === undefined ? {} : { timings: end.timings }) };
}

function usage({ numPromptTokens, numChoicesPerPrompt }: Facts, ends: ReadonlyMap<number, AnswerEnd>): Usage {
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
    ...(numThinkingTokens === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: numThinkingTokens } }),
  };
}

const DONE = dataEvent('[DONE]');

/** How a route with this format writes its answers. */
export function completionEncoding(
  request: Omit<Completion, 'facts'>,
  formatOf: (facts: Facts) => ChoiceFormat,
): Encoding {
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
interface Frame {
  readonly prefix: string;
  readonly suffix: string;
}

/** Stands for the text while a frame is made. No real text equals it. */
const PLACEHOLDER = randomUUID();

/**
 * Writes an answer as chunks: for each choice its opening, its text and its finish_reason; then the usage if asked for,
 * and `[DONE]`. A failure becomes an error object in the stream, which clients raise: a stream never just stops.
 */
class CompletionEvents implements EventEncoder {
  readonly #completion: Completion;
  readonly #shape: ChoiceFormat;
  readonly #outlet: EventOutlet;
  /** The frames of text by choice, from its first text on. */
  readonly #frames: Frame[] = [];
  /** The frames of thinking by choice. */
  readonly #thoughtFrames: Frame[] = [];
  readonly #ends = new Map<number, AnswerEnd>();

  /** Writes the openings of all choices. */
  constructor(completion: Completion, shape: ChoiceFormat, outlet: EventOutlet) {
    this.#completion = completion;
    this.#shape = shape;
    this.#outlet = outlet;
    for (let index = 0; index < completion.facts.numChoices; index++) {
      const opening = shape.opening(index);
      if (opening !== undefined) outlet.write(this.#chunk([opening]));
    }
  }

  onPart(part: AnswerPart, index: number): void {
    const { thought, pieces, sentTokens, calls = [], end } = part;
    const text = textOf(pieces);
    if (thought !== undefined) this.#outlet.write(this.#thoughtDelta(index, thought));
    if (text !== '' || calls.length > 0) {
      const isPlain = sentTokens === undefined && calls.length === 0;
      const delta = isPlain ? this.#plainDelta(index, text) : this.#delta(index, part);
      this.#outlet.write(delta);
    }
    if (end !== undefined) this.#onEnd(index, end);
  }

  onFailure(error: ApiError): void {
    this.#outlet.write(errorEvent(error));
    this.#done();
  }

  #delta(index: number, part: AnswerPart): string {
    return this.#chunk([this.#shape.delta(index, choiceText(part))]);
  }

  /** Makes the same bytes as #delta for a text without log-probabilities, from a frame that is made once. */
  #plainDelta(index: number, text: string): string {
    this.#frames[index] ??= this.#frameOf(
      this.#shape.delta(index, { text: PLACEHOLDER, tokens: undefined, calls: [] }),
    );
    return framed(this.#frames[index], text);
  }

  #thoughtDelta(index: number, thought: string): string {
    this.#thoughtFrames[index] ??= this.#frameOf(this.#shape.thought?.(index, PLACEHOLDER) ?? {});
    return framed(this.#thoughtFrames[index], thought);
  }

  /** Makes the frame of a delta whose text is PLACEHOLDER. */
  #frameOf(delta: object): Frame {
    const [prefix = '', suffix = ''] = this.#chunk([delta]).split(JSON.stringify(PLACEHOLDER));
    return { prefix, suffix };
  }

  #onEnd(index: number, end: AnswerEnd): void {
    const closing = { ...this.#shape.closing(index, finishReasonOf(end)), ...besideFinish(end) };
    this.#outlet.write(this.#chunk([closing], null, mark(end)));
    this.#ends.set(index, end);
    if (this.#ends.size < this.#completion.facts.numChoices) return;
    if (this.#completion.includesUsage)
      this.#outlet.write(this.#chunk([], usage(this.#completion.facts, this.#ends)));
    this.#done();
  }

  #done(): void {
    this.#outlet.write(DONE);
    this.#outlet.end();
  }

  #chunk(choices: object[], usageOrNull: Usage | null = null, more: Mark = {}): string {
    const common = { ...begun(this.#completion, this.#shape, this.#shape.chunkObject), choices, ...more };
    const counts = this.#completion.includesUsage ? { usage: usageOrNull } : {};
    const chunk = { ...common, ...counts } satisfies ChunkEnvelope;
    return dataEvent(JSON.stringify(chunk));
  }
}

function framed({ prefix, suffix }: Frame, text: string): string {
  return prefix + JSON.stringify(text) + suffix;
}
