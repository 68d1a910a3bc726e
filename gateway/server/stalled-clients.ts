import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { connectionKey, readUnacknowledged, type Unacknowledged } from './unacknowledged.ts';

/**
 * Cuts the connections of clients that do not take their answers, or next to nothing of them: those that do not read, those
 * that read to keep us busy, and those that are gone without a word. What is sent to keep a silent stream alive sees to it
 * that there is always something to take.
 */

/** Looks in the time after which a client is given up: it may last a tenth longer than that. */
const LOOKS_PER_TIMEOUT = 10;

export interface StallOptions {
  /** In which a client takes what there is, or enough of it. */
  readonly timeoutMs: number;
  /** Called before the connection is cut. */
  readonly onStalled: (heldBytes: number) => void;
  readonly unacknowledged?: () => Unacknowledged;
}

export class StalledClients {
  readonly #options: StallOptions;
  readonly #readers = new Map<ServerResponse, Reader>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: StallOptions) {
    this.#options = options;
  }

  /** From when the answer has the connection until it has been given or the connection is closed. */
  watch(answer: ServerResponse): void {
    // The answer to a request that came behind another one waits until that is answered.
    if (answer.socket === null) answer.once('socket', (socket: Socket) => this.#add(answer, socket));
    else this.#add(answer, answer.socket);
  }

  #add(answer: ServerResponse, socket: Socket): void {
    const { timeoutMs } = this.#options;
    this.#readers.set(answer, new Reader(socket, timeoutMs, performance.now()));
    answer.once('close', () => this.#forget(answer));
    this.#timer ??= setInterval(() => this.#look(), timeoutMs / LOOKS_PER_TIMEOUT);
  }

  #forget(answer: ServerResponse): void {
    this.#readers.delete(answer);
    if (this.#readers.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    const { onStalled, unacknowledged = readUnacknowledged } = this.#options;
    const nowMs = performance.now();
    const table = unacknowledged();
    for (const [answer, reader] of this.#readers) {
      if (!reader.isTooSlow(table, nowMs)) continue;
      onStalled(reader.heldBytes);
      answer.destroy();
    }
  }
}

/** Node keeps to itself how much of a large write the kernel has taken; of the write as a whole it tells at its end. */
interface Handle {
  /** Given to the kernel, or waiting to be. */
  readonly bytesWritten: number;
  readonly writeQueueSize: number;
}

class Reader {
  readonly #socket: Socket;
  readonly #key: string | undefined;
  readonly #pace: ReadingPace;

  constructor(socket: Socket, timeoutMs: number, nowMs: number) {
    this.#socket = socket;
    this.#key = connectionKey(socket);
    // What is on its way from before belongs to answers that were watched themselves.
    const { bytesWritten } = socket;
    this.#pace = new ReadingPace(timeoutMs, { offeredBytes: bytesWritten, takenBytes: bytesWritten }, nowMs);
  }

  isTooSlow(table: Unacknowledged, nowMs: number): boolean {
    return this.#pace.isTooSlow(this.#progress(table), nowMs);
  }

  /** In this process; the kernel has more. */
  get heldBytes(): number {
    return this.#socket.writableLength;
  }

  #progress(table: Unacknowledged): Progress {
    const offeredBytes = this.#socket.bytesWritten;
    const { _handle: handle } = this.#socket as Socket & { readonly _handle?: Handle | null };
    // Closed: there is nobody to wait for.
    if (handle == null) return { offeredBytes, takenBytes: offeredBytes };
    const unacknowledged = this.#key === undefined ? 0 : (table.get(this.#key) ?? 0);
    return { offeredBytes, takenBytes: handle.bytesWritten - handle.writeQueueSize - unacknowledged };
  }
}

/** Bytes of one connection, counted from its beginning. */
export interface Progress {
  /** Written for the client, sent or not. */
  readonly offeredBytes: number;
  /** Of these, acknowledged by its machine. */
  readonly takenBytes: number;
}

/** A client that has more than this to read and reads less is taken for one that does not read at all. */
export const LEAST_BYTES_PER_SEC = 1024;

/**
 * Whether a client reads what it is sent. In each window it takes all that was there at the beginning, or so many bytes
 * as the least rate wants; when it has, the next window begins.
 */
export class ReadingPace {
  readonly #windowMs: number;
  #start: Progress;
  #startMs: number;

  constructor(windowMs: number, start: Progress, nowMs: number) {
    this.#windowMs = windowMs;
    this.#start = start;
    this.#startMs = nowMs;
  }

  /** To be called several times in a window; whether one is over in which the client took too little. */
  isTooSlow(now: Progress, nowMs: number): boolean {
    const wantedBytes = Math.min(
      this.#start.offeredBytes - this.#start.takenBytes,
      (LEAST_BYTES_PER_SEC * this.#windowMs) / 1000,
    );
    if (now.takenBytes - this.#start.takenBytes < wantedBytes) return nowMs - this.#startMs >= this.#windowMs;
    this.#start = now;
    this.#startMs = nowMs;
    return false;
  }
}
