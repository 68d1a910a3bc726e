import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as elapsed } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import type { Server } from '../../client/server.ts';
import { ExitCode, UnavailableError, UsageError } from '../../errors/exit-code.ts';
import { escapeControls } from '../../system/printable.ts';

const PROGRAM = fileURLToPath(new URL('../../runnel.js', import.meta.url));
/** Settings of the server that are not its starter's user's. */
const FIXED = {
  '--host': '127.0.0.1',
  '--port': '0',
  '--log-level': 'info',
} as const;
/** What would give it another model or place, or make it end by itself. */
const REFUSED = [...Object.keys(FIXED), '--model', '--models-dir', '--uds', '--callback-url'];

const POLL_MS = 50;
/** Sentences of the log that are kept for the one about a server that fails. */
const MAX_REASONS = 3;
/** From SIGTERM on; nothing is open then. */
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

/** UsageError for flags of a server that whoever starts it sets itself. */
export function refuseOwnFlags(flags: readonly string[]): void {
  const found = flags.find((flag) => REFUSED.includes(flag.split('=')[0] as string));
  if (found !== undefined)
    throw new UsageError(`run sets ${found.split('=')[0]} of its server itself: leave it out.`);
}

/**
 * A `runnel serve` of this program's own on a free port of 127.0.0.1. It ends when this process does, however that comes: their
 * channel (stdio `ipc`) closes then.
 */
export class OwnServer {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #reasons: readonly string[];

  private constructor(child: ChildProcess, url: string, reasons: readonly string[]) {
    this.#child = child;
    this.url = url;
    this.#reasons = reasons;
  }

  /** Resolves when it listens. UsageError for flags that it refuses; UnavailableError when it ends otherwise. */
  static async start(flags: readonly string[]): Promise<OwnServer> {
    const args = [PROGRAM, 'serve', ...flags, ...Object.entries(FIXED).flat()];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
    // The channel keeps neither of them.
    child.channel?.unref();
    const reasons: string[] = [];
    const url = await new Promise<string>((resolve, reject) => {
      createInterface(child.stderr as NonNullable<typeof child.stderr>).on('line', (line) => {
        const { url, reason } = factsOf(line);
        if (url !== undefined) resolve(url);
        if (reason !== undefined) reasons.push(reason);
        if (reasons.length > MAX_REASONS) reasons.shift();
      });
      child.once('error', reject);
      child.once('close', (code) => {
        const said = reasons.join(' ') || `The server ended with status ${code}.`;
        reject(code === ExitCode.usage ? new UsageError(said) : new UnavailableError(said));
      });
    });
    return new OwnServer(child, url, reasons);
  }

  /** Resolves when it takes requests. UnavailableError when its model cannot be loaded, or it ends. server: its client. */
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

  /** As SIGTERM does; one that does not end in time is killed. */
  async stop(): Promise<void> {
    if (!this.#isRunning()) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MS);
    await exited;
    clearTimeout(timer);
  }

  #isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }
}

/** Of a line of its stderr: a JSON object of the log, or a sentence about flags. */
function factsOf(line: string): { url?: string | undefined; reason?: string | undefined } {
  try {
    const { event, level, url, msg } = lineSchema.parse(JSON.parse(line));
    return { url: event === 'listening' ? url : undefined, reason: level === 'error' ? msg : undefined };
  } catch {
    return { reason: escapeControls(line.replace(/^runnel: /, '')) };
  }
}
