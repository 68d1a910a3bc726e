/**
 * One request from its admission to its end, on as many runners as it takes: what was asked and emitted (state), the way to
 * its consumer (stream), and the runner that has it now, if any.
 */
import { createHash } from 'node:crypto';
import { ANONYMOUS, type Caller } from '../../system/caller.ts';
import type { QueueItem } from '../../system/fair-shares.ts';
import type { Loading } from '../kv-disk/kv-disk.ts';
import type { RunnerClient } from '../protocol/client.ts';
import type { Embedding, Output, PromptLogprobs, RequestError } from '../protocol/from-runner.ts';
import type { RequestSink } from '../protocol/sent-requests.ts';
import {
  type CancelReason,
  type FirstOutput,
  type GenerateRequest,
  GenerationError,
  type GenerationHandle,
  type Grammar,
  type TokenSink,
} from '../runner.ts';
import { GenerationState } from './generation-state.ts';
import { TokenStream } from './token-stream.ts';

/** What a crash report says of a request: its parameters and sizes, without any text. */
export type RequestFacts = Readonly<Record<string, number | bigint>>;

export interface OpenRequestEvents {
  /** Called once, when nothing more is wanted from a runner. */
  onEnd(request: OpenRequest): void;
  /** The token of an isolation run has come and the request goes on; no runner has it now. */
  onIsolationPassed(request: OpenRequest): void;
  /** The runner has compiled the grammar of the request, which shows by an output. */
  onGrammarCompiled(request: OpenRequest, key: string): void;
  /** A segment of the answer is complete, and the same runner has been asked for the next one. */
  onSegmentPassed(): void;
  /** The runner has been asked to pause the request, and may compute another one instead. */
  onPaused(): void;
}

export interface Submission {
  /** For one token only. */
  readonly isIsolationRun: boolean;
  /** That of the runner. */
  readonly place: number;
  /** Descriptors of the runner: KV caches that may have what other runners computed for the request. */
  readonly kvFrom: readonly number[];
}

export class OpenRequest implements RequestSink, GenerationHandle, QueueItem {
  /** Requests are numbered in the order of their admission. */
  readonly order: number;
  readonly request: GenerateRequest;
  readonly state: GenerationState;
  readonly #sink: TokenSink;
  readonly #stream: TokenStream;
  readonly #events: OpenRequestEvents;
  #sent:
    | {
        readonly client: RunnerClient;
        readonly requestId: number;
        readonly isIsolationRun: boolean;
        isLost: boolean;
        hasOutput: boolean;
        isDone: boolean;
      }
    | undefined;
  #places: readonly number[] = [];
  #loading: Loading | undefined;
  /** Blocks of the text are on their way from the disk; no runner gets the request before. */
  isLoading = false;
  /** Numerics id of the runner that had the request last. */
  #numericsId: string | undefined;
  /** The context of the runner that had the request first, for which it was admitted. */
  #firstMaxModelLen: number | undefined;
  #hasEmbedding = false;
  #wasLost = false;
  #isOpen = true;
  readonly #now: () => number;
  readonly #admittedMs: number;
  /** Milliseconds from the admission to the last submit(). */
  #waitedMs = 0;

  /** now: a monotonic clock in milliseconds. */
  constructor(
    request: GenerateRequest,
    sink: TokenSink,
    order: number,
    now: () => number,
    events: OpenRequestEvents,
  ) {
    this.order = order;
    this.request = request;
    this.#now = now;
    this.#admittedMs = now();
    this.state = new GenerationState(request);
    this.#sink = sink;
    this.#stream = new TokenStream(sink, (flow) => this.#sendFlow(flow), this.state.numEmitted);
    this.#numericsId = request.resumeFrom?.numericsId;
    this.#wasLost = request.resumeFrom !== undefined;
    this.#events = events;
  }

  get caller(): Caller {
    return this.request.caller ?? ANONYMOUS;
  }

  get priority(): number {
    return this.request.priority ?? 0;
  }

  /** The tokens that a runner must compute before the next token of the answer. */
  get cost(): number {
    return this.request.promptIds.length + this.state.numEmitted;
  }

  /** Equal for requests with the same grammar; undefined without one. */
  get grammarKey(): string | undefined {
    const { grammar } = this.request;
    return grammar && grammarKeyOf(grammar);
  }

  get isSent(): boolean {
    return this.#sent !== undefined;
  }

