import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type MemoryInUse, memoryInUse, memoryOf } from '../runner/process/memory.ts';
import type { FirstOutput, RunnerState, RunnerStatus } from '../runner/runner.ts';
import { addSchedulerMetrics } from './scheduler-metrics.ts';
import { TokenTimes } from './token-times.ts';

/**
 * The metrics of a model in GET /metrics, in Prometheus' text format. They are counted in the gateway, so that they
 * outlive every runner.
 */

const STATES: readonly RunnerState[] = ['starting', 'ready', 'recovering', 'failed', 'stopping'];

const FIRST_TOKEN_BUCKETS_SEC = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const INTER_TOKEN_BUCKETS_SEC = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const PAUSE_BUCKETS_SEC = [0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60, 120];
const REQUEST_BUCKETS_SEC = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** The label of a request's API. */
const BY_API = ['api'];

/** Measures one request to a runner, whatever its API. */
export interface RequestMeter {
  /** Called once, with the first tokens. */
  first(first: FirstOutput): void;
  /** isResumed: these are the first tokens since another runner continued the request. */
  tokens(count: number, isResumed?: boolean): void;
  /** Counts the end, on the first call only. */
  end(outcome: string): void;
}

export class Metrics {
  readonly #registry = new Registry();
  readonly #now: () => number;

