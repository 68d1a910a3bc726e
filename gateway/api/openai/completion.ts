import type { Facts } from '../../calls/call.ts';
import type { ChoiceText, FinishedChoice } from '../../calls/whole-answer.ts';
import type { AnswerEnd, EndReason } from '../../generation/text-stream.ts';
import { endedBy, mark } from '../answer-fields.ts';
import type { BesideFinish, CompletionEnvelope, FinishReason, Usage } from './answers.ts';

/**
 * What whole answers and chunks (completion-events.ts) of OpenAI's generating routes have in common. ChoiceFormat has the
 * differences between the routes.
 */

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

const FINISH_REASONS: Record<EndReason, FinishReason> = {
  eos: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
  time_limit: 'length',
};

export function finishReasonOf({ reason, numCalls = 0 }: AnswerEnd): FinishReason {
  return reason === 'eos' && numCalls > 0 ? 'tool_calls' : FINISH_REASONS[reason];
}

export function wholeCompletion(
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
export function begun({ model, facts }: Completion, { prefix }: ChoiceFormat, object: string) {
  const created = Math.floor(facts.createdMs / 1000);
  return { id: prefix + facts.uuid, object, created, model, system_fingerprint: facts.numericsId };
}

/** The members of a choice that go with its finish_reason. */
export function besideFinish(end: AnswerEnd): BesideFinish {
  return { ...endedBy(end), ...(end.timings === undefined ? {} : { timings: end.timings }) };
}

export function usage(
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
    ...(numThinkingTokens === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: numThinkingTokens } }),
  };
}