  /** Undefined while no runner has the request. strikes: runners that died on it before, without a token in between. */
  get facts(): RequestFacts | undefined {
    if (this.#sent === undefined) return undefined;
    const { promptIds, maxTokens, sampling } = this.request;
    const { logitBias, allowedTokenIds, bannedTokenIds, ...numbers } = sampling;
    return {
      requestId: this.#sent.requestId,
      promptTokens: promptIds.length,
      emittedTokens: this.state.numEmitted,
      strikes: this.state.crashesWithoutProgress,
      maxTokens,
      ...numbers,
      logitBiases: logitBias.size,
      allowedTokens: allowedTokenIds.length,
      bannedTokens: bannedTokenIds.length,
    };
  }

  /** The places whose KV caches may have what was computed of the text: those of the runners that had the request come first. */
  get places(): readonly number[] {
    return this.#places;
  }

  get hasResult(): boolean {
    return this.state.numEmitted > 0 || this.#hasEmbedding;
  }

  /** A suspect: a runner has died with the request, which has had no new token since. */
  get isSuspect(): boolean {
    return this.state.crashesWithoutProgress > 0;
  }

  /** Whether a runner has the request and computes nothing for it, because its consumer does not read. */
  get isPaused(): boolean {
    return this.#sent !== undefined && !this.#sent.isIsolationRun && this.#stream.isPaused;
  }

  /** Resolves when the request may be given to a runner. */
  async load(loading: Loading): Promise<void> {
    this.#loading = loading;
    this.isLoading = true;
    this.#places = (await loading.done) ?? [];
    this.isLoading = false;
  }

  /** The runner has copied what it needs, or nobody needs it any more. */
  #endLoading(): void {
    this.#loading?.release();
    this.#loading = undefined;
  }

