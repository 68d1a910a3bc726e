/**
 * Cuts the connections of clients that take nothing of their answers: those that do not read, and those that are gone
 * without a word. What is sent to keep a silent stream alive sees to it that there is always something to take.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { connectionKey, readUnacknowledged, type Unacknowledged } from './unacknowledged.ts';

/** Looks in the time after which a client is given up: it may last a tenth longer than that. */
const LOOKS_PER_TIMEOUT = 10;

export interface StallOptions {
  /** Without a byte taken, while there are some. */
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

  /** From now until the answer has been given or the connection is closed. */
  watch(answer: ServerResponse): void {
    const { socket } = answer;
    if (socket === null) return;
    this.#readers.set(answer, new Reader(socket, performance.now()));
    answer.once('close', () => this.#forget(answer));
    this.#timer ??= setInterval(() => this.#look(), this.#options.timeoutMs / LOOKS_PER_TIMEOUT);
  }

  #forget(answer: ServerResponse): void {
    this.#readers.delete(answer);
    if (this.#readers.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    const { timeoutMs, onStalled, unacknowledged = readUnacknowledged } = this.#options;
    const nowMs = performance.now();
    const table = unacknowledged();
    for (const [answer, reader] of this.#readers) {
      if (reader.look(table, nowMs) < timeoutMs) continue;
      onStalled(reader.heldBytes);
      answer.destroy();
    }
  }
}

/** What one client has taken, seen from time to time. */
class Reader {
  readonly #socket: Socket;
  readonly #key: string | undefined;
  #takenBytes = 0;
  #unacknowledgedBytes = 0;
  #movedAtMs: number;

  constructor(socket: Socket, nowMs: number) {
    this.#socket = socket;
    this.#key = connectionKey(socket);
    this.#movedAtMs = nowMs;
  }

  /** For how long it has taken nothing of what there is. */
  look(table: Unacknowledged, nowMs: number): number {
    const { bytesWritten, writableLength } = this.#socket;
    const unacknowledged = this.#key === undefined ? 0 : (table.get(this.#key) ?? 0);
    const takenBytes = bytesWritten - writableLength - unacknowledged;
    // The kernel takes a large write piece by piece, and Node hears of it when it has all of them.
    const isWithin = writableLength > 0 && unacknowledged !== this.#unacknowledgedBytes;
    const isNothingThere = writableLength + unacknowledged === 0;
    if (isNothingThere || isWithin || takenBytes > this.#takenBytes) this.#movedAtMs = nowMs;
    this.#takenBytes = takenBytes;
    this.#unacknowledgedBytes = unacknowledged;
    return nowMs - this.#movedAtMs;
  }

  /** In this process; the kernel has more. */
  get heldBytes(): number {
    return this.#socket.writableLength;
  }
}
