import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { escapeControls } from '../system/printable.ts';
import type { Log } from '../telemetry/log.ts';

/**
 * The way to systemd's socket: the program sd-notify (deploy/sd_notify.cc), which sends each line of a pipe as one datagram.
 * Node has no such sockets.
 */

export const SD_NOTIFY = fileURLToPath(new URL('../../build/sd-notify', import.meta.url));

/** What may wait for a systemd that does not read; further messages are dropped until it does. */
const MAX_WAITING_BYTES = 16 * 1024;

/** One sd-notify that died is replaced in this time; after the next one nothing is sent any more. */
export const REPLACE_INTERVAL_MS = 60_000;

export interface NotifyPipeOptions {
  /** The path or abstract name of systemd's socket. */
  readonly socket: string;
  readonly log: Log;
  /** Called when another sd-notify has taken the place of one that died: what was on its way may be lost. */
  readonly onReplaced: () => void;
  /** The program. */
  readonly file?: string;
}

export class NotifyPipe {
  readonly #options: NotifyPipeOptions;
  #child: ChildProcess | undefined;
  #replacedAtMs = Number.NEGATIVE_INFINITY;
  #isFull = false;

  constructor(options: NotifyPipeOptions) {
    this.#options = options;
    this.#child = this.#start();
  }

  /** Of the program, while it runs. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** assignments: `READY=1` and the like, without control characters; they go in one datagram. */
  send(...assignments: string[]): void {
    const stdin = this.#child?.stdin;
    if (!stdin?.writable) return;
    const wasFull = this.#isFull;
    this.#isFull = stdin.writableLength > MAX_WAITING_BYTES;
    if (!this.#isFull) stdin.write(`${assignments.join('\t')}\n`);
    else if (!wasFull) this.#warn('systemd does not read what it is told; messages are dropped.');
  }

  /** Sends what waits, and ends. */
  close(): void {
    const child = this.#child;
    this.#child = undefined;
    child?.stdin?.end();
  }

  #start(): ChildProcess {
    const { socket, file = SD_NOTIFY } = this.#options;
    const child = spawn(file, { stdio: ['pipe', 'ignore', 'pipe'], env: { NOTIFY_SOCKET: socket } });
    // It ends with its pipe. Nothing here keeps the gateway from ending.
    child.unref();
    for (const pipe of [child.stdin, child.stderr]) (pipe as unknown as { unref(): void }).unref();
    // Whoever closes a pipe has ended, which is told by its exit.
    child.stdin.on('error', () => {});
    createInterface(child.stderr).on('line', (line) => this.#warn(escapeControls(line)));
    child.once('error', (error) => this.#onEnd(child, error.message));
    child.once('exit', (code, signal) => this.#onEnd(child, `it ended with ${signal ?? `status ${code}`}`));
    return child;
  }

  #onEnd(child: ChildProcess, why: string): void {
    if (this.#child !== child) return;
    const now = performance.now();
    if (now - this.#replacedAtMs < REPLACE_INTERVAL_MS) {
      this.#child = undefined;
      const msg = `sd-notify failed again (${why}); systemd hears nothing more of this gateway.`;
      this.#options.log.error({ event: 'systemd_notify_failed', msg });
      return;
    }
    this.#replacedAtMs = now;
    this.#warn(`sd-notify failed (${why}); another one is started.`);
    this.#child = this.#start();
    this.#options.onReplaced();
  }

  #warn(msg: string): void {
    this.#options.log.warn({ event: 'systemd_notify_failed', msg });
  }
}
