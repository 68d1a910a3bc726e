import type { MergedSink } from '../../generation/merge-streams.ts';
import type { SentToken } from '../../generation/sent-tokens.ts';
import type { AnswerEnd, AnswerPart, EndReason } from '../../generation/text-stream.ts';
import { appendCalls, type CallPiece } from '../../generation/tool-call-parser.ts';
import { textOf } from '../whole-text.ts';
import type { BesideFinish, CompletionEnvelope, EndedBy, FinishReason, Mark, Usage } from './answers.ts';

/** What answers of OpenAI's generating routes have in common, whole and in chunks (completion-events.ts); a ChoiceFormat is what they have not. */

export interface Completion {
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  /** The numerics id of the runner that takes the request. */
  readonly systemFingerprint: string;
  /** Of all prompts, each counted once however many choices it has. */
  readonly numPromptTokens: number;
  readonly numChoices: number;
  /** The choices of a prompt stand together. */
  readonly numChoicesPerPrompt: number;
}

/** The text of a choice or a piece of it; its tokens if log-probabilities were asked for. */
export interface ChoiceText {
  readonly text: string;
  /** What is thought in front of it; absent: nothing. */
  readonly thought?: string | undefined;
  readonly tokens: readonly SentToken[] | undefined;
  /** Calls of tools in it, one piece of each, or whole. */
  readonly calls: readonly CallPiece[];
}

export interface ChoiceFormat {
  readonly object: string;
  readonly chunkObject: string;
  /** A whole choice. */
  choice(index: number, text: ChoiceText, finishReason: FinishReason): object;
  /** What a stream says of a choice before its first text, if anything. */
  opening(index: number): object | undefined;
  delta(index: number, text: ChoiceText): object;
  /** What is new of what is thought; absent: nothing ever is. */
  readonly thought?: (index: number, thought: string) => object;
  closing(index: number, finishReason: FinishReason): object;
}

const FINISH_REASONS: Record<EndReason, FinishReason> = {
  eos: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
  time_limit: 'length',
};

export function finishReasonOf({ reason, numCalls = 0 }: AnswerEnd): FinishReason {
  return reason === 'eos' && numCalls > 0 ? 'tool_calls' : FINISH_REASONS[reason];
}

/** A text as it comes. */
export class GrowingText implements ChoiceText {
  text = '';
  thought: string | undefined;
  readonly calls: CallPiece[] = [];
  tokens: SentToken[] | undefined;

  append(piece: ChoiceText): void {
    appendCalls(this.calls, piece.calls, this.text.length);
    this.text += piece.text;
    if (piece.thought !== undefined) this.thought = (this.thought ?? '') + piece.thought;
    if (piece.tokens === undefined) return;
    this.tokens ??= [];
    for (const token of piece.tokens) this.tokens.push(token);
  }
}

/** The whole answer, when all of it has come. */
export class WholeCompletion implements MergedSink {
  readonly #completion: Completion;
  readonly #shape: ChoiceFormat;
  readonly #texts: readonly GrowingText[];
  readonly #ends = new Map<number, AnswerEnd>();
  /** Rejects with what ended the generation. */
  readonly answer: Promise<object>;
  #resolve: (answer: object) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(completion: Completion, shape: ChoiceFormat) {
    this.#completion = completion;
    this.#shape = shape;
    this.#texts = Array.from({ length: completion.numChoices }, () => new GrowingText());
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  onPart(index: number, part: AnswerPart): void {
    this.#texts[index]?.append(choiceText(part));
    if (part.end === undefined) return;
    this.#ends.set(index, part.end);
    if (this.#ends.size === this.#texts.length) this.#resolve(this.#whole());
  }

  onError(error: unknown): void {
    this.#reject(error);
  }

  #whole(): object {
    const choices = this.#texts.map((text, index) => {
      const end = this.#ends.get(index);
      if (end === undefined) throw new Error('an answer ended without saying why');
      return { ...this.#shape.choice(index, text, finishReasonOf(end)), ...besideFinish(end) };
    });
    const { id, created, model, systemFingerprint: system_fingerprint } = this.#completion;
    const continued = [...this.#ends.values()].find(({ continuedBy }) => continuedBy !== undefined);
    const { object } = this.#shape;
    const counted = { usage: usage(this.#completion, this.#ends), ...mark(continued) };
    const answer = { id, object, created, model, system_fingerprint, choices, ...counted };
    return answer satisfies CompletionEnvelope;
  }
}

/** What an answer has that went on by other arithmetic than it began with. */
export function mark(end: AnswerEnd | undefined): Mark {
  return end?.continuedBy === undefined ? {} : { continued_by: end.continuedBy };
}

/** Beside `length` of a choice that ended before its time: more tokens would not have helped. */
export function endedBy({ reason }: AnswerEnd): EndedBy {
  return reason === 'time_limit' ? { ended_by: reason } : {};
}

/** What a choice has beside its finish_reason. */
export function besideFinish(end: AnswerEnd): BesideFinish {
  return { ...endedBy(end), ...(end.timings === undefined ? {} : { timings: end.timings }) };
}

export function choiceText({ thought, pieces, sentTokens, calls = [] }: AnswerPart): ChoiceText {
  return { text: textOf(pieces), thought, tokens: sentTokens, calls };
}

export function usage(completion: Completion, ends: ReadonlyMap<number, AnswerEnd>): Usage {
  const { numPromptTokens, numChoicesPerPrompt } = completion;
  let numTokens = 0;
  let numCachedTokens = 0;
  let numThinkingTokens: number | undefined;
  for (const [index, end] of ends) {
    numTokens += end.numTokens;
    if (end.numThinkingTokens !== undefined)
      numThinkingTokens = (numThinkingTokens ?? 0) + end.numThinkingTokens;
    // A prompt counts once: the later choices find in the cache what the first one had to compute.
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
