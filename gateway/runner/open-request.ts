/**
 * One request from its admission to its end, across as many runners as it takes: what was asked (journal), what the
 * consumer has not taken yet (stream), and the runner that works on it now, if one does.
 */
import type { RequestSink, RunnerClient } from './client.ts';
import { Journal } from './journal.ts';
import type { Output, PromptLogprobs, RequestError } from './messages.ts';
import { type GenerateRequest, GenerationError, type TokenBatch } from './runner.ts';
import { TokenStream } from './token-stream.ts';

/** A stream whose runners die this often without a new token is taken for the cause. */
export const maxFruitlessDeaths = 3;

export class OpenRequest implements RequestSink {
  readonly #journal: Journal;
  readonly #stream = new TokenStream((flow) => this.#sendFlow(flow));
  readonly #onEnd: (request: OpenRequest) => void;
  #sent: { readonly client: RunnerClient; readonly requestId: number } | undefined;
  #isOpen = true;

  /** onEnd is called once, as soon as nothing more is wanted from a runner. */
  constructor(request: GenerateRequest, onEnd: (request: OpenRequest) => void) {
    this.#journal = new Journal(request);
    this.#onEnd = onEnd;
  }

  get modelIdentity(): string {
    return this.#journal.modelIdentity;
  }

  get numPromptTokens(): number {
    return this.#journal.numPromptTokens;
  }

  /** The next tokens; rejects with a GenerationError if there are none any more. */
  next(): Promise<TokenBatch> {
    return this.#stream.next();
  }

  /** Gives the request to a runner that is ready: for the first time, or from where it stands. */
  submit(client: RunnerClient): void {
    if (this.#sent !== undefined) throw new Error('A request was given to two runners.');
    try {
      this.#sent = { client, requestId: client.generate(this.#journal.toGenerate(), this) };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.fail(new GenerationError('INVALID_REQUEST', error.message, { retriable: false, cause: error }));
      return;
    }
    if (this.#stream.isPaused) this.#sendFlow('pause');
  }

  /** The runner that worked on it is dead; the request waits for another one, unless it has seen too many die. */
  onRunnerDied(counts: boolean): void {
    const wasSent = this.#sent !== undefined;
    this.#sent = undefined;
    if (!wasSent || !counts) return;
    this.#journal.countDeath();
    if (this.#journal.fruitlessDeaths < maxFruitlessDeaths) return;
    const message = `The runner died ${maxFruitlessDeaths} times on this request without a new token.`;
    this.fail(new GenerationError('INFERENCE_FAILED', message, { retriable: false }));
  }

  /** The consumer wants no more. It hears CANCELLED at once, whatever the runner says; after the end it does nothing. */
  cancel(): void {
    this.#sent?.client.cancel(this.#sent.requestId);
    this.#stream.abort(new GenerationError('CANCELLED', 'The request was cancelled.', { retriable: false }));
    this.#end();
  }

  /** The consumer gets the tokens that have come, then the error. */
  fail(error: GenerationError): void {
    this.#stream.fail(error);
    this.#end();
  }

  onPromptLogprobs(frame: PromptLogprobs): void {
    this.#stream.pushPromptLogprobs(this.#journal.takeNew(frame));
  }

  onOutput(output: Output): void {
    this.#journal.append(output);
    this.#stream.push(output);
    if (output.finish !== undefined) this.#end();
  }

  onError(error: RequestError): void {
    this.fail(generationErrorOf(error));
  }

  #sendFlow(flow: 'pause' | 'resume'): void {
    this.#sent?.client[flow](this.#sent.requestId);
  }

  #end(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#sent = undefined;
    this.#onEnd(this);
  }
}

function generationErrorOf({ code, message }: RequestError): GenerationError {
  const sentence = message === '' ? `The runner refused the request: ${code}.` : message;
  switch (code) {
    case 'QUEUE_FULL':
      return new GenerationError('QUEUE_FULL', sentence, { retriable: true, retryAfterSec: 1 });
    case 'DRAINING':
      return new GenerationError('NOT_READY', sentence, { retriable: true, retryAfterSec: 1 });
    default:
      return new GenerationError(code, sentence, { retriable: false });
  }
}
