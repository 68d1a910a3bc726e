import { type MemoryInUse, memoryInUse, memoryOf } from '../runner/process/memory.ts';
import type { RunnerStatus } from '../runner/runner.ts';
import type { ModelRegistry } from './model-registry.ts';

/**
 * The status of the whole worker. It takes requests as long as one model is loaded or can be, and it is starting until the
 * default model has been loaded or has failed.
 */
export function workerStatus(models: ModelRegistry): RunnerStatus {
  const first = models.default.runner.status();
  const statuses = models.all.map(({ runner }) => runner.status());
  const sum = (count: (status: RunnerStatus) => number): number =>
    statuses.reduce((total, status) => total + count(status), 0);
  const together = {
    ...first,
    openRequests: sum(({ openRequests }) => openRequests),
    openTokens: sum(({ openTokens }) => openTokens),
    restarts: sum(({ restarts }) => restarts),
  };
  if (first.state === 'stopping') return together;
  const states = models.all.map(({ residency }) => residency.state);
  const isAnyLoaded = states.includes('loaded');
  const isBeginning = models.default.residency.state === 'loading' && !isAnyLoaded;
  if (isBeginning || states.every((state) => state === 'failed')) return together;
  return { ...together, state: 'ready', reason: undefined, retryAfterSec: undefined };
}

/** Memory reserved by all loaded models, on devices and in all, and how much of it is in use. */
export function workerMemory(models: ModelRegistry) {
  const statuses = models.all.map(({ runner }) => runner.status());
  const sum = (bytes: (status: RunnerStatus) => number): number =>
    statuses.reduce((total, status) => total + bytes(status), 0);
  const first = models.default.runner.status();
  return {
    vramBytes: sum(({ info }) => memoryOf(info).vram_bytes),
    memoryBytes: sum(({ info }) => memoryOf(info).memory_bytes),
    type: memoryOf(first.info).memory_type,
    inUse: inUseOf(sum),
  };
}

function inUseOf(sum: (bytes: (status: RunnerStatus) => number) => number): MemoryInUse {
  const of = (name: keyof MemoryInUse) => sum((status) => memoryInUse(status)[name]);
  return {
    weightsBytes: of('weightsBytes'),
    cacheUsedBytes: of('cacheUsedBytes'),
    cacheReusableBytes: of('cacheReusableBytes'),
    memoryBytes: of('memoryBytes'),
    vramBytes: of('vramBytes'),
  };
}