  /** Gives the request to a runner that is ready, from the first token or from where the answer stands. */
  submit(client: RunnerClient, { isIsolationRun, place, kvFrom }: Submission): void {
    if (this.#sent !== undefined) throw new Error('A request was given to two runners.');
    this.#waitedMs = Math.round(this.#now() - this.#admittedMs);
    this.#places = [place, ...this.#places.filter((each) => each !== place)];
    if (!this.#send(client, isIsolationRun, kvFrom)) return;
    this.#sink.onTaken?.();
    const { numEmitted } = this.state;
    if (numEmitted > 0 && client.numericsId !== this.#numericsId) this.#stream.continuedBy(client.numericsId);
    this.#numericsId = client.numericsId;
    if (numEmitted > 0 && this.#wasLost) this.#stream.resumed();
    this.#wasLost = false;
    if (this.#stream.isPaused) this.#sendFlow('pause');
  }

  /** Returns false if the request cannot be sent, which ends it. */
  #send(client: RunnerClient, isIsolationRun: boolean, kvFrom: readonly number[] = []): boolean {
    this.#firstMaxModelLen ??= client.ready.maxModelLen;
    if (this.#hasOutgrown(client)) {
      this.#refuse(tooLargeFor(client));
      return false;
    }
    try {
      this.#sent = {
        client,
        requestId: this.#ask(client, isIsolationRun, kvFrom),
        isIsolationRun,
        isLost: false,
        hasOutput: false,
        isDone: false,
      };
      return true;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      const { message } = error;
      this.#refuse(new GenerationError('INVALID_REQUEST', message, { retriable: false, cause: error }));
      return false;
    }
  }

  #refuse(error: GenerationError): void {
    this.#end();
    // The error comes later, because submit() may run within the consumer's own call of generate().
    queueMicrotask(() => this.#stream.fail(error));
  }

  /**
   * Whether the request has filled the context of a runner that holds less than the one it was admitted for, because its KV
   * cache is smaller. Without this, the answer would end as if it were complete.
   */
  #hasOutgrown({ ready: { maxModelLen } }: RunnerClient): boolean {
    return maxModelLen < (this.#firstMaxModelLen ?? 0) && this.state.fillsContext(maxModelLen);
  }

  #ask(client: RunnerClient, isIsolationRun: boolean, kvFrom: readonly number[]): number {
    const embed = this.state.toEmbed();
    if (embed !== undefined) return client.embed(embed, this);
    return client.generate(
      { ...this.state.toGenerate(isIsolationRun), kvFrom },
      this,
      this.request.vocabulary,
    );
  }

  /** The runner accepts no more frames; the request still takes the tokens that arrive. */
  onRunnerLost(): void {
    if (this.#sent === undefined) return;
    this.#sent.isLost = true;
    if (this.#stream.isPaused) this.#sendFlow('pause');
  }

  /** The runner is dead. If it had this request, another runner will get it. isSuspect: the request may be the cause. */
  onRunnerDied(isSuspect: boolean): void {
    if (this.#sent !== undefined && !this.#sent.isDone && isSuspect) this.state.crashesWithoutProgress += 1;
    this.#lose();
  }

  /** Cancels the request on its runner, so that another one can get it. */
  takeBack(): void {
    this.#sent?.client.cancel(this.#sent.requestId);
    this.#lose();
  }

  /** Leaves its place at the runner to another request. It goes on with the next submit(), and its consumer sees a pause. */
  giveWay(): void {
    // A runner counts other cancels as failures.
    this.#sent?.client.cancel(this.#sent.requestId, 'enough');
    this.#sent = undefined;
  }

  #lose(): void {
    if (this.#sent === undefined) return;
    this.#wasLost = true;
    this.#sent = undefined;
    this.#sink.onLost?.();
  }

  cancel(reason?: CancelReason): void {
    this.#sent?.client.cancel(this.#sent.requestId, reason);
    this.#stream.close();
    this.#end();
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  /** Cancels the request on its runner, and fails it. */
  abort(error: GenerationError): void {
    this.#sent?.client.cancel(this.#sent.requestId);
    this.fail(error);
  }

  /** The consumer gets the tokens that have come, then the error. */
  fail(error: GenerationError): void {
    this.#end();
    this.#stream.fail(error);
  }

  onPromptLogprobs(frame: PromptLogprobs): void {
    this.#stream.pushPromptLogprobs(this.state.takeNew(frame));
  }

  onEmbedding({ values, first }: Embedding): void {
    this.#hasEmbedding = true;
    this.#end();
    this.#stream.pushEmbedding(values, this.#withWait(first));
  }

  onOutput(output: Output): void {
    this.#endLoading();
    this.#noteGrammar();
    this.state.append(output);
    const timed = output.first === undefined ? output : { ...output, first: this.#withWait(output.first) };
    if (output.finish === undefined) this.#stream.push(timed);
    else this.#onLastOutput(timed);
  }

  #noteGrammar(): void {
    const { grammarKey } = this;
    if (grammarKey === undefined || this.#sent === undefined || this.#sent.hasOutput) return;
    this.#sent.hasOutput = true;
    this.#events.onGrammarCompiled(this, grammarKey);
  }

  /** The runner counts from its receipt of the request, its client from the admission. */
  #withWait(first: FirstOutput): FirstOutput {
    return { ...first, queuedUs: first.queuedUs + this.#waitedMs * 1000 };
  }

  #onLastOutput(output: Output): void {
    const { finish, ...goingOn } = output;
    const goesOn =
      finish === 'max_tokens' &&
      this.#sent !== undefined &&
      !this.state.isFull(this.#sent.client.ready.maxModelLen);
    const client = this.#sent?.client;
    if (finish === 'max_tokens' && client !== undefined && this.#hasOutgrown(client)) {
      this.#stream.push(goingOn);
      this.fail(tooLargeFor(client));
    } else if (!goesOn) {
      this.#end();
      this.#stream.push(output);
    } else if (this.#sent?.isIsolationRun) {
      this.#sent = undefined;
      this.#stream.push(goingOn);
      this.#events.onIsolationPassed(this);
    } else {
      this.#onSegmentPassed();
      this.#stream.push(goingOn);
    }
  }

  /**
   * Asks the same runner for the next segment. A runner that accepts no more frames is about to die, and another one gets the
   * rest.
   */
  #onSegmentPassed(): void {
    if (this.#sent === undefined) return;
    if (this.#sent.isLost) {
      this.#sent.isDone = true;
      return;
    }
    if (!this.#send(this.#sent.client, false)) return;
    if (this.#stream.isPaused) this.#sendFlow('pause');
    this.#events.onSegmentPassed();
  }

  onError(error: RequestError): void {
    this.fail(generationErrorOf(error));
  }

  #sendFlow(flow: 'pause' | 'resume'): void {
    // A consumer that does not read must not hold up an isolation run, for which others wait. The run makes one token at
    // most, which is buffered.
    if (this.#sent === undefined || this.#sent.isIsolationRun) return;
    const { client, requestId, isLost } = this.#sent;
    if (!isLost) {
      client[flow](requestId);
      if (flow === 'pause') this.#events.onPaused();
    }
    // A lost runner gets no Pause and may compute until it is dead. Its further tokens are dropped; the next runner makes
    // them again.
    else if (flow === 'pause') client.cancel(requestId);
  }

  #end(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#endLoading();
    this.#sent = undefined;
    this.#events.onEnd(this);
  }
}

function tooLargeFor({ ready: { maxModelLen } }: RunnerClient): GenerationError {
  const message = `The request was continued by a runner whose KV cache holds ${maxModelLen} tokens, and needs more. Ask for fewer tokens, or start with a larger KV cache (--kv-cache-bytes).`;
  return new GenerationError('OUT_OF_MEMORY', message, { retriable: false });
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

/** By grammar: the choices of one request share theirs. */
const keys = new WeakMap<Grammar, string>();

/** Equal for equal grammars. A source may be long, so it is not kept. */
function grammarKeyOf(grammar: Grammar): string {
  const known = keys.get(grammar);
  if (known !== undefined) return known;
  const { kind, strict, source } = grammar;
  const key = createHash('sha256').update(`${kind} ${strict} ${source}`).digest('base64');
  keys.set(grammar, key);
  return key;
}
