import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { escapeControls } from '../system/printable.ts';
import { NoDescriptorsError } from '../system/spawn-reserve.ts';
import { startProgram } from '../system/start-program.ts';
import type { Log } from '../telemetry/log.ts';

/**
 * The way to systemd's socket: the program sd-notify (deploy/sd_notify.cc) sends each line of its input as one datagram. Node
 * has no datagram sockets of the UNIX family.
 */

export const SD_NOTIFY = fileURLToPath(new URL('../../build/sd-notify', import.meta.url));

/** The most bytes that wait for a systemd that does not read. Further messages are dropped until it reads. */
const MAX_WAITING_BYTES = 16 * 1024;

/** One dead sd-notify is replaced within this time. If another one dies, nothing more is sent. */
const REPLACE_INTERVAL_MS = 60_000;

/** While there are no descriptors for sd-notify, its start is tried again this often. */
const RETRY_INTERVAL_MS = 1000;

interface NotifyPipeOptions {
  /** The path or abstract name of systemd's socket. */
  readonly socket: string;
  readonly log: Log;
  /** Called when a dead sd-notify has been replaced. Messages on their way may be lost. */
  readonly onReplaced: () => void;
  /** The path of the program. */
  readonly file?: string;
}

export class NotifyPipe {
  readonly #options: NotifyPipeOptions;
  #child: Sender | undefined;
  #retry: NodeJS.Timeout | undefined;
  #replacedAtMs = Number.NEGATIVE_INFINITY;
  #isFull = false;

  constructor(options: NotifyPipeOptions) {
    this.#options = options;
    this.#child = this.#start();
  }

  /** The process id of the program, while it runs. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** assignments: such as `READY=1`, without control characters. They go in one datagram. */
  send(...assignments: string[]): void {
    const stdin = this.#child?.stdin;
    if (!stdin?.writable) return;
    const wasFull = this.#isFull;
    this.#isFull = stdin.writableLength > MAX_WAITING_BYTES;
    if (!this.#isFull) stdin.write(`${assignments.join('\t')}\n`);
    else if (!wasFull)
      this.#warn(
        'systemd does not read the messages of this gateway; further messages are dropped until it does.',
      );
  }

  /** Sends what waits, then ends the program. */
  close(): void {
    const child = this.#child;
    this.#child = undefined;
    clearTimeout(this.#retry);
    child?.stdin.end();
  }

  #start(): Sender {
    const { socket, file = SD_NOTIFY } = this.#options;
    const child = startSender(file, socket);
    // The program ends when its pipe closes. Neither it nor its pipes keep the gateway from ending.
    child.unref();
    for (const pipe of [child.stdin, child.stderr]) (pipe as unknown as { unref(): void }).unref();
    // A closed pipe means that the program has ended, which its result reports.
    child.stdin.on('error', () => {});
    createInterface(child.stderr).on('line', (line) => this.#warn(escapeControls(line)));
    void child.then(({ originalMessage, signal, exitCode }) =>
      this.#onEnd(child, originalMessage ?? `it ended with ${signal ?? `status ${exitCode}`}`),
    );
    return child;
  }

  #onEnd(child: Sender, why: string): void {
    if (this.#child !== child) return;
    this.#child = undefined;
    const now = performance.now();
    if (now - this.#replacedAtMs < REPLACE_INTERVAL_MS) {
      const msg = `sd-notify failed again (${why}); this gateway sends systemd no more messages.`;
      this.#options.log.error({ event: 'systemd_notify_failed', msg });
      return;
    }
    this.#replacedAtMs = now;
    this.#warn(`sd-notify failed (${why}); it is started again.`);
    this.#replace();
  }

  #replace(): void {
    try {
      this.#child = this.#start();
    } catch (error) {
      if (!(error instanceof NoDescriptorsError)) throw error;
      this.#warn(`sd-notify was not started (${error.message}); it is tried again.`);
      this.#retry = setTimeout(() => this.#replace(), RETRY_INTERVAL_MS).unref();
      return;
    }
    this.#options.onReplaced();
  }

  #warn(msg: string): void {
    this.#options.log.warn({ event: 'systemd_notify_failed', msg });
  }
}

type Sender = ReturnType<typeof startSender>;

function startSender(file: string, socket: string) {
  return startProgram(file, [], {
    stdout: 'ignore',
    buffer: false,
    reject: false,
    extendEnv: false,
    env: { NOTIFY_SOCKET: socket },
    // After the gateway's end it sends what waits.
    cleanup: false,
  });
}
