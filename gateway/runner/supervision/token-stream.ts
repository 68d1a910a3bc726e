/**
 * The tokens of one request between the runner, which makes them at its own pace, and one consumer, which takes all
 * that have come since it last looked. A slow consumer pauses its request and no other. After Pause only what was on
 * its way still comes, and never more than max_tokens in all, so that the buffer is bounded.
 */
import type { Output } from '../protocol/messages.ts';
import type { FirstOutput, GenerationError, TokenBatch, TokenLogprobs } from '../runner.ts';

/** A take empties the buffer, so that there is no need for a second, lower mark to resume at. */
export const pauseAboveTokens = 256;
/** Those of likely other tokens included: each is some hundred bytes where it is sent. */
export const pauseAboveLogprobs = 1024;

interface Waiter {
  resolve(batch: TokenBatch): void;
  reject(error: GenerationError): void;
}

export class TokenStream {
  readonly #onFlow: (flow: 'pause' | 'resume') => void;
  #firstIndex = 0;
  #tokenIds: number[] = [];
  #logprobs: TokenLogprobs[] | undefined;
  #numLogprobs = 0;
  /** Until the first tokens come; as many as the prompt has tokens at most. */
  #promptLogprobs: TokenLogprobs[] | undefined;
  #first: FirstOutput | undefined;
  #continuedBy: string | undefined;
  #finish: TokenBatch['finish'];
  #error: GenerationError | undefined;
  #waiter: Waiter | undefined;
  #isPaused = false;

  constructor(onFlow: (flow: 'pause' | 'resume') => void) {
    this.#onFlow = onFlow;
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

  push(output: Output): void {
    // What a runner that goes on with an answer says of its own start is not about the answer's.
    if (output.firstIndex === 0) this.#first ??= output.first;
    for (const id of output.tokenIds) this.#tokenIds.push(id);
    if (output.logprobs !== undefined) {
      this.#logprobs ??= [];
      for (const entry of output.logprobs) {
        this.#logprobs.push(entry);
        this.#numLogprobs += 1 + entry.topIds.length;
      }
    }
    this.#finish = output.finish;
    this.#deliver();
    if (!this.#isPaused && this.#finish === undefined && this.#isFull()) {
      this.#isPaused = true;
      this.#onFlow('pause');
    }
  }

  /** The consumer gets what has come, then the error. */
  fail(error: GenerationError): void {
    this.#error ??= error;
    this.#deliver();
  }

  /** The consumer gets the error at once, and nothing else. */
  abort(error: GenerationError): void {
    this.#tokenIds = [];
    this.#finish = undefined;
    this.#error = error;
    this.#deliver();
  }

  /** The next batch, or the error that ended the stream. One call at a time; none after the batch with a finish. */
  next(): Promise<TokenBatch> {
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
      this.#deliver();
    });
  }

  #isFull(): boolean {
    return this.#tokenIds.length > pauseAboveTokens || this.#numLogprobs > pauseAboveLogprobs;
  }

  #deliver(): void {
    const waiter = this.#waiter;
    if (waiter === undefined) return;
    if (this.#tokenIds.length > 0 || this.#finish !== undefined) {
      this.#waiter = undefined;
      waiter.resolve(this.#takeBatch());
    } else if (this.#error !== undefined) {
      this.#waiter = undefined;
      waiter.reject(this.#error);
    }
  }

  #takeBatch(): TokenBatch {
    const batch: TokenBatch = {
      firstIndex: this.#firstIndex,
      tokenIds: this.#tokenIds,
      ...(this.#logprobs === undefined ? {} : { logprobs: this.#logprobs }),
      ...(this.#first === undefined ? {} : { first: this.#first }),
      ...(this.#promptLogprobs === undefined ? {} : { promptLogprobs: this.#promptLogprobs }),
      ...(this.#continuedBy === undefined ? {} : { continuedBy: this.#continuedBy }),
      ...(this.#finish === undefined ? {} : { finish: this.#finish }),
    };
    this.#firstIndex += batch.tokenIds.length;
    this.#tokenIds = [];
    this.#logprobs = undefined;
    this.#numLogprobs = 0;
    this.#first = undefined;
    this.#continuedBy = undefined;
    this.#promptLogprobs = undefined;
    if (this.#isPaused) {
      this.#isPaused = false;
      this.#onFlow('resume');
    }
    return batch;
  }
}
