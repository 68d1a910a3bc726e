import type { RunnerInfo } from './runner.ts';

/** Where a runner keeps weights and KV cache, and how much they take; zeroes while there is none. */
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
