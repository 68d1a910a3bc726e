/** The two pipes of a runner: frames are taken off one of them and written to the other. */
import type { Readable, Writable } from 'node:stream';
import type { FrameDecoder } from './frame.ts';

/** Time to take frames in one turn. At least one frame is taken. */
export const maxTurnMs = 2;

export interface FrameReaderEvents {
  /** Runs the action, which may throw what is wrong with a frame. */
  guard(action: () => void): void;
  /** All frames were taken and no more come. Called once, unless the reader is stopped before. */
  onEnd(): void;
}

/**
 * Takes a runner's frames off its pipe, for a bounded time in each turn of the event loop. A pipe can hold more than the loop
 * should do at once: handling a chunk's frames takes ten times as long as reading it. The rest waits here and the pipe is not
 * read meanwhile, so in the end the runner waits.
 */
export class FrameReader {
  readonly #input: Readable;
  readonly #decoder: FrameDecoder;
  readonly #events: FrameReaderEvents;
  readonly #now: () => number;
  /**
   * Chunks not taken yet. There may be several: Node reads a pipe to its end when the process exits, even if it is paused.
   * Together they are no more than a pipe holds.
   */
  readonly #waiting: Uint8Array[] = [];
  #position = 0;
  /** End of this turn's time; undefined: no frame has been taken in this turn. */
  #turnEndsAt: number | undefined;
  #isTaking = false;
  /** How the input ended: whole by an end, cut by an error or a close, which may come inside a frame. */
  #ended: 'whole' | 'cut' | undefined;
  #isStopped = false;

  /** now: a monotonic clock in milliseconds. */
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
    // Handling a frame may bring in the next chunk at once.
    if (this.#isTaking) return;
    this.#isTaking = true;
    const isAllTaken = this.#takeForATurn();
    this.#isTaking = false;
    if (this.#isStopped) return;
    if (!isAllTaken) this.#input.pause();
    else if (this.#ended === undefined) this.#input.resume();
    else this.#end(this.#ended);
  }

  /** Takes frames until this turn's time is over. Returns false if some are left for the next turn. */
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

/**
 * Writes frames to a pipe. While the pipe is full they wait here, in order, at most one for each key. So the number of open
 * requests bounds how many wait.
 */
export class FrameWriter {
  readonly #output: Writable;
  readonly #waiting = new Map<string, Uint8Array>();
  #isFull = false;
  #isEnding = false;

  /** The caller handles the output's 'error'. Frames for a broken pipe are dropped. */
  constructor(output: Writable) {
    this.#output = output;
    output.on('drain', () => this.#flush());
  }

  /** Sends a frame. It replaces a waiting frame with the same key, so only the later of the two is sent. */
  send(key: string, frame: Uint8Array): void {
    if (this.#isEnding || !this.#output.writable) return;
    // Without the delete, a key that is set again would keep its old place in the order.
    this.#waiting.delete(key);
    this.#waiting.set(key, frame);
    if (!this.#isFull) this.#flush();
  }

  /** Ends the pipe once all waiting frames are written. */
  end(): void {
    this.#isEnding = true;
    if (!this.#isFull) this.#flush();
  }

  #flush(): void {
    this.#isFull = false;
    for (const [key, frame] of this.#waiting) {
      if (this.#isFull) return;
      this.#waiting.delete(key);
      this.#isFull = !this.#output.write(frame);
    }
    if (this.#isEnding && this.#waiting.size === 0) this.#output.end();
  }
}
