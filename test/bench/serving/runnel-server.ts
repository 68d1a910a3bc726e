import { statSync } from 'node:fs';
import { basename } from 'node:path';
import { processorMsOf } from '../../../gateway/system/kernel.ts';
import { Gateway, runnersOf } from '../../fixtures/gateway.ts';
import { residentBytes, shareBytes } from '../../fixtures/process-memory.ts';
import type { Runner } from '../engines/runnel.ts';
import { type Memory, metricOf, type Question, type Server, type Task } from './server.ts';

/** `runnel serve` with its defaults. */
export class RunnelServer implements Server {
  readonly url: string;
  readonly startedMs: number;
  /** Never set: start() waits until the gateway listens, and the gateway outlives its runner. */
  readonly failure = undefined;
  readonly #gateway: Gateway;
  readonly #model: string;

  private constructor(gateway: Gateway, model: string, startedMs: number) {
    this.#gateway = gateway;
    this.url = gateway.url;
    this.#model = model;
    this.startedMs = startedMs;
  }

  /** Resolves when it listens. The model may still be loading. */
  static async start({ file, model, threads, flags }: Runner): Promise<RunnelServer> {
    const startedMs = performance.now();
    const args = [
      '--port',
      '0',
      '--backend',
      'cpu',
      '--runner',
      file,
      '--threads',
      String(threads),
      ...flags,
    ];
    return new RunnelServer(await Gateway.startOn(model, args), model, startedMs);
  }

  completion({ generate, topK, ...rest }: Question): object {
    const model = basename(this.#model, '.gguf');
    return { model, max_tokens: generate, min_tokens: generate, top_k: topK, ...rest };
  }

  async steps(): Promise<Task> {
    const text = await this.#metrics();
    return {
      steps: metricOf(text, 'runnel_steps_total'),
      sequences: metricOf(text, 'runnel_step_sequences_total'),
      gatewayMs: processorMsOf(this.#gateway.process.pid as number) ?? Number.NaN,
    };
  }

  async memory(): Promise<Memory> {
    const text = await this.#metrics();
    // Runners share the weights.
    const runners = runnersOf(await this.#gateway.health());
    const ofRunners = runners.reduce((sum, { pid }) => sum + shareBytes(pid as number), 0);
    const cache =
      metricOf(text, 'runnel_kv_cache_used_bytes') + metricOf(text, 'runnel_kv_cache_reusable_bytes');
    return {
      residentBytes: ofRunners + residentBytes(this.#gateway.process.pid as number),
      share: ofRunners / (statSync(this.#model).size + cache),
    };
  }

  async stop(): Promise<void> {
    await this.#gateway.stop();
  }

  async #metrics(): Promise<string> {
    return (await fetch(`${this.url}/metrics`)).text();
  }
}
