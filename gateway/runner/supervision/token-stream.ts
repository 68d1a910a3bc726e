/**
 * The tokens of one request between the runner, which makes them at its own pace, and one consumer. They pass at once, unless
 * the consumer has paused: then they wait, and above a bound the runner is asked to pause this request and no other. After
 * Pause only what was on its way still comes, and never more than max_tokens in all, so that what waits is bounded. Of a runner
 * that can be asked nothing any more, nothing comes above the bound (open-request.ts).
 */
import type { Output } from '../protocol/messages.ts';
import type { FirstOutput, GenerationError, TokenBatch, TokenLogprobs, TokenSink } from '../runner.ts';

/** Resuming empties the buffer, so that there is no need for a second, lower mark to resume at. */
export const pauseAboveTokens = 256;
/** Those of likely other tokens included: each is some hundred bytes where it is sent. */
export const pauseAboveLogprobs = 1024;

export class TokenStream {
  readonly #sink: TokenSink;
  readonly #onFlow: (flow: 'pause' | 'resume') => void;
  #firstIndex: number;
  /** Those that wait. */
  #tokenIds: number[] = [];
  #logprobs: TokenLogprobs[] | undefined;
  #numLogprobs = 0;
  #finish: TokenBatch['finish'];
  #error: GenerationError | undefined;
  /** Until the first tokens come; as many as the prompt has tokens at most. */
  #promptLogprobs: TokenLogprobs[] | undefined;
  #first: FirstOutput | undefined;
  #embedding: Float32Array | undefined;
  #continuedBy: string | undefined;
  #isResumed = false;
  /** By the consumer. */
  #isHeld = false;
  /** The runner was asked to. */
  #isPaused = false;
  /** The consumer has heard the last, or wants to hear nothing. */
  #isOver = false;

  /** firstIndex: in the answer, of the first token that comes. */
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

  /** What comes from now on is computed by this arithmetic, and what came before was not. */
  continuedBy(numericsId: string): void {
    this.#continuedBy = numericsId;
  }

  /** What comes from now on is another runner's. */
  resumed(): void {
    this.#isResumed = true;
  }

  push(output: Output): void {
    // What a runner that goes on with an answer says of its own start is not about the answer's.
    if (output.firstIndex === 0) this.#first ??= output.first;
    if (this.#isHeld) this.#hold(output);
    else this.#give(output.tokenIds, output.logprobs, output.finish);
  }

  /** All that comes of a request that asked for it. */
  pushEmbedding(embedding: Float32Array, first: FirstOutput): void {
    this.#embedding = embedding;
    this.#first = first;
    if (this.#isHeld) this.#finish = 'stop_id';
    else this.#give([], undefined, 'stop_id');
  }

  /** The consumer hears what waits, then the error. */
  fail(error: GenerationError): void {
    this.#error ??= error;
    if (!this.#isHeld) this.#tell();
  }

  pause(): void {
    this.#isHeld = true;
  }

  /** Gives what waits. */
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

  /** The consumer hears nothing more. */
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
