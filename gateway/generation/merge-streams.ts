import type { GenerateRequest, Runner } from '../runner/runner.ts';
import { turnEnd } from '../system/turns.ts';
import { type AnswerOptions, type AnswerPart, TextStream } from './text-stream.ts';

/** Gets the texts of several answers. */
export interface MergedSink {
  /** index: the place of the answer's request among the requests. */
  onPart(part: AnswerPart, index: number): void;
  /** Ends all answers. Same errors as TextSink.onError(). */
  onError(error: unknown): void;
}

/** The open text of one client's answer: one TextStream, or several that are merged. */
export type OpenText = Pick<TextStream, 'cancel' | 'pause' | 'resume'>;
export type AbortableText = Pick<TextStream, 'abort' | keyof OpenText>;

/**
 * Runs several requests and reports their answers to one sink: what one step of the runner brings is reported in the order of
 * the requests. Takes all requests or none, and throws GenerationError at once. Later the failure of one request ends all.
 */
export function mergeStreams(
  runner: Pick<Runner, 'generate' | 'assertCapacity'>,
  requests: readonly GenerateRequest[],
  options: AnswerOptions,
  sink: MergedSink,
): AbortableText {
  runner.assertCapacity(requests);
  const merged = new MergedStreams(sink);
  try {
    for (const request of requests) merged.add(runner, request, options);
  } catch (error) {
    merged.cancel();
    throw error;
  }
  return merged;
}

interface Arrival {
  readonly index: number;
  readonly part: AnswerPart;
}

class MergedStreams implements AbortableText {
  readonly #sink: MergedSink;
  readonly #streams: TextStream[] = [];
  /** Parts that the sink has not got yet: those of this turn or, during a pause, those that came before the streams stopped. */
  #arrived: Arrival[] = [];
  #failure: { readonly error: unknown } | undefined;
  #isPaused = false;
  #isOver = false;

  constructor(sink: MergedSink) {
    this.#sink = sink;
  }

  add(runner: Pick<Runner, 'generate'>, request: GenerateRequest, options: AnswerOptions): void {
    const index = this.#streams.length;
    const stream = new TextStream(runner, request, options, {
      onPart: (part) => this.#onPart(index, part),
      onError: (error) => this.#fail(error),
    });
    this.#streams.push(stream);
  }

  cancel(): void {
    this.#isOver = true;
    for (const stream of this.#streams) stream.cancel();
  }

  abort(error: unknown): void {
    for (const stream of this.#streams) stream.abort(error);
  }

  pause(): void {
    this.#isPaused = true;
    for (const stream of this.#streams) stream.pause();
  }

  /** Resumes the streams one after another, until the sink calls pause() again. */
  resume(): void {
    this.#isPaused = false;
    this.onTurnEnd();
    for (const stream of this.#streams) if (!this.#isPaused) stream.resume();
  }

  /** By now the frame that brought the first part has brought the parts of the other requests too. */
  onTurnEnd(): void {
    if (this.#isPaused || this.#isOver) return;
    const arrived = this.#arrived.sort((a, b) => a.index - b.index);
    this.#arrived = [];
    for (const [at, { index, part }] of arrived.entries()) {
      if (this.#isPaused || this.#isOver) {
        this.#arrived = arrived.slice(at);
        return;
      }
      this.#hear(index, part);
    }
    if (this.#failure === undefined || this.#isOver) return;
    this.#isOver = true;
    this.#sink.onError(this.#failure.error);
  }

  #onPart(index: number, part: AnswerPart): void {
    if (this.#streams.length === 1 && !this.#isPaused) {
      this.#sink.onPart(part, index);
      return;
    }
    this.#arrived.push({ index, part });
    turnEnd.add(this);
  }

  #hear(index: number, part: AnswerPart): void {
    try {
      this.#sink.onPart(part, index);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = { error };
    for (const stream of this.#streams) stream.cancel();
    turnEnd.add(this);
  }
}
