import type { RunnerInfo, RunnerStatus } from '../runner/runner.ts';
import { isInBackground } from '../system/caller.ts';
import type { Waiter } from './admission-gate.ts';
import type { ModelLifecycle } from './model-lifecycle.ts';

export class UnknownModelError extends Error {
  override readonly name = 'UnknownModelError';
}

/** One of the models that a gateway serves, as routes see it. It exists whether or not a runner has it in memory. */
export type ServedModel = Pick<
  ModelLifecycle,
  | 'isPinned'
  | 'isLeaving'
  | 'names'
  | 'created'
  | 'model'
  | 'runner'
  | 'gate'
  | 'loadState'
  | 'requestUnload'
  | 'requestLoad'
  | 'read'
>;

/** A model that a request may use. It is not unloaded before it is released. */
export interface AcquiredModel {
  readonly served: ServedModel;
  /** Must be called when the request is with the runner, or has been answered. */
  release(): void;
}

const LATEST = ':latest';

/** The name with the tag that Ollama's names always have. */
export function tagged(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1).includes(':') ? name : name + LATEST;
}

/** The served name that is meant: the tag "latest" may be there or missing on either side. Without a match, the name itself. */
export function servedName(name: string, names: readonly string[]): string {
  return names.find((each) => each === name) ?? names.find((each) => tagged(each) === tagged(name)) ?? name;
}

export class ModelRegistry {
  #models: readonly [ServedModel, ...ServedModel[]];

  /** The first model is the default. */
  constructor(models: readonly ServedModel[]) {
    this.#models = atLeastOne(models);
  }

  get all(): readonly ServedModel[] {
    return this.#models;
  }

  /** The model for requests that name none. */
  get default(): ServedModel {
    return this.#models[0];
  }

  /**
   * The only model, if it is pinned. It is there for every request, and may change its name when another file is served in its
   * place.
   */
  get single(): ServedModel | undefined {
    return this.#models.length === 1 && this.default.isPinned ? this.default : undefined;
  }

  /** Replaces the models. Requests that are with the old ones are finished by them. */
  replace(models: readonly ServedModel[]): void {
    this.#models = atLeastOne(models);
  }

  get names(): readonly string[] {
    return this.#models.flatMap(({ names }) => names);
  }

  /** The model of this name, or the default without a name. Throws UnknownModelError. */
  find(name: string | undefined): ServedModel {
    if (name === undefined) return this.default;
    const meant = servedName(name, this.names);
    const found = this.#models.find(({ names }) => names.includes(meant));
    if (found !== undefined) return found;
    throw new UnknownModelError(`No model here is called ${JSON.stringify(name)}.`);
  }

  /** As find(), but every name means the single model: it may have the name when the caller gets to use it. */
  expect(name: string | undefined): ServedModel {
    return this.single ?? this.find(name);
  }

  /**
   * Waits until the model takes requests or cannot be loaded; in the latter case the status of its runner says why. Throws
   * UnknownModelError, and the errors of AdmissionGate.enter(). As in expect(), the model may have another name.
   */
  async acquire(name: string | undefined, waiter: Waiter): Promise<AcquiredModel> {
    const served = this.expect(name);
    served.requestLoad(!isInBackground(waiter.caller));
    const release = await served.gate.enter(waiter);
    return { served, release };
  }
}

function atLeastOne(models: readonly ServedModel[]): readonly [ServedModel, ...ServedModel[]] {
  const [first, ...others] = models;
  if (first === undefined) throw new Error('A gateway without a model has nothing to serve.');
  return [first, ...others];
}

/**
 * The status of the whole worker. It takes requests as long as one model is loaded or can be, and it is starting until the
 * default model has been loaded or has failed.
 */
export function workerStatus({ all, default: first }: ModelRegistry): RunnerStatus {
  const statuses = all.map(({ runner }) => runner.status());
  const status = first.runner.status();
  const together = {
    ...status,
    openRequests: sum(statuses.map(({ openRequests }) => openRequests)),
    openTokens: sum(statuses.map(({ openTokens }) => openTokens)),
    restarts: sum(statuses.map(({ restarts }) => restarts)),
  };
  if (status.state === 'stopping') return together;
  const states = all.map(({ loadState }) => loadState.state);
  const isBeginning = first.loadState.state === 'loading' && !states.includes('loaded');
  if (isBeginning || states.every((state) => state === 'failed')) return together;
  return { ...together, state: 'ready', reason: undefined, retryAfterSec: undefined };
}

/** Memory reserved by all loaded models, on devices and in all, and how much of it is in use. */
export function workerMemory({ all, default: first }: ModelRegistry) {
  const statuses = all.map(({ runner }) => runner.status());
  const reserved = statuses.map(({ info }) => memoryOf(info));
  const inUse = statuses.map(memoryInUse);
  return {
    type: memoryOf(first.runner.status().info).memory_type,
    vramBytes: sum(reserved.map(({ vram_bytes }) => vram_bytes)),
    memoryBytes: sum(reserved.map(({ memory_bytes }) => memory_bytes)),
    vramUsedBytes: sum(inUse.map(({ vramBytes }) => vramBytes)),
    memoryUsedBytes: sum(inUse.map(({ memoryBytes }) => memoryBytes)),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Where a runner keeps weights and KV cache, and how much memory is reserved for them; zeros while there is no runner. */
export interface Memory {
  readonly vram_bytes: number;
  readonly memory_type: 'cpu' | 'vram-only';
  readonly memory_bytes: number;
}

export function memoryOf(info: RunnerInfo | undefined): Memory {
  const bytes = (info?.weightsBytes ?? 0) + (info?.kvCacheBytes ?? 0);
  return info?.kind === 'cuda'
    ? { vram_bytes: bytes, memory_type: 'vram-only', memory_bytes: bytes }
    : { vram_bytes: 0, memory_type: 'cpu', memory_bytes: bytes };
}

/** How much of the reserved memory is in use now. */
export interface MemoryInUse {
  readonly weightsBytes: number;
  /** Bytes of the KV cache in blocks that sequences hold, and in free blocks whose content is known and may be shared. */
  readonly cacheUsedBytes: number;
  readonly cacheReusableBytes: number;
  /** Weights and the cache in use: wherever they are, and on the GPU. */
  readonly memoryBytes: number;
  readonly vramBytes: number;
}

/** Whether a runner has the model in memory. */
export function isResident({ state, info }: RunnerStatus): boolean {
  return info !== undefined && (state === 'ready' || state === 'stopping');
}

/** Zeros while no runner has a model: the last runner's memory was freed when it ended. */
export function memoryInUse(status: RunnerStatus): MemoryInUse {
  const { info, numFreeBlocks, stats } = status;
  if (info === undefined || !isResident(status))
    return { weightsBytes: 0, cacheUsedBytes: 0, cacheReusableBytes: 0, memoryBytes: 0, vramBytes: 0 };
  const { kind, weightsBytes, kvCacheBytes, numBlocks } = info;
  const blockBytes = kvCacheBytes / numBlocks;
  // Before the first heartbeat no sequence has blocks.
  const cacheUsedBytes = (numBlocks - (numFreeBlocks ?? numBlocks)) * blockBytes;
  const memoryBytes = weightsBytes + cacheUsedBytes;
  return {
    weightsBytes,
    cacheUsedBytes,
    cacheReusableBytes: (stats?.numReusableBlocks ?? 0) * blockBytes,
    memoryBytes,
    vramBytes: kind === 'cuda' ? memoryBytes : 0,
  };
}
