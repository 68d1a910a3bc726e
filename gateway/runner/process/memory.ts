import type { RunnerInfo, RunnerStatus } from '../runner.ts';

/** Where a runner keeps weights and KV cache, and how much is set aside for them; zeroes while there is none. */
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

/** What of it is in use now. */
export interface MemoryInUse {
  readonly weightsBytes: number;
  /** Of the KV cache, by its blocks: held by sequences; free, with a content that is still known and may be shared. */
  readonly cacheUsedBytes: number;
  readonly cacheReusableBytes: number;
  /** Weights and what sequences hold, where they are. */
  readonly memoryBytes: number;
  readonly vramBytes: number;
}

/** Whether a runner has its model in memory. */
export function isResident({ state, info }: RunnerStatus): boolean {
  return info !== undefined && (state === 'ready' || state === 'stopping');
}

/** Zeroes while no runner has a model: what the last one had has gone with it. */
export function memoryInUse(status: RunnerStatus): MemoryInUse {
  const { info, numFreeBlocks, stats } = status;
  if (info === undefined || !isResident(status))
    return { weightsBytes: 0, cacheUsedBytes: 0, cacheReusableBytes: 0, memoryBytes: 0, vramBytes: 0 };
  const { kind, weightsBytes, kvCacheBytes, numBlocks } = info;
  const blockBytes = kvCacheBytes / numBlocks;
  // Until its first heartbeat nobody has been given any.
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
