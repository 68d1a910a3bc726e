/**
 * All that is needed to go on with one request on another runner: what was asked, and every token that has come. The
 * random generator has no state and penalties count the ids, so nothing else is (docs/protocol.md, "Continuing a stream").
 */
import type { Embed, Generate, Output, PromptLogprobs } from '../protocol/messages.ts';
import type { GenerateRequest, SamplingParams, TokenLogprobs } from '../runner.ts';
import { type Leg, ThinkingEnd } from './thinking-end.ts';

export class GenerationState {
  readonly #request: GenerateRequest;
  readonly #emittedIds: number[] = [];
  readonly #thinkingEnd: ThinkingEnd | undefined;
  /** Tokens of the prompt whose log-probabilities have come. */
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

  /** Whether no token can follow, given what a runner's context holds. */
  isFull(maxModelLen: number): boolean {
    const { promptIds, maxTokens } = this.#request;
    return this.numEmitted >= maxTokens || promptIds.length + this.numEmitted >= maxModelLen;
  }

  /** Whether a runner that is asked now is not asked for all that is left. */
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

  /** Those that had not come yet: a runner that comes after another one begins anew. */
  takeNew({ firstIndex, logprobs }: PromptLogprobs): readonly TokenLogprobs[] {
    const numKnown = this.#numScored - (firstIndex - 1);
    this.#numScored = Math.max(this.#numScored, firstIndex - 1 + logprobs.length);
    return logprobs.slice(numKnown);
  }

  countDeath(): void {
    this.#fruitlessDeaths += 1;
  }

  /** The request as each runner must see it, if what it wants is a vector: nothing of that comes before all of it does. */
  toEmbed(): Omit<Embed, 'requestId'> | undefined {
    const { promptIds, pooling, cacheSalt } = this.#request;
    return pooling && { tokenIds: promptIds, pooling, cacheSalt };
  }

  /**
   * The request as the next runner must see it: for the first one, for each that comes after a death, and for each leg of an answer
   * whose thinking has a limit. isIsolationRun: it ends after one token, which is the one that would come anyway.
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