  readonly #requests = this.#counter('worker_requests_total', 'Requests that ended, by outcome', ['outcome']);
  readonly #crashes = this.#counter(
    'runnel_runner_crashes_total',
    'Runners that crashed or exited unexpectedly, by reason',
    ['reason'],
  );
  readonly #tokens = this.#counter(
    'worker_tokens_generated_total',
    'Tokens generated and taken by a consumer',
  );
  readonly #promptTokens = this.#counter(
    'runnel_prompt_tokens_total',
    'Tokens of prompts that were admitted',
  );
  readonly #durationMs = this.#histogram(
    'worker_inference_duration_ms',
    'Milliseconds from admission to the end of a request',
    REQUEST_BUCKETS_SEC.map((seconds) => seconds * 1000),
  );
  readonly #durationSec = this.#histogram(
    'runnel_e2e_request_latency_seconds',
    'Seconds from admission to the end of a request',
    REQUEST_BUCKETS_SEC,
    BY_API,
  );
  readonly #firstTokenSec = this.#histogram(
    'runnel_time_to_first_token_seconds',
    'Seconds from admission to the first token',
    FIRST_TOKEN_BUCKETS_SEC,
    BY_API,
  );
  readonly #queueSec = this.#histogram(
    'runnel_request_queue_time_seconds',
    'Seconds from admission to the first computation for a request',
    FIRST_TOKEN_BUCKETS_SEC,
    BY_API,
  );
  readonly #prefillSec = this.#histogram(
    'runnel_request_prefill_time_seconds',
    "Seconds from the first computation for a request to its first token, by the runner's clock",
    FIRST_TOKEN_BUCKETS_SEC,
    BY_API,
  );
  readonly #runnerFirstTokenSec = this.#histogram(
    'runnel_runner_time_to_first_token_seconds',
    'Seconds from admission to the first token as the runner measures it, without the time of the pipe',
    FIRST_TOKEN_BUCKETS_SEC,
    BY_API,
  );
  readonly #interTokenSec = new TokenTimes(
    'runnel_inter_token_latency_seconds',
    'Seconds between tokens of one answer; of tokens that came together, their mean',
    INTER_TOKEN_BUCKETS_SEC,
    'api',
    this.#registry,
  );
  readonly #pauseSec = this.#histogram(
    'runnel_resume_pause_seconds',
    'Seconds between two tokens of one answer when another runner continued it',
    PAUSE_BUCKETS_SEC,
    BY_API,
  );
  /** Tokens that #tokens does not count yet; text() adds them. */
  #numNewTokens = 0;

  /** now: milliseconds that never go back. model: the model's name, if there are several; a label of each sample. */
  constructor(status: () => RunnerStatus, now: () => number, model?: string) {
    this.#now = now;
    if (model !== undefined) this.#registry.setDefaultLabels({ model });
    const startedMs = now();
    this.#gauge(
      'worker_uptime_seconds',
      'Seconds since the gateway started',
      () => (now() - startedMs) / 1000,
    );
    this.#gauge(
      'worker_vram_bytes',
      'Device memory of weights and KV cache',
      () => memoryOf(status().info).vram_bytes,
    );
    this.#gauge('worker_memory_bytes', 'Memory of weights and KV cache, on host or device', () => {
      return memoryOf(status().info).memory_bytes;
    });
    const inUse = (name: keyof MemoryInUse) => () => memoryInUse(status())[name];
    this.#gauge(
      'worker_vram_used_bytes',
      'Device memory of weights and of the used part of the KV cache',
      inUse('vramBytes'),
    );
    this.#gauge(
      'worker_memory_used_bytes',
      'Memory of weights and of the used part of the KV cache, on host or device',
      inUse('memoryBytes'),
    );
    this.#gauge('runnel_weights_bytes', 'Memory of the weights', inUse('weightsBytes'));
    this.#gauge(
      'runnel_kv_cache_bytes',
      'Memory set aside for the KV cache',
      () => status().info?.kvCacheBytes ?? 0,
    );
    this.#gauge(
      'runnel_kv_cache_used_bytes',
      'Bytes of the KV cache that sequences use',
      inUse('cacheUsedBytes'),
    );
    this.#gauge('runnel_kv_cache_usage_ratio', 'Used share of the KV cache, from 0 to 1', () => {
      const cacheBytes = status().info?.kvCacheBytes ?? 0;
      return cacheBytes === 0 ? 0 : memoryInUse(status()).cacheUsedBytes / cacheBytes;
    });
    this.#gauge(
      'runnel_kv_cache_reusable_bytes',
      'Free bytes of the KV cache whose content can be reused',
      inUse('cacheReusableBytes'),
    );
    this.#gauge('runnel_requests_open', 'Requests generating or waiting', () => status().openRequests);
    this.#gauge('runnel_prompt_tokens_open', 'Prompt tokens of open requests', () => status().openTokens);
    this.#gauge('runnel_kv_blocks', 'Blocks in the KV cache', () => status().info?.numBlocks ?? 0);
    this.#gauge('runnel_kv_blocks_free', 'Free blocks of the KV cache', () => status().numFreeBlocks ?? 0);
    this.#gauge(
      'runnel_backend_fallback',
      '1 while the CPU computes because CUDA was requested but cannot be used',
      () => (status().backend?.isFallback ? 1 : 0),
    );
    this.#runnerRestarts(status);
    this.#runnerState(status);
    this.#runners(status);
    addSchedulerMetrics(this.#registry, status);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    this.#tokens.inc(this.#numNewTokens);
    this.#numNewTokens = 0;
    return this.#registry.metrics();
  }

  /** Counts a request that the runner did not take. */
  refused(outcome: string): void {
    this.#requests.inc({ outcome });
  }

  /** Counts a runner that died. */
  crashed(reason: string): void {
    this.#crashes.inc({ reason });
  }

  /** Counts a request that was admitted, and returns its meter. api: the request's API. */
  admitted(numPromptTokens: number, api = 'none'): RequestMeter {
    this.#promptTokens.inc(numPromptTokens);
    const startMs = this.#now();
    const interTokenSec = this.#interTokenSec.of(api);
    let lastMs: number | undefined;
    let isOpen = true;
    return {
      first: ({ queuedUs, prefillUs }) => {
        this.#queueSec.observe({ api }, queuedUs / 1e6);
        this.#prefillSec.observe({ api }, prefillUs / 1e6);
        this.#runnerFirstTokenSec.observe({ api }, (queuedUs + prefillUs) / 1e6);
      },
      tokens: (count, isResumed = false) => {
        if (count === 0) return;
        const nowMs = this.#now();
        this.#numNewTokens += count;
        if (lastMs === undefined) this.#firstTokenSec.observe({ api }, (nowMs - startMs) / 1000);
        else interTokenSec.observe((nowMs - lastMs) / 1000 / count, count);
        if (isResumed && lastMs !== undefined) this.#pauseSec.observe({ api }, (nowMs - lastMs) / 1000);
        lastMs = nowMs;
      },
      end: (outcome) => {
        if (!isOpen) return;
        isOpen = false;
        const durationMs = this.#now() - startMs;
        this.#requests.inc({ outcome });
        this.#durationMs.observe(durationMs);
        this.#durationSec.observe({ api }, durationMs / 1000);
      },
    };
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #histogram(name: string, help: string, buckets: number[], labelNames: string[] = []): Histogram {
    return new Histogram({ name, help, buckets, labelNames, registers: [this.#registry] });
  }

  #gauge(name: string, help: string, value: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.#registry],
      collect() {
        this.set(value());
      },
    });
  }

  /** Shows the supervisor's own count of restarts. */
  #runnerRestarts(status: () => RunnerStatus): void {
    new Counter({
      name: 'runnel_runner_restarts_total',
      help: 'Runner processes started after the first',
      registers: [this.#registry],
      collect() {
        this.reset();
        this.inc(status().restarts);
      },
    });
  }

  #runners(status: () => RunnerStatus): void {
    new Gauge({
      name: 'runnel_runners',
      help: 'Runners of the model, by the state each is in',
      labelNames: ['state'],
      registers: [this.#registry],
      collect() {
        const { state: ofAll, runners = [{ state: ofAll }] } = status();
        for (const state of STATES) {
          this.set({ state }, runners.filter((runner) => runner.state === state).length);
        }
      },
    });
  }

  #runnerState(status: () => RunnerStatus): void {
    new Gauge({
      name: 'runnel_runner_state',
      help: '1 for the state the runner is in',
      labelNames: ['state'],
      registers: [this.#registry],
      collect() {
        for (const state of STATES) this.set({ state }, status().state === state ? 1 : 0);
      },
    });
  }
}
