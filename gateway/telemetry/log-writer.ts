/**
 * Lines of the log on their way to stderr, which never wait for who reads it: a reader that has stopped would stop every stream.
 * A line is written at once where there is room, so that nothing is lost in a crash. What finds none waits here, within a
 * bound; beyond it lines are dropped, and how many is said as soon as there is room again.
 */
import { constants, fstatSync, openSync, writeSync } from 'node:fs';

export const maxWaitingBytes = 2 ** 20;
/** How often it is looked whether there is room again. */
export const retryMs = 20;
/** At the end of the process, for what waits. */
export const flushMs = 500;

/** Writes some of the bytes and says how many; throws EAGAIN where there is no room for one. */
type Write = (bytes: Uint8Array) => number;

export class LogWriter {
  readonly #write: Write;
  /** Says in the log how many lines were dropped. */
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

  /** To be called when the process exits: what waits still gets some time. */
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
        // A process that has nothing else to do flushes when it exits.
        this.#timer = setTimeout(() => this.#send(), retryMs).unref();
        return;
      }
    }
    if (this.#numDropped === 0) return;
    const count = this.#numDropped;
    this.#numDropped = 0;
    this.onDropped(count);
  }

  /** False if there is no room for all of it. */
  #sendFirst(): boolean {
    const [bytes] = this.#waiting;
    if (bytes === undefined) return true;
    let numWritten: number;
    try {
      numWritten = this.#write(bytes);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return false;
      // Nobody can read it any more, and there is nowhere else to say so.
      numWritten = bytes.length;
    }
    this.#waitingBytes -= numWritten;
    if (numWritten < bytes.length) this.#waiting[0] = bytes.subarray(numWritten);
    else this.#waiting.shift();
    return true;
  }
}

/** The writer of this process's stderr. */
export function stderrWriter(): LogWriter {
  const fd = fdThatDoesNotWait();
  const writer = new LogWriter((bytes) => writeSync(fd, bytes));
  process.once('exit', () => writer.flush());
  return writer;
}

/**
 * Whether writing waits is a property that all processes with the same open pipe share, and whoever starts one of them with it
 * may set it; so a pipe is opened again, for this process alone. A socket cannot be: Node makes it one that does not wait when the
 * stream for it is first asked for. A file does not make anybody wait, and a terminal is somebody's who looks at it.
 */
function fdThatDoesNotWait(): number {
  const fd = 2;
  const stats = fstatSync(fd);
  if (stats.isFIFO()) {
    try {
      return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK);
    } catch {
      // It is another user's. What is shared has to do.
    }
  }
  if (stats.isFIFO() || stats.isSocket()) void process.stderr;
  return fd;
}
