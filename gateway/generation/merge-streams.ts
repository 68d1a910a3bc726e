import type { GenerateRequest, Runner } from '../runner/runner.ts';
import { turnEnd } from '../system/turn-end.ts';
import { type AnswerOptions, type AnswerPart, TextStream } from './text-stream.ts';

/** Hears the texts of several answers. */
export interface MergedSink {
  /** index: place of its request among the requests. */
  onPart(index: number, part: AnswerPart): void;
  /** The end of all of them, as a TextSink's. */
  onError(error: unknown): void;
}

/** What is open of one client's answer: a TextStream, or several as one. */
export type OpenText = Pick<TextStream, 'cancel' | 'pause' | 'resume'>;

/**
 * Several requests whose answers are heard side by side: what one step of the runner brought comes in the order of the
 * requests. Takes all of them or none, throwing GenerationError at once; later the failure of one ends all.
 */
export function mergeStreams(
  runner: Pick<Runner, 'generate' | 'assertCapacity'>,
  requests: readonly GenerateRequest[],
  options: AnswerOptions,
  sink: MergedSink,
): OpenText {
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

class MergedStreams implements OpenText {
  readonly #sink: MergedSink;
  readonly #streams: TextStream[] = [];
  /** What came and was not heard yet: of this turn, or since the pause, when no more of it comes. */
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

  pause(): void {
    this.#isPaused = true;
    for (const stream of this.#streams) stream.pause();
  }

  /** One after the other, as long as nobody says pause. */
  resume(): void {
    this.#isPaused = false;
    this.onTurnEnd();
    for (const stream of this.#streams) if (!this.#isPaused) stream.resume();
  }

  /** The frame that brought the first part has brought the others. */
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
      this.#sink.onPart(index, part);
      return;
    }
    this.#arrived.push({ index, part });
    turnEnd.add(this);
  }

  #hear(index: number, part: AnswerPart): void {
    try {
      this.#sink.onPart(index, part);
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
