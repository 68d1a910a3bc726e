/**
 * Speaks the protocol over two byte streams and trusts nothing that comes back: every message is checked against those before
 * it (docs/protocol.md, "Neither end trusts the other"). It knows nothing of processes. One client lives as long as one
 * runner.
 */

import type { Readable, Writable } from 'node:stream';
import { messageOf } from '../../errors/thrown.ts';
import { systemClock } from '../../system/clock.ts';
import type { CancelReason, VocabularyFrames } from '../runner.ts';
import { AnswerCheck, EmbeddingCheck, NoticeRate } from './checks.ts';
import {
  encodeFrame,
  FrameDecoder,
  FrameReader,
  FrameWriter,
  maxBytesFromRunner,
  maxBytesToRunner,
  ProtocolError,
} from './frame.ts';
import {
  decodeFromRunner,
  type Embedding,
  type FromRunner,
  type Notice,
  type PromptLogprobs,
  protocolVersion,
  type Ready,
  type RequestError,
  type Stats,
  type Step,
} from './from-runner.ts';
import { schedulerCounters } from './scheduler-stats.ts';
import { type RequestSink, type SentRequest, SentRequests } from './sent-requests.ts';
import { type Embed, encodeToRunner, type Generate } from './to-runner.ts';

const maxRequestId = 2 ** 32 - 1;

export interface ClientEvents {
  onNotice(notice: Notice): void;
  /** Called after the sinks have got the step's outputs. */
  onStep(step: number, numOutputs: number): void;
  /** The runner no longer holds a cancelled request. */
  onReleased(): void;
  /** The last event: the runner's output has ended, or the runner broke the protocol and is not read any more. */
  onClosed(error: ProtocolError | undefined): void;
}

type Phase = 'unknown' | 'loading' | 'serving' | 'exiting' | 'closed';

/** The messages that each phase allows. A runner that finds its flags wrong may fail before it says Hello. */
const allowedIn: Record<Phase, readonly FromRunner['type'][]> = {
  unknown: ['hello', 'failure'],
  loading: ['load_progress', 'ready', 'heartbeat', 'failure'],
  serving: ['step', 'prompt_logprobs', 'embedding', 'request_error', 'heartbeat', 'stats', 'failure'],
  exiting: ['heartbeat', 'stats'],
  closed: [],
};

export class RunnerClient {
  /** Settles after the last event. */
  readonly closed: Promise<void>;
  readonly #reader: FrameReader;
  readonly #writer: FrameWriter;
  readonly #events: ClientEvents;
  readonly #notices: NoticeRate;
  readonly requests = new SentRequests();
  #phase: Phase = 'unknown';
  #ready: Ready | undefined;
  #hasVocabulary = false;
  #lastStep = 0;
  #lastRequestId = 0;
  #numericsId = '';
  #stats: Stats | undefined;
  #settleClosed: () => void = () => {};

