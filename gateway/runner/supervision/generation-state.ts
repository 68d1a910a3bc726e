/**
 * All that another runner needs to go on with a request: the request itself and every token that has come. Nothing else is
 * needed, because the random generator has no state and penalties count the ids (docs/protocol.md, "Continuing a stream").
 */
import type { Output, PromptLogprobs } from '../protocol/from-runner.ts';
import type { Embed, Generate } from '../protocol/to-runner.ts';
import type { GenerateRequest, ThinkingLimit, TokenLogprobs } from '../runner.ts';

export class GenerationState {
  readonly #request: GenerateRequest;
  readonly #emittedIds: number[];
  readonly #thinkingEnd: ThinkingEnd | undefined;
  /** Number of prompt tokens, from the second on, whose log-probabilities have come. */
  #numScored = 0;
  /** Runners that died while they had this request, since its last token. */
  crashesWithoutProgress = 0;

  constructor(request: GenerateRequest) {
    this.#request = request;
    this.#thinkingEnd = request.thinkingLimit && new ThinkingEnd(request.thinkingLimit);
    this.#emittedIds = [...(request.resumeFrom?.tokenIds ?? [])];
  }

  get numEmitted(): number {
    return this.#emittedIds.length;
  }

  /** Whether no token can follow, because maxTokens is reached or the context of maxModelLen tokens is full. */
  isFull(maxModelLen: number): boolean {
    const { promptIds, maxTokens } = this.#request;
    return this.numEmitted >= maxTokens || promptIds.length + this.numEmitted >= maxModelLen;
  }

  /** Whether the request wants more than a context of maxModelLen tokens has room for, and has filled it. */
  fillsContext(maxModelLen: number): boolean {
    const { promptIds, maxTokens, pooling } = this.#request;
    if (pooling !== undefined) return promptIds.length > maxModelLen;
    return this.numEmitted < maxTokens && promptIds.length + this.numEmitted >= maxModelLen;
  }

  /** What a runner is asked for now, if more of the answer is to be asked for later (ThinkingEnd). */
  get segment(): GenerationSegment | undefined {
    return this.#thinkingEnd?.segmentAfter(this.#emittedIds);
  }

  append(output: Output): void {
    if (output.tokenIds.length === 0) return;
    for (const id of output.tokenIds) this.#emittedIds.push(id);
    this.crashesWithoutProgress = 0;
  }

  /** The log-probabilities that had not come yet: a runner that takes over a request sends all of them again. */
  takeNew({ firstIndex, logprobs }: PromptLogprobs): readonly TokenLogprobs[] {
    const numKnown = this.#numScored - (firstIndex - 1);
    this.#numScored = Math.max(this.#numScored, firstIndex - 1 + logprobs.length);
    return logprobs.slice(numKnown);
  }

  /**
   * The Embed message for every runner that gets the request; undefined if the request wants tokens. A vector has no partial
   * result to go on from.
   */
  toEmbed(): Omit<Embed, 'requestId'> | undefined {
    const { promptIds, pooling, secondTypeFrom, cacheSalt } = this.#request;
    const types = secondTypeFrom === undefined ? {} : { secondTypeFrom };
    return pooling && { tokenIds: promptIds, pooling, cacheSalt, ...types };
  }

  /**
   * The Generate message for the next runner: for the first one, for each one after a death, and for each segment of an
   * answer whose thinking is limited. isIsolationRun: the runner is asked for one token only, the one that would come next anyway.
   */
  toGenerate(isIsolationRun = false): Omit<Generate, 'requestId'> {
    const { promptIds, minTokens, stopIds, sampling, cacheSalt } = this.#request;
    const { topLogprobs, promptLogprobs, grammar } = this.#request;
    const { segment } = this;
    const isScored = this.#numScored >= promptIds.length - 1;
    const maxTokens = Math.min(
      this.#request.maxTokens,
      segment?.maxTokens ?? Number.POSITIVE_INFINITY,
      isIsolationRun ? this.numEmitted + 1 : Number.POSITIVE_INFINITY,
    );
    return {
      tokenIds: this.#emittedIds.length === 0 ? promptIds : promptIds.concat(this.#emittedIds),
      numEmitted: this.#emittedIds.length,
      maxTokens,
      minTokens: Math.min(minTokens, maxTokens),
      stopIds,
      sampling:
        segment?.onlyId === undefined
          ? sampling
          : { ...sampling, allowedTokenIds: [segment.onlyId], bannedTokenIds: [] },
      ...(topLogprobs === undefined ? {} : { topLogprobs }),
      ...(promptLogprobs === undefined || isScored ? {} : { promptLogprobs }),
      cacheSalt,
      ...(grammar === undefined ? {} : { grammar }),
    };
  }
}

export interface GenerationSegment {
  /** The length of the whole answer at the end of the segment. */
  readonly maxTokens: number;
  /** The only token that may be sampled in the segment; undefined: the request decides. */
  readonly onlyId?: number;
}

type Limit = Omit<ThinkingLimit, 'thinking'>;

/**
 * Ends the thinking of an answer that has reached its limit. The runner is asked for tokens up to the limit; if the answer still
 * thinks there, for each token of the end mark; then for the rest. What it is asked for depends only on the tokens so far, so
 * every runner that continues the answer is asked for the same.
 */
export class ThinkingEnd {
  readonly #limit: Limit;
  /** The number of tokens for which isThinking() was asked last; at first one less than the limit. */
  #numChecked: number;
  /** Whether the answer thinks after #numChecked tokens; undefined if no check has had a result yet. */
  #isThinking: boolean | undefined;

  constructor(limit: Limit) {
    this.#limit = limit;
    this.#numChecked = limit.maxTokens - 1;
  }

  /** The segment after these tokens; undefined: the rest of the answer. emittedIds must begin with those of the last call. */
  segmentAfter(emittedIds: readonly number[]): GenerationSegment | undefined {
    const { maxTokens, endIds, isThinking } = this.#limit;
    const numEmitted = emittedIds.length;
    if (numEmitted < maxTokens) return { maxTokens };
    while (this.#isThinking === undefined && this.#numChecked < numEmitted)
      this.#isThinking = isThinking(emittedIds.slice(0, ++this.#numChecked));
    // The answer ends with a part of a mark. The next tokens tell whether it is one.
    if (this.#isThinking === undefined) return { maxTokens: numEmitted + 1 };
    const onlyId = this.#isThinking ? endIds[numEmitted - this.#numChecked] : undefined;
    return onlyId === undefined ? undefined : { maxTokens: numEmitted + 1, onlyId };
  }
}
