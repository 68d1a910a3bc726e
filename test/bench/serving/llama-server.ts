import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { freePort } from '../../fixtures/free-port.ts';
import { residentBytes } from '../../fixtures/process-memory.ts';
import { within } from '../../fixtures/within.ts';
import { argumentsOf, FLASH_ATTENTION, knows, type Peer, REPACKING, settingsFrom } from '../engines/peer.ts';
import { reasonOf } from '../program.ts';
import { type Memory, metricOf, type Question, type Server, type Task } from './server.ts';

/** llama-server of llama.cpp or a fork of it, asked by its OpenAI route. */

const PROGRAM = 'llama-server';
const STOP_MS = 20_000;
/** Lines of its log that are kept, to give the reason if it ends. */
const LAST_LINES = 100;

export interface LlamaServing {
  readonly model: string;
  readonly threads: number;
  /** Requests at the same time. contextEach: tokens for each of them. */
  readonly slots: number;
  readonly contextEach: number;
}

/** Sampling can run where the logits are, which is said to be faster for large batches. */
const DRAWS = { '--backend-sampling': ['', '--backend-sampling'] } as const;
/** Features to switch off, if the fork has them: they cost time and are useless here, since prompts are random. */
const WITHOUT: readonly (readonly [string, readonly string[]])[] = [
  ['--no-webui', ['--no-webui']],
  ['--cache-ram', ['--cache-ram', '0']],
];

export async function llamaServerSettings(peer: Peer): Promise<string[]> {
  return settingsFrom(await peer.help(PROGRAM).catch(() => ''), {
    ...FLASH_ATTENTION,
    ...REPACKING,
    ...DRAWS,
  });
}

export class LlamaServer implements Server {
  readonly url: string;
  readonly startedMs: number;
  failure: string | undefined;
  readonly #process: ChildProcess;

  private constructor(child: ChildProcess, url: string, startedMs: number) {
    this.#process = child;
    this.url = url;
    this.startedMs = startedMs;
  }

  /** Resolves once the process is started. It may not listen yet. */
  static async start(peer: Peer, serving: LlamaServing, setting: string): Promise<LlamaServer> {
    const { model, threads, slots, contextEach } = serving;
    const file = peer.program(PROGRAM);
    const help = await peer.help(PROGRAM);
    const without = WITHOUT.flatMap(([flag, args]) => (knows(help, flag) ? args : []));
    const port = await freePort();
    const room = ['-np', slots, '-c', slots * contextEach, '-t', threads, '-tb', threads];
    const where = ['--host', '127.0.0.1', '--port', port, '--metrics'];
    const args = ['-m', model, ...room, ...where, ...without, ...argumentsOf(setting)].map(String);
    const startedMs = performance.now();
    const child = spawn(file, args, { cwd: tmpdir(), stdio: ['ignore', 'ignore', 'pipe'] });
    const server = new LlamaServer(child, `http://127.0.0.1:${port}`, startedMs);
    server.#watch();
    return server;
  }

  completion({ prompt, generate, temperature, topK, seed }: Question): object {
    // Its other defaults would filter the draw further, which would cost it time that Runnel does not spend.
    const draw = { temperature, top_k: topK, top_p: 1, min_p: 0, seed };
    return { prompt, max_tokens: generate, ignore_eos: true, cache_prompt: false, ...draw };
  }

  async steps(): Promise<Task | undefined> {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const steps = metricOf(text, 'llamacpp:n_decode_total');
    const sequences = steps * metricOf(text, 'llamacpp:n_busy_slots_per_decode');
    return Number.isNaN(sequences) ? undefined : { steps, sequences };
  }

  async memory(): Promise<Memory> {
    return { residentBytes: residentBytes(this.#process.pid as number) };
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exit = once(this.#process, 'close');
    this.#process.kill('SIGTERM');
    await within(STOP_MS, `The end of ${PROGRAM}`, exit).catch(async () => {
      this.#process.kill('SIGKILL');
      await exit;
    });
  }

  /** A client of a server that has ended sees only a refused connection, so the reason is taken from the log's end. */
  #watch(): void {
    let said = '';
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text)
        .split('\n')
        .slice(-LAST_LINES - 1)
        .join('\n');
    });
    this.#process.on('error', (error) => {
      this.failure = String(error);
    });
    this.#process.on('close', (code, signal) => {
      this.failure = `${PROGRAM} ${reasonOf({ code, signal }, said)}`;
    });
  }
}
