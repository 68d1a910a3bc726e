/**
 * One request from its admission to its end, across as many runners as it takes: what was asked (journal), what the
 * consumer has not taken yet (stream), and the runner that works on it now, if one does.
 */
import type { RequestSink, RunnerClient } from '../protocol/client.ts';
import type { Output, PromptLogprobs, RequestError } from '../protocol/messages.ts';
import { type GenerateRequest, GenerationError, type TokenBatch } from '../runner.ts';
import type { RequestInFlight } from './crash.ts';
import { GenerationState } from './generation-state.ts';
import { TokenStream } from './token-stream.ts';

export interface OpenRequestEvents {
  /** Once, as soon as nothing more is wanted from a runner. */
  onEnd(request: OpenRequest): void;
  /** The token of a trial has come and the request goes on; no runner has it. */
  onTrialPassed(request: OpenRequest): void;
}

export class OpenRequest implements RequestSink {
  readonly #journal: GenerationState;
  readonly #stream = new TokenStream((flow) => this.#sendFlow(flow));
  readonly #events: OpenRequestEvents;
  #sent: { readonly client: RunnerClient; readonly requestId: number; readonly isTrial: boolean } | undefined;
  /** Of the runner that had it last. */
  #numericsId: string | undefined;
  #isOpen = true;

  constructor(request: GenerateRequest, events: OpenRequestEvents) {
    this.#journal = new GenerationState(request);
    this.#events = events;
  }

  get request(): GenerateRequest {
    return this.#journal.request;
  }

  /** Whether a runner has it. */
  get isSent(): boolean {
    return this.#sent !== undefined;
  }

  /** Undefined while no runner has it. */
  get inFlight(): RequestInFlight | undefined {
    if (this.#sent === undefined) return undefined;
    const { maxTokens, sampling } = this.request;
    const { logitBias, allowedTokenIds, bannedTokenIds, ...numbers } = sampling;
    return {
      requestId: this.#sent.requestId,
      numPromptTokens: this.numPromptTokens,
      numEmitted: this.numEmitted,
      strikes: this.strikes,
      maxTokens,
      ...numbers,
      numBiases: logitBias.size,
      numAllowedTokens: allowedTokenIds.length,
      numBannedTokens: bannedTokenIds.length,
    };
  }

  get numEmitted(): number {
    return this.#journal.numEmitted;
  }

  /** Runners that it may have killed since its last token. */
  get strikes(): number {
    return this.#journal.fruitlessDeaths;
  }

  get numPromptTokens(): number {
    return this.#journal.numPromptTokens;
  }

  /** The next tokens; rejects with a GenerationError if there are none any more. */
  next(): Promise<TokenBatch> {
    return this.#stream.next();
  }

  /** Gives the request to a runner that is ready: for the first time, or from where it stands; isTrial: for one token. */
  submit(client: RunnerClient, { isTrial }: { isTrial: boolean }): void {
    if (this.#sent !== undefined) throw new Error('A request was given to two runners.');
    try {
      this.#sent = { client, requestId: client.generate(this.#journal.toGenerate(isTrial), this), isTrial };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.fail(new GenerationError('INVALID_REQUEST', error.message, { retriable: false, cause: error }));
      return;
    }
    if (this.numEmitted > 0 && client.numericsId !== this.#numericsId)
      this.#stream.continuedBy(client.numericsId);
    this.#numericsId = client.numericsId;
    if (this.#stream.isPaused) this.#sendFlow('pause');
  }

  /** The runner is dead; if it had this request, another one will get it. isStrike: the request may be the cause. */
  onRunnerDied(isStrike: boolean): void {
    if (this.#sent !== undefined && isStrike) this.#journal.countDeath();
    this.#sent = undefined;
  }

  /** The runner shall stop at it; another one will get it. */
  takeBack(): void {
    this.#sent?.client.cancel(this.#sent.requestId);
    this.#sent = undefined;
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
    const { finish, ...goingOn } = output;
    if (
      finish === 'max_tokens' &&
      this.#sent?.isTrial &&
      !this.#journal.isFull(this.#sent.client.maxModelLen)
    ) {
      this.#sent = undefined;
      this.#stream.push(goingOn);
      this.#events.onTrialPassed(this);
      return;
    }
    this.#stream.push(output);
    if (finish !== undefined) this.#end();
  }

  onError(error: RequestError): void {
    this.fail(generationErrorOf(error));
  }

  #sendFlow(flow: 'pause' | 'resume'): void {
    // A consumer that does not read must not hold up a trial, for which all others wait; it buffers one token more.
    if (this.#sent === undefined || this.#sent.isTrial) return;
    this.#sent.client[flow](this.#sent.requestId);
  }

  #end(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#sent = undefined;
    this.#events.onEnd(this);
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
