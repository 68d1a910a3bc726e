import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Clock, systemClock, type Timer } from '../system/clock.ts';
import {
  type AddressFamily,
  connectionKey,
  familyOf,
  readUnacknowledged,
  type Unacknowledged,
} from '../system/kernel.ts';

/**
 * Cuts the connections of clients that take nothing or next to nothing of their answers: clients that do not read, that
 * read just enough to keep us busy, or that vanished without closing. Keep-alive comments ensure that even a silent
 * stream has bytes to take.
 */

/** Clients are checked this often in each timeout, so a client is cut at most a tenth of the timeout late. */
const LOOKS_PER_TIMEOUT = 10;

interface StallOptions {
  /** The time in which a client must take all that is ready for it, or at least LEAST_BYTES_PER_SEC. */
  readonly timeoutMs: number;
  /** Called before the connection is cut. */
  readonly onStalled: (heldBytes: number) => void;
  readonly unacknowledged?: typeof readUnacknowledged;
  readonly clock?: Clock;
}

export class StalledClients {
  readonly #options: StallOptions;
  readonly #readers = new Map<ServerResponse, Reader>();
  readonly #clock: Clock;
  #timer: Timer | undefined;
  #isLooking = false;

  constructor(options: StallOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Watches the answer from when it gets the connection until it is sent or the connection closes. */
  watch(answer: ServerResponse): void {
    // A pipelined answer has no socket until the answer before it is complete.
    if (answer.socket === null) answer.once('socket', (socket: Socket) => this.#add(answer, socket));
    else this.#add(answer, answer.socket);
  }

  #add(answer: ServerResponse, socket: Socket): void {
    this.#readers.set(answer, new Reader(socket, this.#options.timeoutMs, this.#clock.now()));
    answer.once('close', () => this.#forget(answer));
    this.#timer ??= this.#nextLook();
  }

  #nextLook(): Timer {
    return this.#clock.after(this.#options.timeoutMs / LOOKS_PER_TIMEOUT, () => {
      this.#timer = this.#nextLook();
      void this.#look();
    });
  }

  #forget(answer: ServerResponse): void {
    this.#readers.delete(answer);
    if (this.#readers.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  async #look(): Promise<void> {
    const { onStalled, unacknowledged = readUnacknowledged } = this.#options;
    if (this.#isLooking) return;
    this.#isLooking = true;
    const beganMs = this.#clock.now();
    const families = new Set<AddressFamily>();
    for (const reader of this.#readers.values()) {
      reader.beginLook();
      if (reader.family !== undefined) families.add(reader.family);
    }
    const table = await unacknowledged(families);
    this.#isLooking = false;
    // Nobody is judged by what is not known. The next look is soon.
    if (table === undefined) return;
    const times = { beganMs, endedMs: this.#clock.now() };
    for (const [answer, reader] of this.#readers) {
      if (!reader.isTooSlow(table, times)) continue;
      onStalled(reader.heldBytes);
      answer.destroy();
    }
  }
}

/**
 * Node's internal handle. Only it says how much of a large write the kernel has taken; the public API reports a write
 * when all of it is done.
 */
interface Handle {
  /** Bytes given to the kernel, or waiting for it. */
  readonly bytesWritten: number;
  readonly writeQueueSize: number;
}

class Reader {
  readonly family: AddressFamily | undefined;
  readonly #socket: Socket;
  readonly #key: string | undefined;
  readonly #pace: ReadingPace;
  /** Bytes that the kernel had when the look began. */
  #writtenBytes: number;

  constructor(socket: Socket, timeoutMs: number, nowMs: number) {
    this.family = familyOf(socket);
    this.#socket = socket;
    this.#key = connectionKey(socket);
    // Bytes that are still on their way belong to earlier answers, which had watches of their own.
    const { bytesWritten } = socket;
    this.#writtenBytes = bytesWritten;
    this.#pace = new ReadingPace(timeoutMs, { offeredBytes: bytesWritten, takenBytes: bytesWritten }, nowMs);
  }

  beginLook(): void {
    this.#writtenBytes = progressOf(this.#socket, undefined, new Map()).takenBytes;
  }

  isTooSlow(table: Unacknowledged, times: Pick<Look, 'beganMs' | 'endedMs'>): boolean {
    const progress = progressOf(this.#socket, this.#key, table);
    const unacknowledged = (this.#key && table.get(this.#key)) || 0;
    return this.#pace.isTooSlow({
      ...progress,
      leastTakenBytes: Math.min(progress.takenBytes, this.#writtenBytes - unacknowledged),
      ...times,
    });
  }

  /** Bytes held in this process; the kernel may hold more. */
  get heldBytes(): number {
    return this.#socket.writableLength;
  }
}

/** key: the connection's key in the table. */
export function progressOf(socket: Socket, key: string | undefined, table: Unacknowledged): Progress {
  const offeredBytes = socket.bytesWritten;
  const { _handle: handle } = socket as Socket & { readonly _handle?: Handle | null };
  // A closed connection counts as read: there is nobody to wait for.
  if (handle == null) return { offeredBytes, takenBytes: offeredBytes };
  const unacknowledged = key === undefined ? 0 : (table.get(key) ?? 0);
  return { offeredBytes, takenBytes: handle.bytesWritten - handle.writeQueueSize - unacknowledged };
}

/** Bytes of one connection, counted since it opened. */
export interface Progress {
  /** Bytes written for the client, sent or not. */
  readonly offeredBytes: number;
  /** The part of offeredBytes that the client's machine has acknowledged. */
  readonly takenBytes: number;
}

/**
 * What one look at a connection has found. The kernel's table is read while the loop goes on, so bytes may be written, and
 * taken, between the begin and the end of the look.
 */
interface Look extends Progress {
  /** Bytes that were surely acknowledged when the table was read. takenBytes may have some that were not. */
  readonly leastTakenBytes: number;
  readonly beganMs: number;
  readonly endedMs: number;
}

/** A client that has more than this to read, and reads less, counts as one that does not read. */
export const LEAST_BYTES_PER_SEC = 1024;

/**
 * Judges whether a client reads what it is sent. In each window it must take all that was ready when the window began, or
 * as many bytes as LEAST_BYTES_PER_SEC asks for. When it has, the next window begins. What a look does not know counts for the
 * client: a window begins with the least that it may have taken, at the end of the look.
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

  /** Returns whether a window is over in which the client took too little. Call it several times in each window. */
  isTooSlow({ offeredBytes, takenBytes, leastTakenBytes, beganMs, endedMs }: Look): boolean {
    const wantedBytes = Math.min(
      this.#start.offeredBytes - this.#start.takenBytes,
      (LEAST_BYTES_PER_SEC * this.#windowMs) / 1000,
    );
    if (takenBytes - this.#start.takenBytes < wantedBytes) return beganMs - this.#startMs >= this.#windowMs;
    this.#start = { offeredBytes, takenBytes: leastTakenBytes };
    this.#startMs = endedMs;
    return false;
  }
}
