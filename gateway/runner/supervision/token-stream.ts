/**
 * The tokens of one request between the runner, which makes them at its own pace, and one consumer. Tokens pass at once
 * unless the consumer has paused. Then they are buffered, and above a bound the runner is asked to pause this request and no
 * other. After Pause only tokens on their way still come, and never more than max_tokens in all, so the buffer is bounded. If
 * the runner accepts no more frames, its tokens above the bound are dropped (open-request.ts).
 */

import type { FirstOutput } from '../answer-times.ts';
import type { Output } from '../protocol/from-runner.ts';
import type { GenerationError, TokenBatch, TokenLogprobs, TokenSink } from '../runner.ts';

/** The bound on buffered tokens. Resuming empties the buffer, so no second, lower mark is needed. */
export const pauseAboveTokens = 256;
/**
 * The bound on buffered log-probabilities, the most likely other tokens included. Each takes some hundred bytes in a
 * response.
 */
export const pauseAboveLogprobs = 512;

export class TokenStream {
  readonly #sink: TokenSink;
  readonly #onFlow: (flow: 'pause' | 'resume') => void;
  #firstIndex: number;
  /** The buffered tokens. */
  #tokenIds: number[] = [];
  #logprobs: TokenLogprobs[] | undefined;
  #numLogprobs = 0;
  #finish: TokenBatch['finish'];
  #error: GenerationError | undefined;
  /** Kept until the first tokens come; at most one entry for each token of the prompt. */
  #promptLogprobs: TokenLogprobs[] | undefined;
  #first: FirstOutput | undefined;
  #embedding: Float32Array | undefined;
  #continuedBy: string | undefined;
  #isResumed = false;
  /** The consumer has paused. */
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
    this.#promptLogprobs ??= [];
    for (const entry of logprobs) this.#promptLogprobs.push(entry);
  }

  /** The tokens from now on are computed by the arithmetic of numericsId, and those before were not. */
  continuedBy(numericsId: string): void {
    this.#continuedBy = numericsId;
  }

  /** The tokens from now on come from another runner. */
  resumed(): void {
    this.#isResumed = true;
  }

  push(output: Output): void {
    // Only the runner that computed the first token says how the request began.
    if (output.firstIndex === 0) this.#first ??= output.first;
    if (this.#isHeld) this.#hold(output);
    else this.#give(output.tokenIds, output.logprobs, output.finish);
  }

  /** Takes the embedding, which is the whole answer. */
  pushEmbedding(embedding: Float32Array, first: FirstOutput): void {
    this.#embedding = embedding;
    this.#first = first;
    if (this.#isHeld) this.#finish = 'stop_id';
    else this.#give([], undefined, 'stop_id');
  }

  /** The consumer gets the buffered tokens, then the error. */
  fail(error: GenerationError): void {
    this.#error ??= error;
    if (!this.#isHeld) this.#tell();
  }

  pause(): void {
    this.#isHeld = true;
  }

  /** Passes on what is buffered as one batch. */
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

  /** The consumer gets nothing more. */
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
    const isPlain =
      logprobs === undefined &&
      finish === undefined &&
      this.#first === undefined &&
      this.#continuedBy === undefined &&
      !this.#isResumed;
    this.#sink.onTokens(
      isPlain ? { firstIndex, tokenIds } : this.#batch({ firstIndex, tokenIds }, logprobs, finish),
    );
  }

  #batch(
    plain: TokenBatch,
    logprobs: readonly TokenLogprobs[] | undefined,
    finish: TokenBatch['finish'],
  ): TokenBatch {
    const batch: TokenBatch = {
      ...plain,
      ...(logprobs === undefined ? {} : { logprobs }),
      ...(this.#first === undefined ? {} : { first: this.#first }),
      ...(this.#embedding === undefined ? {} : { embedding: this.#embedding }),
      ...(this.#promptLogprobs === undefined ? {} : { promptLogprobs: this.#promptLogprobs }),
      ...(this.#continuedBy === undefined ? {} : { continuedBy: this.#continuedBy }),
      ...(this.#isResumed ? { isResumed: true } : {}),
      ...(finish === undefined ? {} : { finish }),
    };
    this.#first = undefined;
    this.#promptLogprobs = undefined;
    this.#continuedBy = undefined;
    this.#isResumed = false;
    return batch;
  }

  #tell(): void {
    if (this.#error === undefined || this.#isOver) return;
    this.#isOver = true;
    this.#sink.onError(this.#error);
  }
}
