import type { ObservedRequest, RequestObserver } from '../runner/observed-runner.ts';
import type { GenerateRequest, RunnerStatus, TokenBatch } from '../runner/runner.ts';
import { ANONYMOUS } from '../system/caller.ts';
import { Histogram } from './metric-families.ts';

/** What is counted and timed of one model's requests. It is counted in the gateway, so that it outlives every runner. */

const FIRST_TOKEN_BUCKETS_SEC = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const INTER_TOKEN_BUCKETS_SEC = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const PAUSE_BUCKETS_SEC = [0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60, 120];
const REQUEST_BUCKETS_SEC = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

const REQUEST_BUCKETS_MS = REQUEST_BUCKETS_SEC.map((seconds) => seconds * 1000);

/** The histograms of a model's requests by their API, in seconds: names, descriptions and buckets. */
export const apiTimes = {
  request: [
    'runnel_e2e_request_latency_seconds',
    'Seconds from admission to the end of a request',
    REQUEST_BUCKETS_SEC,
  ],
  firstToken: [
    'runnel_time_to_first_token_seconds',
    'Seconds from admission to the first token',
    FIRST_TOKEN_BUCKETS_SEC,
  ],
  queue: [
    'runnel_request_queue_time_seconds',
    'Seconds from admission to the first computation for a request',
    FIRST_TOKEN_BUCKETS_SEC,
  ],
  prefill: [
    'runnel_request_prefill_time_seconds',
    "Seconds from the first computation for a request to its first token, by the runner's clock",
    FIRST_TOKEN_BUCKETS_SEC,
  ],
  runnerFirstToken: [
    'runnel_runner_time_to_first_token_seconds',
    'Seconds from admission to the first token as the runner measures it, without the time of the pipe',
    FIRST_TOKEN_BUCKETS_SEC,
  ],
  interToken: [
    'runnel_inter_token_latency_seconds',
    'Seconds between tokens of one answer; of tokens that came together, their mean',
    INTER_TOKEN_BUCKETS_SEC,
  ],
  pause: [
    'runnel_resume_pause_seconds',
    'Seconds between two tokens of one answer when another runner continued it',
    PAUSE_BUCKETS_SEC,
  ],
} as const;

export type ApiTimes = Readonly<Record<keyof typeof apiTimes, Histogram>>;

/** The label of a request that came by no API. */
const NO_API = 'none';

export interface CallerUsage {
  promptTokens: number;
  /** Of these, the tokens that were found in the KV cache. */
  cachedTokens: number;
  generatedTokens: number;
}

/** The most callers that have metrics of their own; the others share those of OTHER_CALLERS. */
const MAX_CALLERS = 256;
const OTHER_CALLERS = 'other';

export class ModelMetrics implements RequestObserver {
  readonly status: () => RunnerStatus;
  readonly outcomes = new Map<string, number>();
  readonly crashes = new Map<string, number>();
  readonly audits = new Map<string, number>();
  readonly times = new Map<string, ApiTimes>();
  readonly usage = new Map<string, CallerUsage>();
  requestMs = new Histogram(REQUEST_BUCKETS_MS);
  numPromptTokens = 0;
  numTokens = 0;
  /** Requests that were parked for more urgent ones. */
  numParked = 0;

  constructor(status: () => RunnerStatus) {
    this.status = status;
  }

  clear(): void {
    for (const counts of [this.outcomes, this.crashes, this.audits, this.times, this.usage]) counts.clear();
    this.requestMs = new Histogram(REQUEST_BUCKETS_MS);
    this.numPromptTokens = 0;
    this.numTokens = 0;
    this.numParked = 0;
  }

  onParked(): void {
    this.numParked += 1;
  }

  onCrash(reason: string): void {
    count(this.crashes, reason);
  }

  onAudited(result: string): void {
    count(this.audits, result);
  }

  onRefused(outcome: string): void {
    count(this.outcomes, outcome);
  }

  onAdmitted({ request }: ObservedRequest): void {
    this.numPromptTokens += request.promptIds.length;
    this.#usageOf(request).promptTokens += request.promptIds.length;
  }

  onTokens({ request, times }: ObservedRequest, { first, tokenIds, isResumed }: TokenBatch): void {
    const ofApi = this.#timesOf(request.api);
    if (first !== undefined) {
      const { queuedUs, prefillUs, numCachedTokens } = first;
      this.#usageOf(request).cachedTokens += numCachedTokens;
      ofApi.queue.observe(queuedUs / 1e6);
      ofApi.prefill.observe(prefillUs / 1e6);
      ofApi.runnerFirstToken.observe((queuedUs + prefillUs) / 1e6);
    }
    const numTokens = tokenIds.length;
    if (numTokens === 0) return;
    this.numTokens += numTokens;
    this.#usageOf(request).generatedTokens += numTokens;
    const { gapMs } = times;
    if (gapMs === undefined) {
      ofApi.firstToken.observe((times.lastMs - times.admittedMs) / 1000);
      return;
    }
    ofApi.interToken.observe(gapMs / 1000 / numTokens, numTokens);
    if (isResumed) ofApi.pause.observe(gapMs / 1000);
  }

  onEnd({ request, times: { admittedMs, endMs = admittedMs } }: ObservedRequest, outcome: string): void {
    count(this.outcomes, outcome);
    this.requestMs.observe(endMs - admittedMs);
    this.#timesOf(request.api).request.observe((endMs - admittedMs) / 1000);
  }

  #usageOf({ caller = ANONYMOUS }: GenerateRequest): CallerUsage {
    const name = this.usage.has(caller.name) || this.usage.size < MAX_CALLERS ? caller.name : OTHER_CALLERS;
    const known = this.usage.get(name);
    if (known !== undefined) return known;
    const usage = { promptTokens: 0, cachedTokens: 0, generatedTokens: 0 };
    this.usage.set(name, usage);
    return usage;
  }

  /** There are few APIs. */
  #timesOf(api = NO_API): ApiTimes {
    const known = this.times.get(api);
    if (known !== undefined) return known;
    const histograms = Object.entries(apiTimes).map(([of, [, , buckets]]) => [of, new Histogram(buckets)]);
    const times = Object.fromEntries(histograms) as ApiTimes;
    this.times.set(api, times);
    return times;
  }
}

function count(counts: Map<string, number>, what: string): void {
  counts.set(what, (counts.get(what) ?? 0) + 1);
}
