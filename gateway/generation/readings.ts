import {
  type GenerateRequest,
  GenerationError,
  type GenerationHandle,
  type Runner,
  type TokenBatch,
} from '../runner/runner.ts';

/** How many prompts of one client the runner has at once. The next prompt is sent when one of them has been read. */
export const maxPromptsAtOnce = 32;

/**
 * What is read of one client's prompts, in the order of the prompts: a vector, or how likely a token is. The first prompt that fails
 * ends all of them: the promise rejects with its GenerationError.
 */
export class Readings<Reading> {
  readonly answer: Promise<readonly Reading[]>;
  readonly #runner: Pick<Runner, 'generate'>;
  readonly #requests: readonly GenerateRequest[];
  readonly #readingOf: (batch: TokenBatch) => Reading | undefined;
  readonly #readings: Reading[] = [];
  readonly #open = new Set<GenerationHandle>();
  #numCachedTokens = 0;
  #numAsked = 0;
  #numDone = 0;
  #isOver = false;
  #resolve: (readings: readonly Reading[]) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  /**
   * Sends the first prompts to the runner. Throws the runner's GenerationError if it refuses one of them. readingOf: undefined for a
   * batch that has none.
   */
  constructor(
    runner: Pick<Runner, 'generate'>,
    requests: readonly GenerateRequest[],
    readingOf: (batch: TokenBatch) => Reading | undefined,
  ) {
    this.#runner = runner;
    this.#requests = requests;
    this.#readingOf = readingOf;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    if (requests.length === 0) this.#resolve([]);
    try {
      this.#askForMore();
    } catch (error) {
      this.cancel();
      throw error;
    }
  }

  /** Tokens of the prompts that were found in the KV cache. */
  get numCachedTokens(): number {
    return this.#numCachedTokens;
  }

  /** Cancels the open requests. This alone does not settle the promise. */
  cancel(): void {
    this.#isOver = true;
    for (const handle of this.#open) handle.cancel();
    this.#open.clear();
  }

  onError(error: unknown): void {
    this.cancel();
    this.#reject(error);
  }

  #askForMore(): void {
    while (!this.#isOver && this.#open.size < maxPromptsAtOnce && this.#numAsked < this.#requests.length) {
      try {
        this.#ask(this.#numAsked);
      } catch (error) {
        // The queue is shared with other clients. It has room again when one of these prompts is done.
        const isFull = error instanceof GenerationError && error.code === 'QUEUE_FULL';
        if (isFull && this.#open.size > 0) return;
        throw error;
      }
      this.#numAsked += 1;
    }
  }

  #ask(index: number): void {
    const handle = this.#runner.generate(this.#requests[index] as GenerateRequest, {
      onTokens: (batch) => this.#onBatch(index, handle, batch),
      onError: (error) => this.onError(error),
    });
    this.#open.add(handle);
  }

  #onBatch(index: number, handle: GenerationHandle, batch: TokenBatch): void {
    const reading = this.#readingOf(batch);
    if (this.#isOver || reading === undefined) return;
    this.#open.delete(handle);
    this.#readings[index] = reading;
    this.#numCachedTokens += batch.first?.numCachedTokens ?? 0;
    this.#numDone += 1;
    if (this.#numDone === this.#requests.length) {
      this.#isOver = true;
      this.#resolve(this.#readings);
      return;
    }
    try {
      this.#askForMore();
    } catch (error) {
      this.onError(error);
    }
  }
}
