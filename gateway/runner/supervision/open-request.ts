/**
 * One request from its admission to its end, across as many runners as it takes: what was asked (state), its way to the
 * consumer (stream), and the runner that works on it now, if one does.
 */
import type { RequestSink, RunnerClient } from '../protocol/client.ts';
import type { Embedding, Output, PromptLogprobs, RequestError } from '../protocol/messages.ts';
import { type GenerateRequest, GenerationError, type GenerationHandle, type TokenSink } from '../runner.ts';
import type { RequestInFlight } from './crash.ts';
import { GenerationState } from './generation-state.ts';
import { TokenStream } from './token-stream.ts';

export interface OpenRequestEvents {
  /** Once, as soon as nothing more is wanted from a runner. */
  onEnd(request: OpenRequest): void;
  /** The token of an isolation run has come and the request goes on; no runner has it. */
  onIsolationPassed(request: OpenRequest): void;
  /** The same runner has been asked for what comes behind what it was asked for. */
  onLegPassed(): void;
}

export class OpenRequest implements RequestSink, GenerationHandle {
  readonly #state: GenerationState;
  readonly #stream: TokenStream;
  readonly #events: OpenRequestEvents;
  #sent:
    | {
        readonly client: RunnerClient;
        readonly requestId: number;
        readonly isIsolationRun: boolean;
        isLost: boolean;
        /** It has given all that it was asked for. */
        isDone: boolean;
      }
    | undefined;
  /** Of the runner that had it last. */
  #numericsId: string | undefined;
  #hasEmbedding = false;
  /** A runner had it, and ended before it did. */
  #wasLost = false;
  #isOpen = true;

  constructor(request: GenerateRequest, sink: TokenSink, events: OpenRequestEvents) {
    this.#state = new GenerationState(request);
    this.#stream = new TokenStream(sink, (flow) => this.#sendFlow(flow), this.#state.numEmitted);
    this.#numericsId = request.begun?.numericsId;
    this.#wasLost = request.begun !== undefined;
    this.#events = events;
  }

  get request(): GenerateRequest {
    return this.#state.request;
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
      crashCount: this.crashCount,
      maxTokens,
      ...numbers,
      numBiases: logitBias.size,
      numAllowedTokens: allowedTokenIds.length,
      numBannedTokens: bannedTokenIds.length,
    };
  }

  get numEmitted(): number {
    return this.#state.numEmitted;
  }

  /** Whether something of what it asked for was computed. */
  get hasResult(): boolean {
    return this.numEmitted > 0 || this.#hasEmbedding;
  }

  /** Runners that it may have killed since its last token. */
  get crashCount(): number {
    return this.#state.fruitlessDeaths;
  }

  /** Whether the runner that has it, or gets it, will be asked for more than it is asked for now. */
  get isInLegs(): boolean {
    return this.#state.isInLegs;
  }

  get numPromptTokens(): number {
    return this.#state.numPromptTokens;
  }

  /** Gives the request to a runner that is ready: for the first time, or from where it stands; isIsolationRun: for one token. */
  submit(client: RunnerClient, { isIsolationRun }: { isIsolationRun: boolean }): void {
    if (this.#sent !== undefined) throw new Error('A request was given to two runners.');
    if (!this.#send(client, isIsolationRun)) return;
    if (this.numEmitted > 0 && client.numericsId !== this.#numericsId)
      this.#stream.continuedBy(client.numericsId);
    this.#numericsId = client.numericsId;
    if (this.numEmitted > 0 && this.#wasLost) this.#stream.resumed();
    this.#wasLost = false;
    if (this.#stream.isPaused) this.#sendFlow('pause');
  }

  /** False: the request has ended, because it cannot be sent. */
  #send(client: RunnerClient, isIsolationRun: boolean): boolean {
    try {
      this.#sent = {
        client,
        requestId: this.#ask(client, isIsolationRun),
        isIsolationRun,
        isLost: false,
        isDone: false,
      };
      return true;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      const { message } = error;
      const invalid = new GenerationError('INVALID_REQUEST', message, { retriable: false, cause: error });
      this.#end();
      // The consumer may be the one who is asking for it just now.
      queueMicrotask(() => this.#stream.fail(invalid));
      return false;
    }
  }

  #ask(client: RunnerClient, isIsolationRun: boolean): number {
    const embed = this.#state.toEmbed();
    if (embed !== undefined) return client.embed(embed, this);
    return client.generate(this.#state.toGenerate(isIsolationRun), this, this.request.vocabulary);
  }

  /** Nothing can be asked of the runner any more; what it still says is heard. */
  onRunnerLost(): void {
    if (this.#sent === undefined) return;
    this.#sent.isLost = true;
    if (this.#stream.isPaused) this.#sendFlow('pause');
  }

  /** The runner is dead; if it had this request, another one will get it. isSuspect: the request may be the cause. */
  onRunnerDied(isSuspect: boolean): void {
    if (this.#sent !== undefined && !this.#sent.isDone && isSuspect) this.#state.countDeath();
    this.#lose();
  }

  /** The runner shall stop at it; another one will get it. */
  takeBack(): void {
    this.#sent?.client.cancel(this.#sent.requestId);
    this.#lose();
  }

  #lose(): void {
    this.#wasLost ||= this.#sent !== undefined;
    this.#sent = undefined;
  }

  cancel(): void {
    this.#sent?.client.cancel(this.#sent.requestId);
    this.#stream.close();
    this.#end();
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  /** The consumer hears the tokens that have come, then the error. */
  fail(error: GenerationError): void {
    this.#end();
    this.#stream.fail(error);
  }

  onPromptLogprobs(frame: PromptLogprobs): void {
    this.#stream.pushPromptLogprobs(this.#state.takeNew(frame));
  }

  onEmbedding({ values, first }: Embedding): void {
    this.#hasEmbedding = true;
    this.#end();
    this.#stream.pushEmbedding(values, first);
  }

  onOutput(output: Output): void {
    this.#state.append(output);
    if (output.finish === undefined) this.#stream.push(output);
    else this.#onLastOutput(output);
  }

  #onLastOutput(output: Output): void {
    const { finish, ...goingOn } = output;
    const goesOn =
      finish === 'max_tokens' &&
      this.#sent !== undefined &&
      !this.#state.isFull(this.#sent.client.maxModelLen);
    if (!goesOn) {
      this.#end();
      this.#stream.push(output);
    } else if (this.#sent?.isIsolationRun) {
      this.#sent = undefined;
      this.#stream.push(goingOn);
      this.#events.onIsolationPassed(this);
    } else {
      this.#onLegPassed();
      this.#stream.push(goingOn);
    }
  }

  /** A runner that can be asked nothing any more is about to die, and another one will get the rest. */
  #onLegPassed(): void {
    if (this.#sent === undefined) return;
    if (this.#sent.isLost) {
      this.#sent.isDone = true;
      return;
    }
    if (!this.#send(this.#sent.client, false)) return;
    if (this.#stream.isPaused) this.#sendFlow('pause');
    this.#events.onLegPassed();
  }

  onError(error: RequestError): void {
    this.fail(generationErrorOf(error));
  }

  #sendFlow(flow: 'pause' | 'resume'): void {
    // A consumer that does not read must not hold up an isolation run, for which all others wait; it buffers one token more.
    if (this.#sent === undefined || this.#sent.isIsolationRun) return;
    const { client, requestId, isLost } = this.#sent;
    if (!isLost) client[flow](requestId);
    // A runner that hears no Pause may compute on until it is dead: no more of it is taken, the next one makes it again.
    else if (flow === 'pause') client.cancel(requestId);
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
