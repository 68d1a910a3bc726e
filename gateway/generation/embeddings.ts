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

/** Vectors of texts: a text is a request as any other, of which the answer is a vector (docs/numerics.md). */

/** Of one client's texts the runner has so many at once; the next comes when one of them has its vector. */
export const maxTextsAtOnce = 32;

/**
 * How a model's vectors are made: as the server was told, else as its file or folder says, else from the last token, which alone
 * has seen all of the text. INVALID_REQUEST where file or folder name what cannot be done here.
 */
export function poolingOf({ pooling = 'last' }: Pick<Model, 'pooling'>, asked?: Pooling): Pooling {
  const found = asked ?? pooling;
  if (typeof found === 'string') return found;
  const message = `The model's ${found.unsupported}, which is not supported; --pooling says another: ${poolings.join(', ')}.`;
  throw new GenerationError('INVALID_REQUEST', message, { retriable: false });
}

/** The request for a text's vector. */
export function embeddingRequest(
  text: Pick<GenerateRequest, 'promptIds' | 'modelIdentity' | 'cacheSalt'> & { readonly pooling: Pooling },
): GenerateRequest {
  const sampling = { ...neutralSampling, seed: 0n };
  return { ...text, maxTokens: 1, minTokens: 0, stopIds: [], sampling };
}

/** The first so many values of a vector, scaled to a length of 1; one without a length stays as it is. */
export function ofLengthOne(vector: Float32Array, numValues = vector.length): Float32Array {
  const values = vector.slice(0, numValues);
  const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? values : values.map((value) => value / length);
}

/** The vectors of one client's texts, in their order, not scaled. The promise rejects with the GenerationError of the first that fails, which ends all. */
export class Embeddings {
  readonly answer: Promise<readonly Float32Array[]>;
  readonly #runner: Pick<Runner, 'generate'>;
  readonly #requests: readonly GenerateRequest[];
  readonly #vectors: Float32Array[] = [];
  readonly #open = new Set<GenerationHandle>();
  #numAsked = 0;
  #numDone = 0;
  #isOver = false;
  #resolve: (vectors: readonly Float32Array[]) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  /** Asks the runner; throws its GenerationError if it takes none of them. */
  constructor(runner: Pick<Runner, 'generate'>, requests: readonly GenerateRequest[]) {
    this.#runner = runner;
    this.#requests = requests;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    if (requests.length === 0) this.#resolve([]);
    this.#askForMore();
  }

  /** The promise stays as it is. */
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
        // The queue is others': it has a place again when one of these is done.
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

  #onVector(index: number, handle: GenerationHandle, { embedding }: TokenBatch): void {
    if (this.#isOver || embedding === undefined) return;
    this.#open.delete(handle);
    this.#vectors[index] = embedding;
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
