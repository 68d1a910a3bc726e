/**
 * All that another runner needs to go on with a request: the request itself and every token that has come. Nothing else is
 * needed, because the random generator has no state and penalties count the ids (docs/protocol.md, "Continuing a stream").
 */
import type { Embed, Generate, Output, PromptLogprobs } from '../protocol/messages.ts';
import type { GenerateRequest, SamplingParams, TokenLogprobs } from '../runner.ts';
import { type Leg, ThinkingEnd } from './thinking-end.ts';

export class GenerationState {
  readonly #request: GenerateRequest;
  readonly #emittedIds: number[] = [];
  readonly #thinkingEnd: ThinkingEnd | undefined;
  /** Number of prompt tokens, from the second on, whose log-probabilities have come. */
  #numScored = 0;
  #fruitlessDeaths = 0;

  constructor(request: GenerateRequest) {
    this.#request = request;
    this.#thinkingEnd = request.thinkingLimit && new ThinkingEnd(request.thinkingLimit);
    for (const id of request.begun?.tokenIds ?? []) this.#emittedIds.push(id);
  }

  get request(): GenerateRequest {
    return this.#request;
  }

  get numPromptTokens(): number {
    return this.#request.promptIds.length;
  }

  get numEmitted(): number {
    return this.#emittedIds.length;
  }

  /** Runners that died on this request since its last token. */
  get fruitlessDeaths(): number {
    return this.#fruitlessDeaths;
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

  /** Whether a runner is asked for only a part of the rest now (thinking-end.ts), and for more later. */
  get isInLegs(): boolean {
    return this.#leg !== undefined;
  }

  get #leg(): Leg | undefined {
    return this.#thinkingEnd?.legBehind(this.#emittedIds);
  }

  append(output: Output): void {
    if (output.tokenIds.length === 0) return;
    for (const id of output.tokenIds) this.#emittedIds.push(id);
    this.#fruitlessDeaths = 0;
  }

  /** The log-probabilities that had not come yet: a runner that takes over a request sends all of them again. */
  takeNew({ firstIndex, logprobs }: PromptLogprobs): readonly TokenLogprobs[] {
    const numKnown = this.#numScored - (firstIndex - 1);
    this.#numScored = Math.max(this.#numScored, firstIndex - 1 + logprobs.length);
    return logprobs.slice(numKnown);
  }

  /** Counts a runner that died while it had this request. */
  countDeath(): void {
    this.#fruitlessDeaths += 1;
  }

  /**
   * The Embed message for every runner that gets the request; undefined if the request wants tokens. A vector has no partial
   * result to go on from.
   */
  toEmbed(): Omit<Embed, 'requestId'> | undefined {
    const { promptIds, pooling, cacheSalt } = this.#request;
    return pooling && { tokenIds: promptIds, pooling, cacheSalt };
  }

  /**
   * The Generate message for the next runner: for the first one, for each one after a death, and for each leg of an answer
   * whose thinking is limited. isIsolationRun: the runner is asked for one token only, the one that would come next anyway.
   */
  toGenerate(isIsolationRun = false): Omit<Generate, 'requestId'> {
    const { promptIds, minTokens, stopIds, topLogprobs, promptLogprobs, cacheSalt, grammar } = this.#request;
    const leg = this.#leg;
    const isScored = this.#numScored >= promptIds.length - 1;
    const maxTokens = Math.min(
      this.#request.maxTokens,
      leg?.maxTokens ?? Number.POSITIVE_INFINITY,
      isIsolationRun ? this.numEmitted + 1 : Number.POSITIVE_INFINITY,
    );
    return {
      tokenIds: this.#emittedIds.length === 0 ? promptIds : promptIds.concat(this.#emittedIds),
      numEmitted: this.#emittedIds.length,
      maxTokens,
      minTokens: Math.min(minTokens, maxTokens),
      stopIds,
      sampling: this.#samplingOf(leg),
      ...(topLogprobs === undefined ? {} : { topLogprobs }),
      ...(promptLogprobs === undefined || isScored ? {} : { promptLogprobs }),
      cacheSalt,
      ...(grammar === undefined ? {} : { grammar }),
    };
  }

  #samplingOf(leg: Leg | undefined): SamplingParams {
    const { sampling } = this.#request;
    if (leg?.onlyId === undefined) return sampling;
    return { ...sampling, allowedTokenIds: [leg.onlyId], bannedTokenIds: [] };
  }
}
