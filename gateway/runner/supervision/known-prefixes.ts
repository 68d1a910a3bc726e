/**
 * Which runner of several gets a request: one that is likely to have the beginning of its prompt in the KV cache, as long as it
 * does not have much more to do than the others. The bound is that of "Consistent Hashing with Bounded Loads" (Mirrokni, Thorup,
 * Zadimoghaddam, arXiv 1608.01350): no runner gets more than maxLoadFactor times its share of the open requests, rounded up.
 * Within it the longest prefix counts that a runner was given before, as in SGLang's cache-aware router
 * (https://docs.sglang.ai/router/router.html); of equals, the least loaded one.
 *
 * What a runner still has in its cache is not known. A wrong guess costs the computation of a prefix, and no token differs.
 */
import type { GenerateRequest } from '../runner.ts';

/** A prefix is compared in blocks of so many tokens. */
export const affinityBlockTokens = 32;
/** What lies behind so many blocks of a prompt is not looked at. */
export const maxAffinityBlocks = 128;
/** Of one runner; the block that was met least recently is forgotten. */
export const maxKnownBlocks = 16_384;
/** How much more than its share of the open requests a runner may have. */
export const maxLoadFactor = 1.25;

/** Prefixes that a runner was given, by the hashes of their blocks. */
export class KnownPrefixes {
  /** In the order of use. */
  readonly #hashes = new Set<number>();

  add(hashes: readonly number[]): void {
    for (const hash of hashes) {
      this.#hashes.delete(hash);
      this.#hashes.add(hash);
    }
    for (const hash of this.#hashes) {
      if (this.#hashes.size <= maxKnownBlocks) break;
      this.#hashes.delete(hash);
    }
  }

  /** How many blocks are known from the first on. */
  count(hashes: readonly number[]): number {
    const firstUnknown = hashes.findIndex((hash) => !this.#hashes.has(hash));
    return firstUnknown === -1 ? hashes.length : firstUnknown;
  }

  /** The runner is gone, and its cache with it. */
  clear(): void {
    this.#hashes.clear();
  }
}

/**
 * A hash for each whole block of the prompt that includes all blocks before it, and the salt of the cache. 32 bits by FNV-1a over
 * whole ids: two prefixes with the same hash are taken for one, which costs no more than a wrong guess.
 */
export function prefixHashes({ promptIds, cacheSalt }: GenerateRequest): number[] {
  let hash = 0x811c9dc5;
  const mix = (value: number): void => {
    hash = Math.imul(hash ^ value, 0x01000193);
    hash ^= hash >>> 15;
  };
  cacheSalt.forEach(mix);
  const numBlocks = Math.min(maxAffinityBlocks, Math.floor(promptIds.length / affinityBlockTokens));
  const hashes: number[] = [];
  for (let index = 0; index < numBlocks * affinityBlockTokens; index += 1) {
    mix(promptIds[index] as number);
    if ((index + 1) % affinityBlockTokens === 0) hashes.push(hash);
  }
  return hashes;
}

export interface LoadedRunner {
  readonly prefixes: KnownPrefixes;
  /** Requests that it has. */
  readonly load: number;
}

/** The one that gets the request, of those that may have it; undefined: there is none. */
export function bestRunner<Candidate extends LoadedRunner>(
  candidates: readonly Candidate[],
  hashes: readonly number[],
): Candidate | undefined {
  const total = candidates.reduce((sum, { load }) => sum + load, 1);
  const maxLoad = Math.ceil((maxLoadFactor * total) / candidates.length);
  let best: { readonly candidate: Candidate; readonly numKnown: number } | undefined;
  for (const candidate of candidates) {
    if (candidate.load + 1 > maxLoad) continue;
    const numKnown = candidate.prefixes.count(hashes);
    const isBetter =
      best === undefined ||
      numKnown > best.numKnown ||
      (numKnown === best.numKnown && candidate.load < best.candidate.load);
    if (isBetter) best = { candidate, numKnown };
  }
  return best?.candidate;
}
