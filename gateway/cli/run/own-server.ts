import { createInterface } from 'node:readline';
import { setTimeout as elapsed } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import type { Server } from '../../client/server.ts';
import { ExitCode, UsageError } from '../../errors/exit-code.ts';
import { UnavailableError } from '../../errors/thrown.ts';
import { escapeControls } from '../../system/printable.ts';
import { startProgram } from '../../system/start-program.ts';

const PROGRAM = fileURLToPath(new URL('../../runnel.js', import.meta.url));
/** Settings of the server that the user cannot choose. */
const FIXED = {
  '--host': '127.0.0.1',
  '--port': '0',
  '--log-level': 'info',
} as const;
/** Flags that are refused: they would give the server another model or address, or make it end by itself. */
const REFUSED = [...Object.keys(FIXED), '--model', '--models-dir', '--uds', '--callback-url'];

const POLL_MS = 50;
/** The most log messages that are kept to explain why a server failed. */
const MAX_REASONS = 3;
/** Milliseconds from SIGTERM to SIGKILL. No request is open at this time. */
const STOP_MS = 10_000;

const lineSchema = z.object({
  event: z.string(),
  url: z.string().optional(),
  msg: z.string().optional(),
  level: z.string(),
});

const healthSchema = z.object({
  runner: z.object({
    state: z.string(),
    reason: z.string().nullable(),
    load_progress: z.number().nullable(),
  }),
});

/** Throws UsageError for server flags that the command sets itself. more: flags that it refuses besides those of all such commands. */
export function refuseOwnFlags(name: string, flags: readonly string[], more: readonly string[] = []): void {
  const found = flags.find((flag) => [...REFUSED, ...more].includes(flag.split('=')[0] as string));
  if (found !== undefined)
    throw new UsageError(`${name} sets ${found.split('=')[0]} of its server by itself: leave it out.`);
}

/** The arguments of a command, and those behind "--", which are for its server. */
export function withServerFlags(args: readonly string[]): [args: string[], serverFlags: string[]] {
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  return [args.slice(0, end), args.slice(end + 1)];
}

/**
 * A `runnel serve` process on a free port of 127.0.0.1. It ends when this process ends, for whatever reason, because their IPC
 * channel then closes.
 */
export class OwnServer {
  readonly url: string;
  readonly #child: ServerProcess;
  readonly #reasons: readonly string[];

  private constructor(child: ServerProcess, url: string, reasons: readonly string[]) {
    this.#child = child;
    this.url = url;
    this.#reasons = reasons;
  }

  /**
   * Resolves when the server listens. Throws UsageError if it refuses its flags, and UnavailableError if it ends for another
   * reason.
   */
  static async start(flags: readonly string[]): Promise<OwnServer> {
    const child = startServer(flags);
    // The channel does not keep this process running.
    child.channel?.unref();
    const reasons: string[] = [];
    const url = await new Promise<string>((resolve, reject) => {
      createInterface(child.stderr).on('line', (line) => {
        const { url, reason } = factsOf(line);
        if (url !== undefined) resolve(url);
        if (reason !== undefined) reasons.push(reason);
        if (reasons.length > MAX_REASONS) reasons.shift();
      });
      void child.then(({ exitCode, originalMessage }) => {
        const said = reasons.join(' ') || originalMessage || `The server ended with status ${exitCode}.`;
        reject(exitCode === ExitCode.usage ? new UsageError(said) : new UnavailableError(said));
      });
    });
    return new OwnServer(child, url, reasons);
  }

  /**
   * Resolves when the server takes requests. Throws UnavailableError if its model cannot be loaded or the server ends. server:
   * a client of this server.
   */
  async ready(server: Server, onProgress: (percent: number) => void): Promise<void> {
    for (;;) {
      const {
        state,
        reason,
        load_progress: progress,
      } = healthSchema.parse(await this.#health(server)).runner;
      if (state === 'ready') return;
      if (state === 'failed') throw new UnavailableError(reason ?? 'The model cannot be loaded.');
      if (progress !== null) onProgress(Math.round(100 * progress));
      await elapsed(POLL_MS);
    }
  }

  async #health(server: Server): Promise<unknown> {
    try {
      return await server.get('/health');
    } catch (error) {
      if (this.#isRunning()) throw error;
      throw new UnavailableError(this.#reasons.join(' ') || 'The server has ended.');
    }
  }

  /** Sends SIGTERM, and SIGKILL if the server does not end in time. */
  async stop(): Promise<void> {
    if (!this.#isRunning()) return;
    this.#child.kill('SIGTERM');
    await this.#child;
  }

  #isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }
}

type ServerProcess = ReturnType<typeof startServer>;

function startServer(flags: readonly string[]) {
  const args = [PROGRAM, 'serve', ...flags, ...Object.entries(FIXED).flat()];
  return startProgram(process.execPath, args, {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    buffer: false,
    reject: false,
    forceKillAfterDelay: STOP_MS,
  });
}

/** Reads a line of the server's stderr: a JSON object of the log, or a sentence about flags. */
function factsOf(line: string): { url?: string | undefined; reason?: string | undefined } {
  try {
    const { event, level, url, msg } = lineSchema.parse(JSON.parse(line));
    return { url: event === 'listening' ? url : undefined, reason: level === 'error' ? msg : undefined };
  } catch {
    return { reason: escapeControls(line.replace(/^runnel: /, '')) };
  }
}

/** Shows the progress on a terminal, in place of the progress shown before. */
export function tellProgress(percent: number): void {
  if (process.stderr.isTTY)
    process.stderr.write(`\rLoading: ${percent} %${percent === 100 ? '\r\x1b[K' : ''}`);
}
