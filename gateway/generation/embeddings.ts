import type { Model } from '../models/model.ts';
import {
  type GenerateRequest,
  GenerationError,
  type GenerationHandle,
  neutralSampling,
  type Pooling,
  poolings,
  type Runner,
  type TokenBatch,
} from '../runner/runner.ts';

/** Embeddings: a text becomes a request like any other, and its answer is a vector (docs/numerics.md). */

/** How many texts of one client the runner has at once. The next text is sent when one of them has its vector. */
export const maxTextsAtOnce = 32;

/**
 * How a model's vectors are made: as the server's settings say, else as the model's file or folder says, else from the last
 * token, which alone has seen the whole text. Throws INVALID_REQUEST if the file or folder names a pooling that is not
 * supported.
 */
export function poolingOf({ pooling = 'last' }: Pick<Model, 'pooling'>, asked?: Pooling): Pooling {
  const found = asked ?? pooling;
  if (typeof found === 'string') return found;
  const message = `The model's ${found.unsupported}, which is not supported; choose another with --pooling: ${poolings.join(', ')}.`;
  throw new GenerationError('INVALID_REQUEST', message, { retriable: false });
}

/** The request for the vector of one text. */
export function embeddingRequest(
  text: Pick<
    GenerateRequest,
    'promptIds' | 'modelIdentity' | 'cacheSalt' | 'api' | 'caller' | 'priority' | 'trace'
  > & {
    readonly pooling: Pooling;
  },
): GenerateRequest {
  const sampling = { ...neutralSampling, seed: 0n };
  return { ...text, maxTokens: 1, minTokens: 0, stopIds: [], sampling };
}

/** The first numValues values of a vector, scaled to a length of 1. A vector of zeros stays as it is. */
export function ofLengthOne(vector: Float32Array, numValues = vector.length): Float32Array {
  const values = vector.slice(0, numValues);
  const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? values : values.map((value) => value / length);
}

/**
 * The vectors of one client's texts, in the order of the texts, not scaled. The first text that fails ends all of them: the
 * promise rejects with its GenerationError.
 */
export class Embeddings {
  readonly answer: Promise<readonly Float32Array[]>;
  readonly #runner: Pick<Runner, 'generate'>;
  readonly #requests: readonly GenerateRequest[];
  readonly #vectors: Float32Array[] = [];
  readonly #open = new Set<GenerationHandle>();
  #numCachedTokens = 0;
  #numAsked = 0;
  #numDone = 0;
  #isOver = false;
  #resolve: (vectors: readonly Float32Array[]) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  /** Sends the first texts to the runner. Throws the runner's GenerationError if it refuses one of them. */
  constructor(runner: Pick<Runner, 'generate'>, requests: readonly GenerateRequest[]) {
    this.#runner = runner;
    this.#requests = requests;
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

  /** Tokens of the texts that were found in the KV cache. */
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
    while (!this.#isOver && this.#open.size < maxTextsAtOnce && this.#numAsked < this.#requests.length) {
      try {
        this.#ask(this.#numAsked);
      } catch (error) {
        // The queue is shared with other clients. It has room again when one of these texts is done.
        const isFull = error instanceof GenerationError && error.code === 'QUEUE_FULL';
        if (isFull && this.#open.size > 0) return;
        throw error;
      }
      this.#numAsked += 1;
    }
  }

  #ask(index: number): void {
    const handle = this.#runner.generate(this.#requests[index] as GenerateRequest, {
      onTokens: (batch) => this.#onVector(index, handle, batch),
      onError: (error) => this.onError(error),
    });
    this.#open.add(handle);
  }

  #onVector(index: number, handle: GenerationHandle, { embedding, first }: TokenBatch): void {
    if (this.#isOver || embedding === undefined) return;
    this.#open.delete(handle);
    this.#vectors[index] = embedding;
    this.#numCachedTokens += first?.numCachedTokens ?? 0;
    this.#numDone += 1;
    if (this.#numDone === this.#requests.length) {
      this.#isOver = true;
      this.#resolve(this.#vectors);
      return;
    }
    try {
      this.#askForMore();
    } catch (error) {
      this.onError(error);
    }
  }
}
