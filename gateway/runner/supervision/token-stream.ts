/**
 * The tokens of one request between the runner, which makes them at its own pace, and one consumer. Tokens pass at once
 * unless the consumer has paused. Then they are buffered, and above a bound the runner is asked to pause this request and no
 * other. After Pause only tokens on their way still come, and never more than max_tokens in all, so the buffer is bounded. If
 * the runner accepts no more frames, its tokens above the bound are dropped (open-request.ts).
 */

import type { Output } from '../protocol/from-runner.ts';
import type { FirstOutput, GenerationError, TokenBatch, TokenLogprobs, TokenSink } from '../runner.ts';

/** The bound on buffered tokens. Resuming empties the buffer, so no second, lower mark is needed. */
export const pauseAboveTokens = 256;
/**
 * The bound on buffered log-probabilities, the most likely other tokens included. Each takes some hundred bytes in a
 * response.
 */
export const pauseAboveLogprobs = 512;

interface BatchFacts {
  first?: FirstOutput;
  embedding?: Float32Array;
  /** At most one entry for each token of the prompt. */
  promptLogprobs?: TokenLogprobs[];
  continuedBy?: string;
  isResumed?: true;
}

export class TokenStream {
  readonly #sink: TokenSink;
  readonly #onFlow: (flow: 'pause' | 'resume') => void;
  #firstIndex: number;
  #tokenIds: number[] = [];
  #logprobs: TokenLogprobs[] | undefined;
  #numLogprobs = 0;
  #finish: TokenBatch['finish'];
  #error: GenerationError | undefined;
  /** What goes with the next batch beside its tokens; undefined: nothing. */
  #facts: BatchFacts | undefined;
  #isHeld = false;
  /** The runner was asked to pause. */
  #isPaused = false;
  /** The consumer has got the last batch or an error, or has cancelled. */
  #isOver = false;

  /** firstIndex: index in the answer of the first token that comes. */
  constructor(sink: TokenSink, onFlow: (flow: 'pause' | 'resume') => void, firstIndex = 0) {
    this.#sink = sink;
    this.#onFlow = onFlow;
    this.#firstIndex = firstIndex;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  pushPromptLogprobs(logprobs: readonly TokenLogprobs[]): void {
    const facts = this.#nextFacts;
    facts.promptLogprobs ??= [];
    for (const entry of logprobs) facts.promptLogprobs.push(entry);
  }

  /** The tokens from now on are computed by the arithmetic of numericsId, and those before were not. */
  continuedBy(numericsId: string): void {
    this.#nextFacts.continuedBy = numericsId;
  }

  resumed(): void {
    this.#nextFacts.isResumed = true;
  }

  push(output: Output): void {
    // Only the runner that computed the first token says how the request began.
    if (output.firstIndex === 0 && output.first !== undefined) this.#nextFacts.first ??= output.first;
    if (this.#isHeld) this.#hold(output);
    else this.#give(output.tokenIds, output.logprobs, output.finish);
  }

  pushEmbedding(embedding: Float32Array, first: FirstOutput): void {
    Object.assign(this.#nextFacts, { embedding, first });
    if (this.#isHeld) this.#finish = 'stop_id';
    else this.#give([], undefined, 'stop_id');
  }

  fail(error: GenerationError): void {
    this.#error ??= error;
    if (!this.#isHeld) this.#tell();
  }

  pause(): void {
    this.#isHeld = true;
  }

  resume(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    const [tokenIds, logprobs] = [this.#tokenIds, this.#logprobs];
    this.#tokenIds = [];
    this.#logprobs = undefined;
    this.#numLogprobs = 0;
    if (this.#isPaused) {
      this.#isPaused = false;
      this.#onFlow('resume');
    }
    if (tokenIds.length > 0 || this.#finish !== undefined) this.#give(tokenIds, logprobs, this.#finish);
    if (!this.#isHeld) this.#tell();
  }

  close(): void {
    this.#isOver = true;
    this.#tokenIds = [];
    this.#logprobs = undefined;
  }

  #hold({ tokenIds, logprobs, finish }: Output): void {
    if (this.#isOver) return;
    for (const id of tokenIds) this.#tokenIds.push(id);
    for (const entry of logprobs ?? []) {
      this.#logprobs ??= [];
      this.#logprobs.push(entry);
      this.#numLogprobs += 1 + entry.topIds.length;
    }
    this.#finish = finish;
    if (this.#isPaused || finish !== undefined || !this.#isFull()) return;
    this.#isPaused = true;
    this.#onFlow('pause');
  }

  #isFull(): boolean {
    return this.#tokenIds.length > pauseAboveTokens || this.#numLogprobs > pauseAboveLogprobs;
  }

  #give(
    tokenIds: readonly number[],
    logprobs: readonly TokenLogprobs[] | undefined,
    finish: TokenBatch['finish'],
  ): void {
    if (this.#isOver || (tokenIds.length === 0 && finish === undefined)) return;
    const firstIndex = this.#firstIndex;
    this.#firstIndex += tokenIds.length;
    this.#isOver = finish !== undefined;
    const facts = this.#facts;
    this.#facts = undefined;
    const isPlain = logprobs === undefined && finish === undefined && facts === undefined;
    this.#sink.onTokens(
      isPlain
        ? { firstIndex, tokenIds }
        : {
            ...{ firstIndex, tokenIds, ...facts },
            ...(logprobs === undefined ? {} : { logprobs }),
            ...(finish === undefined ? {} : { finish }),
          },
    );
  }

  get #nextFacts(): BatchFacts {
    this.#facts ??= {};
    return this.#facts;
  }

  #tell(): void {
    if (this.#error === undefined || this.#isOver) return;
    this.#isOver = true;
    this.#sink.onError(this.#error);
  }
}
