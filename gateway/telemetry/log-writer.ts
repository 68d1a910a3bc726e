/**
 * Writes lines of the log to stderr without ever waiting for the reader: a reader that has stopped would stop every
 * stream. A line is written at once if there is room, so that a crash loses nothing. Otherwise it waits here, within a
 * bound. Lines beyond the bound are dropped, and their number is logged as soon as there is room again.
 */
import { constants, fstatSync, openSync, writeSync } from 'node:fs';

export const maxWaitingBytes = 2 ** 20;
export const retryMs = 20;
/** How long waiting lines are tried at the end of the process. */
export const flushMs = 500;

/** Writes some of the bytes and returns how many. Throws EAGAIN if there is no room for any. */
type Write = (bytes: Uint8Array) => number;

export class LogWriter {
  readonly #write: Write;
  /** Called with the number of lines that were dropped, to log it. */
  onDropped: (count: number) => void = () => {};
  readonly #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #numDropped = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(write: Write) {
    this.#write = write;
  }

  write(line: string): void {
    const bytes = Buffer.from(line);
    if (this.#waitingBytes + bytes.length > maxWaitingBytes) {
      this.#numDropped += 1;
      return;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#timer === undefined) this.#send();
  }

  /** Writes the waiting lines, for at most flushMs. Call it when the process exits. */
  flush(): void {
    const end = performance.now() + flushMs;
    this.#send();
    while (this.#waiting.length > 0 && performance.now() < end) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
      this.#send();
    }
    clearTimeout(this.#timer);
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#waiting.length > 0) {
      if (!this.#sendFirst()) {
        // The timer does not keep the process alive: it flushes when it exits.
        this.#timer = setTimeout(() => this.#send(), retryMs).unref();
        return;
      }
    }
    if (this.#numDropped === 0) return;
    const count = this.#numDropped;
    this.#numDropped = 0;
    this.onDropped(count);
  }

  /** Returns false if nothing could be written because there is no room. */
  #sendFirst(): boolean {
    const [bytes] = this.#waiting;
    if (bytes === undefined) return true;
    let numWritten: number;
    try {
      numWritten = this.#write(bytes);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return false;
      // Nobody can read the log any more, and there is nowhere else to report that.
      numWritten = bytes.length;
    }
    this.#waitingBytes -= numWritten;
    if (numWritten < bytes.length) this.#waiting[0] = bytes.subarray(numWritten);
    else this.#waiting.shift();
    return true;
  }
}

export function stderrWriter(): LogWriter {
  const fd = fdThatDoesNotWait();
  const writer = new LogWriter((bytes) => writeSync(fd, bytes));
  process.once('exit', () => writer.flush());
  return writer;
}

/**
 * A descriptor of stderr whose writes do not wait. Whether writes wait is a property of the open pipe, shared by all
 * processes that have it, and any of them may change it. So a pipe is opened again for this process alone. A socket
 * cannot be opened again; Node makes it non-blocking when its stream is first used. Writes to files do not wait, and a
 * terminal has a user who looks at it.
 */
function fdThatDoesNotWait(): number {
  const fd = 2;
  const stats = fstatSync(fd);
  if (stats.isFIFO()) {
    try {
      return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK);
    } catch {
      // The pipe belongs to another user, so the shared one has to do.
    }
  }
  if (stats.isFIFO() || stats.isSocket()) void process.stderr;
  return fd;
}
