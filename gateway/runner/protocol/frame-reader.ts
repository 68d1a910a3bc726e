/**
 * Takes the frames of a runner off its pipe, for a bounded time in each turn of the event loop. A pipe can hold more than
 * the loop should do at once: what one chunk of it brings to streams takes ten times as long as reading it. What is left
 * waits here, and the pipe is not read meanwhile, so that it is the runner that waits in the end.
 */
import type { Readable } from 'node:stream';
import type { FrameDecoder } from './frame.ts';

/** In each turn one frame is taken at least, and none after so long. */
export const maxTurnMs = 2;

export interface FrameReaderEvents {
  /** Does what is given, which may throw what the runner did wrong. */
  guard(action: () => void): void;
  /** Everything was taken, and nothing more will come. Called once, unless the reader is stopped before. */
  onEnd(): void;
}

export class FrameReader {
  readonly #input: Readable;
  readonly #decoder: FrameDecoder;
  readonly #events: FrameReaderEvents;
  readonly #now: () => number;
  /** Node reads a pipe to its end when the process exits, paused or not: so there may be more than one, a pipe's worth in all. */
  readonly #waiting: Uint8Array[] = [];
  /** In the first of them. */
  #position = 0;
  /** Of this turn of the loop; undefined: nothing has been taken in it. */
  #turnEndsAt: number | undefined;
  #isTaking = false;
  /** How the input ended: between two reads, or by an error or a close, which may come anywhere. */
  #ended: 'whole' | 'cut' | undefined;
  #isStopped = false;

  /** now: milliseconds that only grow. */
  constructor(input: Readable, decoder: FrameDecoder, events: FrameReaderEvents, now: () => number) {
    this.#input = input;
    this.#decoder = decoder;
    this.#events = events;
    this.#now = now;
    input.on('data', (chunk: Uint8Array) => {
      if (this.#isStopped) return;
      this.#waiting.push(chunk);
      this.#take();
    });
    input.on('end', () => this.#onInputEnd('whole'));
    for (const event of ['error', 'close']) input.on(event, () => this.#onInputEnd('cut'));
  }

  /** What waits is dropped, and the pipe is closed. */
  stop(): void {
    this.#isStopped = true;
    this.#waiting.length = 0;
    this.#input.destroy();
  }

  #onInputEnd(how: 'whole' | 'cut'): void {
    if (this.#ended !== undefined) return;
    this.#ended = how;
    this.#take();
  }

  #take(): void {
    // What a frame brings about may bring the next chunk at once.
    if (this.#isTaking) return;
    this.#isTaking = true;
    const isAllTaken = this.#takeForATurn();
    this.#isTaking = false;
    if (this.#isStopped) return;
    if (!isAllTaken) this.#input.pause();
    else if (this.#ended === undefined) this.#input.resume();
    else this.#end(this.#ended);
  }

  /** False if something is left for the next turn. */
  #takeForATurn(): boolean {
    this.#turnEndsAt ??= this.#beginTurn();
    while (!this.#isStopped && this.#waiting.length > 0) {
      if (this.#now() >= this.#turnEndsAt) return false;
      this.#takeOne();
    }
    return true;
  }

  #end(how: 'whole' | 'cut'): void {
    if (how === 'whole') this.#events.guard(() => this.#decoder.end());
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#events.onEnd();
  }

  #beginTurn(): number {
    setImmediate(() => {
      this.#turnEndsAt = undefined;
      if (this.#waiting.length > 0) this.#take();
    });
    return this.#now() + maxTurnMs;
  }

  #takeOne(): void {
    const [chunk] = this.#waiting;
    if (chunk === undefined) return;
    this.#events.guard(() => {
      this.#position = this.#decoder.pushOne(chunk, this.#position);
    });
    if (this.#position < chunk.length) return;
    this.#waiting.shift();
    this.#position = 0;
  }
}
