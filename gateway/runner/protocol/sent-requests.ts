import type { AnswerCheck, EmbeddingCheck } from './checks.ts';
import { ProtocolError } from './frame.ts';
import type { Embedding, Output, PromptLogprobs, RequestError } from './from-runner.ts';

/** More empty steps in a row than the open requests have tokens: steps that a Cancel has emptied, and messages that cross. */
export const maxNeedlessSteps = 1024;

/**
 * What the runner says about one request: log-probabilities of its prompt if it asked, then outputs, the last of them
 * with a finish; or the embedding that it asked for; or one error.
 */
export interface RequestSink {
  onPromptLogprobs(frame: PromptLogprobs): void;
  onOutput(output: Output): void;
  onEmbedding(embedding: Embedding): void;
  onError(error: RequestError): void;
}

export interface SentRequest {
  readonly numTokens: number;
  readonly check: AnswerCheck | EmbeddingCheck;
  readonly sink: RequestSink;
  isCancelled: boolean;
  isPaused: boolean;
}

/**
 * The requests that one runner holds: sent, and without a terminal event. Cancelled ones are included until the runner lets
 * them go: messages about them are checked, then dropped.
 */
export class SentRequests {
  readonly #requests = new Map<number, SentRequest>();
  /** Cancelled requests without a terminal event: the runner still holds them. */
  numCancelled = 0;
  /** The tokens that these were sent with. */
  numCancelledTokens = 0;
  /** Steps without an output in a row. Reset when a request is sent, and by every message about a request. */
  #numEmptySteps = 0;

  /** Whether the runner holds a request that it must work on: one that is not paused, or one to let go. */
  get owesTokens(): boolean {
    for (const { isPaused, isCancelled } of this.#requests.values())
      if (!isPaused || isCancelled) return true;
    return false;
  }

  add(
    requestId: number,
    { numTokens, check, sink }: Pick<SentRequest, 'numTokens' | 'check' | 'sink'>,
  ): void {
    this.#numEmptySteps = 0;
    this.#requests.set(requestId, { numTokens, check, sink, isCancelled: false, isPaused: false });
  }

  find(requestId: number): SentRequest | undefined {
    return this.#requests.get(requestId);
  }

  /** The request that a message is about. ProtocolError if there is none. */
  spokenOf(requestId: number): SentRequest {
    const request = this.#requests.get(requestId);
    if (request === undefined)
      throw new ProtocolError('order', `The runner spoke about request ${requestId}, which is not open.`);
    this.#numEmptySteps = 0;
    return request;
  }

  /** False if the request has ended, or is cancelled already. */
  cancel(requestId: number): boolean {
    const request = this.#requests.get(requestId);
    if (request === undefined || request.isCancelled) return false;
    request.isCancelled = true;
    this.numCancelled += 1;
    this.numCancelledTokens += request.numTokens;
    return true;
  }

  end(requestId: number, request: SentRequest): void {
    this.#requests.delete(requestId);
    if (!request.isCancelled) return;
    this.numCancelled -= 1;
    this.numCancelledTokens -= request.numTokens;
  }

  /**
   * Counts a step without an output. ProtocolError if there are too many: each step computes at least one row, so an honest
   * runner makes no more of them than the open requests have tokens.
   */
  countEmptyStep(): void {
    this.#numEmptySteps += 1;
    if (this.#numEmptySteps <= maxNeedlessSteps) return;
    let numTokens = 0;
    for (const { check } of this.#requests.values()) numTokens += check.numTokens;
    if (this.#numEmptySteps <= maxNeedlessSteps + numTokens) return;
    throw new ProtocolError(
      'order',
      `${this.#numEmptySteps} steps in a row brought nothing; the open requests have ${numTokens} tokens.`,
    );
  }

  clear(): void {
    this.#requests.clear();
    this.numCancelled = 0;
    this.numCancelledTokens = 0;
  }
}
