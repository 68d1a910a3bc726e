/**
 * Frames on their way into a pipe. A pipe that is full holds them back here, in order; one frame of each key waits at
 * most, so that what can pile up is bounded by the number of open requests.
 */
import type { Writable } from 'node:stream';

export class FrameWriter {
  readonly #output: Writable;
  readonly #waiting = new Map<string, Uint8Array>();
  #isFull = false;
  #isEnding = false;

  /** The caller handles the output's 'error'; frames for a broken pipe are dropped. */
  constructor(output: Writable) {
    this.#output = output;
    output.on('drain', () => this.#flush());
  }

  /** Takes the place of a frame with the same key that still waits: only the later one of the two is sent. */
  send(key: string, frame: Uint8Array): void {
    if (this.#isEnding || !this.#output.writable) return;
    // Deleted first, because a key that is set again would keep its old place in the order.
    this.#waiting.delete(key);
    this.#waiting.set(key, frame);
    if (!this.#isFull) this.#flush();
  }

  /** Ends the pipe behind what waits. */
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
