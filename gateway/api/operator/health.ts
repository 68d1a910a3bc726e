import type { Handler } from 'hono';
import { notReady } from '../../calls/prompt.ts';
import {
  isResident,
  memoryInUse,
  memoryOf,
  type ServedModel,
  workerMemory,
  workerStatus,
} from '../../models/model-registry.ts';
import type { SchedulerStats } from '../../runner/protocol/scheduler-stats.ts';
import type { RunnerInfo, RunnerState, RunnerStatus, SingleRunnerStatus } from '../../runner/runner.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import {
  type Backend,
  CAPABILITIES,
  type Health,
  type ModelState,
  type ProcessState,
  type Ready,
  type SchedulerState,
  type SingleRunner,
} from './answers.ts';

const HEALTH: Record<RunnerState, Health['status']> = {
  starting: 'starting',
  ready: 'healthy',
  recovering: 'recovering',
  failed: 'unhealthy',
  stopping: 'degraded',
};

function workerState({ state, openRequests }: RunnerStatus): Health['state'] {
  if (state === 'ready') return openRequests > 0 ? 'busy' : 'ready';
  return state === 'stopping' ? 'draining' : state;
}

/** The counts of the current runner since it started. */
function schedulerOf(stats: SchedulerStats, info: RunnerInfo | undefined): SchedulerState {
  const { numWaiting, numRunning, numPaused, numFinished, numFailed } = stats;
  const { numPrefillSteps, numDecodeSteps, numMixedSteps } = stats;
  return {
    total: numWaiting + numRunning + numPaused + numFinished + numFailed,
    waiting: numWaiting,
    running: numRunning,
    paused: numPaused,
    finished: numFinished,
    failed: numFailed,
    preemptions: stats.numPreemptions,
    prefill_batches: numPrefillSteps,
    decode_batches: numDecodeSteps,
    mixed_batches: numMixedSteps,
    mean_prefill_batch_size: mean(stats.numPrefillSequences, numPrefillSteps + numMixedSteps),
    mean_decode_batch_size: mean(stats.numDecodeSequences, numDecodeSteps + numMixedSteps),
    prefill_tokens: stats.numPrefillTokens,
    cached_tokens: stats.numCachedTokens,
    generated_tokens: stats.numGeneratedTokens,
    draft_tokens: stats.numDraftTokens,
    accepted_draft_tokens: stats.numAcceptedDraftTokens,
    blocks_total: info?.numBlocks ?? null,
    blocks_free: stats.numFreeBlocks,
    blocks_reusable: stats.numReusableBlocks,
    busy_seconds: stats.busyUs / 1e6,
    memory_bytes: stats.memoryBytes === 0 ? null : stats.memoryBytes,
  };
}

/** The state of one of the served models. */
function modelState({ names, residency, runner }: ServedModel): ModelState {
  const { state, progress, reason } = residency;
  const { pid, restarts, openRequests, info } = runner.status();
  return {
    name: names[0] ?? null,
    state,
    load_progress: progress ?? null,
    reason: reason ?? null,
    pid: pid ?? null,
    restarts,
    open_requests: openRequests,
    memory_bytes: memoryOf(info).memory_bytes,
  };
}

function mean(sum: number, count: number): number {
  return count === 0 ? 0 : sum / count;
}

/** Which backend serves, and why another does not. */
function backendOf({ backend, info }: RunnerStatus): Backend | null {
  if (backend === undefined) return null;
  const { requested, isFallback, reason, looksAgainInMs } = backend;
  return {
    requested,
    serving: info?.kind ?? null,
    is_fallback: isFallback,
    reason: reason ?? null,
    looks_again_in_seconds: looksAgainInMs === undefined ? null : Math.ceil(looksAgainInMs / 1000),
  };
}

/** The members that one runner and all runners of a model together have. */
function processOf(runner: RunnerStatus | SingleRunnerStatus): ProcessState {
  return {
    state: runner.state,
    reason: runner.reason ?? null,
    pid: runner.pid ?? null,
    restarts: runner.restarts,
    open_requests: runner.openRequests,
    load_progress: runner.loadProgress ?? null,
  };
}

/** The state of one of several runners. */
function singleRunner(runner: SingleRunnerStatus, index: number): SingleRunner {
  const { info } = runner;
  return {
    runner: index,
    ...processOf(runner),
    kv_blocks: info?.numBlocks ?? null,
    kv_blocks_free: runner.numFreeBlocks ?? null,
    weights_bytes: info?.weightsBytes ?? null,
    kv_cache_bytes: info?.kvCacheBytes ?? null,
  };
}

/**
 * GET /health: 200 while the gateway lives, with the rest in its body. Members are only ever added. The oldest clients read the
 * first four.
 */
export function health(deps: RouteDeps): Handler {
  const startedMs = deps.monotonicNow();
  return (c) => {
    const { models } = deps;
    const worker = workerStatus(models);
    const { model } = models.default;
    const runner = models.default.runner.status();
    const { info } = runner;
    const memory = workerMemory(models);
    const inUse = memoryInUse(runner);
    return c.json({
      status: HEALTH[worker.state],
      model_loaded: runner.state === 'ready',
      vram_bytes: memory.vramBytes,
      memory_type: memory.type,
      memory_bytes: memory.memoryBytes,
      memory_architecture: memory.type,
      resident: isResident(runner),
      vram_bytes_used: memory.vramUsedBytes,
      memory_bytes_used: memory.memoryUsedBytes,
      state: workerState(worker),
      model: model?.id ?? null,
      quant_kind: model?.quantKind ?? null,
      tokenizer_kind: model?.tokenizer.kind ?? null,
      vocab_size: info?.vocabSize ?? model?.tokenizer.vocabSize ?? null,
      context_length: info?.maxModelLen ?? null,
      capabilities: CAPABILITIES,
      protocol: 'sse',
      uptime_seconds: Math.floor((deps.monotonicNow() - startedMs) / 1000),
      runner: {
        ...processOf(runner),
        kind: info?.kind ?? null,
        build: info?.build ?? null,
        device: info?.device ?? null,
        numerics_id: info?.numericsId ?? null,
        sandbox: info?.sandbox ?? null,
        kv_blocks: info?.numBlocks ?? null,
        kv_blocks_free: runner.numFreeBlocks ?? null,
        kv_cache_type: info?.kvCacheType ?? null,
        weights_bytes: info?.weightsBytes ?? null,
        kv_cache_bytes: info?.kvCacheBytes ?? null,
        kv_cache_bytes_used: inUse.cacheUsedBytes,
        kv_cache_bytes_reusable: inUse.cacheReusableBytes,
      },
      ...(runner.runners === undefined ? {} : { runners: runner.runners.map(singleRunner) }),
      backend: backendOf(runner),
      model_change: runner.modelChange ?? null,
      models: models.all.map(modelState),
      scheduler: runner.stats === undefined ? null : schedulerOf(runner.stats, info),
    } satisfies Health);
  };
}

/** GET /ready, for load balancers: 503 if no work is taken. */
export function ready(deps: RouteDeps): Handler {
  return (c) => {
    const { models } = deps;
    const worker = workerStatus(models);
    const { state, backend } = worker;
    if (state !== 'ready') throw notReady(worker);
    return c.json({
      status: 'ready',
      ...(backend?.isFallback ? { fallback: backend.reason } : {}),
      ...(models.sole === undefined ? { models: models.all.map(modelState) } : {}),
    } satisfies Ready);
  };
}