  /** input: the runner's stdout. output: its stdin, whose 'error' the caller handles. now: a monotonic clock in milliseconds. */
  constructor(input: Readable, output: Writable, events: ClientEvents, now = systemClock.now) {
    this.#writer = new FrameWriter(output);
    this.#events = events;
    this.#notices = new NoticeRate(now);
    this.closed = new Promise((resolve) => (this.#settleClosed = resolve));
    const decoder = new FrameDecoder(maxBytesFromRunner, (bytes) => this.#receive(decodeFromRunner(bytes)));
    const reading = {
      guard: (action: () => void) => this.#guard(action),
      onEnd: () => this.#close(undefined),
    };
    this.#reader = new FrameReader(input, decoder, reading, now);
  }

  /** Closes the client and drops what the runner has written and nobody has read. */
  close(): void {
    this.#close(undefined);
  }

  /** The runner's numerics id, from Ready on with its model; empty before Hello. */
  get numericsId(): string {
    return this.#numericsId;
  }

  /**
   * Sends a request and returns its id. Throws before Ready, and RangeError if a value does not fit its field. vocabulary:
   * the model's; required with the first grammar, which it is sent before.
   */
  generate(request: Omit<Generate, 'requestId'>, sink: RequestSink, vocabulary?: VocabularyFrames): number {
    const { ready } = this;
    const generate = { ...request, requestId: this.#lastRequestId + 1 };
    const frame = encodeFrame(encodeToRunner({ type: 'generate', ...generate }), maxBytesToRunner);
    if (generate.grammar !== undefined) this.#requireVocabulary(vocabulary, ready);
    return this.#begin(generate, frame, new AnswerCheck(generate, ready), sink);
  }

  /** Sends an embedding request. Same errors as generate(), and RangeError if the runner has none of this kind. */
  embed(request: Omit<Embed, 'requestId'>, sink: RequestSink): number {
    const { ready } = this;
    const embed = { ...request, requestId: this.#lastRequestId + 1 };
    if (ready.embeddingSize === 0) throw new RangeError('This runner does not support embeddings.');
    if (embed.pooling === 'rank' && !ready.scoresPairs)
      throw new RangeError('The model of this runner has no classification head.');
    const frame = encodeFrame(encodeToRunner({ type: 'embed', ...embed }), maxBytesToRunner);
    return this.#begin(embed, frame, new EmbeddingCheck(embed, ready), sink);
  }

  #begin(
    { requestId, tokenIds }: Pick<Generate, 'requestId' | 'tokenIds'>,
    frame: Uint8Array,
    check: SentRequest['check'],
    sink: RequestSink,
  ): number {
    this.#lastRequestId = requestId;
    this.requests.add(requestId, { numTokens: tokenIds.length, check, sink });
    this.#writer.send(`request ${requestId}`, frame);
    if (requestId === maxRequestId) {
      // An id must not come twice. A new runner counts from 1 again.
      this.#close(new ProtocolError('order', 'All request ids of this runner are used up.'));
    }
    return requestId;
  }

  #requireVocabulary(vocabulary: VocabularyFrames | undefined, { vocabSize }: Ready): void {
    if (this.#hasVocabulary) return;
    if (vocabulary === undefined) throw new RangeError('A grammar needs the spellings of the vocabulary.');
    const { numTokens, frames } = vocabulary;
    if (numTokens > vocabSize)
      throw new RangeError(
        `The vocabulary has ${numTokens} spellings, and the runner draws from ${vocabSize} tokens.`,
      );
    this.#hasVocabulary = true;
    for (const [index, frame] of frames.entries()) this.#writer.send(`vocabulary ${index}`, frame);
  }

  /** Cancels a request, whose sink gets nothing more. Does nothing if the request has ended. */
  cancel(requestId: number, reason: CancelReason = 'cancelled'): void {
    if (!this.requests.cancel(requestId)) return;
    this.#send(`cancel ${requestId}`, { type: 'cancel', requestId, isComplete: reason !== 'cancelled' });
  }

  pause(requestId: number): void {
    this.#setPaused(requestId, true);
  }

  resume(requestId: number): void {
    this.#setPaused(requestId, false);
  }

  #setPaused(requestId: number, isPaused: boolean): void {
    const request = this.requests.find(requestId);
    if (request === undefined) return;
    request.isPaused = isPaused;
    this.#send(`flow ${requestId}`, { type: isPaused ? 'pause' : 'resume', requestId });
  }

  /** Has the runner read nothing more from the KV cache behind this descriptor, and close it. */
  releaseKv(descriptor: number): void {
    this.#send(`release ${descriptor}`, { type: 'release_kv', descriptor });
  }

  /** Asks the runner to finish what it has and then to exit. */
  drain(): void {
    this.#send('drain', { type: 'drain' });
  }

  /** Ends the runner's stdin, which asks for the same. */
  end(): void {
    this.#writer.end();
  }

  /** Throws before Ready. */
  get ready(): Ready {
    if (this.#ready === undefined) throw new Error('A request was made before the runner was ready.');
    return this.#ready;
  }

  #send(key: string, message: Parameters<typeof encodeToRunner>[0]): void {
    this.#writer.send(key, encodeFrame(encodeToRunner(message), maxBytesToRunner));
  }

  /**
   * Runs the action. A ProtocolError closes the client; so does an error of the gateway itself, which must not end the whole
   * gateway.
   */
  #guard(action: () => void): void {
    if (this.#phase === 'closed') return;
    try {
      action();
    } catch (error) {
      this.#close(error instanceof ProtocolError ? error : internalError(error));
    }
  }

  #close(error: ProtocolError | undefined): void {
    if (this.#phase === 'closed') return;
    this.#phase = 'closed';
    this.requests.clear();
    this.#reader.stop();
    this.#events.onClosed(error);
    this.#settleClosed();
  }

  #receive(message: FromRunner): void {
    if (!allowedIn[this.#phase].includes(message.type))
      throw new ProtocolError('order', `The runner sent ${message.type} in phase ${this.#phase}.`);
    switch (message.type) {
      case 'step':
        this.#onStep(message);
        break;
      case 'prompt_logprobs':
        this.#onPromptLogprobs(message);
        break;
      case 'embedding':
        this.#onEmbedding(message);
        break;
      case 'request_error':
        this.#onRequestError(message);
        break;
      default:
        this.#take(message);
        this.#events.onNotice(message);
    }
  }

  #take(notice: Notice): void {
    switch (notice.type) {
      case 'hello':
        if (notice.protocolVersion !== protocolVersion)
          throw new ProtocolError(
            'version',
            `The runner speaks protocol version ${notice.protocolVersion}, the gateway version ${protocolVersion}. ` +
              'Build both from the same sources.',
          );
        this.#phase = 'loading';
        this.#numericsId = notice.numericsId;
        break;
      case 'ready':
        this.#phase = 'serving';
        this.#ready = notice;
        this.#numericsId = notice.numericsId || this.#numericsId;
        break;
      case 'failure':
        this.#phase = 'exiting';
        break;
      default:
        this.#notices.count(notice.type);
        if (notice.type === 'stats') this.#takeStats(notice);
    }
  }

  #onStep({ step, outputs }: Step): void {
    if (step !== this.#lastStep + 1)
      throw new ProtocolError('order', `Step ${step} came where ${this.#lastStep + 1} comes next.`);
    this.#lastStep = step;
    const maxNumSeqs = this.#ready?.maxNumSeqs ?? 0;
    if (outputs.length > maxNumSeqs)
      throw new ProtocolError('field', `A step has ${outputs.length} outputs, more than ${maxNumSeqs}.`);
    if (outputs.length === 0) this.requests.countEmptyStep();
    for (const output of outputs) {
      const request = this.requests.spokenOf(output.requestId);
      request.check.accept(output, step);
      if (output.finish !== undefined) this.#forget(output.requestId, request);
      if (!request.isCancelled) request.sink.onOutput(output);
    }
    this.#events.onStep(step, outputs.length);
  }

  #onPromptLogprobs(frame: PromptLogprobs): void {
    const request = this.requests.spokenOf(frame.requestId);
    request.check.acceptPromptLogprobs(frame);
    if (!request.isCancelled) request.sink.onPromptLogprobs(frame);
  }

  #onEmbedding(embedding: Embedding): void {
    const { requestId } = embedding;
    const request = this.requests.spokenOf(requestId);
    request.check.acceptEmbedding(embedding);
    this.#forget(requestId, request);
    if (!request.isCancelled) request.sink.onEmbedding(embedding);
  }

  #takeStats(stats: Stats): void {
    for (const name of schedulerCounters) {
      const before = this.#stats?.[name] ?? 0;
      if (stats[name] >= before) continue;
      throw new ProtocolError('order', `The counter ${name} went back from ${before} to ${stats[name]}.`);
    }
    this.#stats = stats;
  }

  #onRequestError(error: RequestError): void {
    const request = this.requests.spokenOf(error.requestId);
    this.#forget(error.requestId, request);
    if (request.isCancelled) return;
    if (error.code === 'CANCELLED')
      throw new ProtocolError(
        'order',
        `Request ${error.requestId} was reported cancelled; nobody had asked.`,
      );
    request.sink.onError(error);
  }

  #forget(requestId: number, request: SentRequest): void {
    this.requests.end(requestId, request);
    if (request.isCancelled) this.#events.onReleased();
  }
}

function internalError(error: unknown): ProtocolError {
  const what = messageOf(error);
  return new ProtocolError('internal', `The gateway failed at what the runner said: ${what}`, {
    cause: error,
  });
}
