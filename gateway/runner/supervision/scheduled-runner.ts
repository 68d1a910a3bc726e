import type { RunnerClient } from '../protocol/client.ts';
import type { GenerateRequest } from '../runner.ts';
import { KnownGrammars } from './known-grammars.ts';
import type { OpenRequest } from './open-request.ts';

/** The most requests that a runner takes (runner/engine/engine.h). */
const maxHeldRequests = 1024;
/** How many times a step's places a runner is given requests for, while one caller has all of them. */
const placesAhead = 2;

/** The scheduler's view of one place in the pool, across all runner processes that take this place one after another. */
export class ScheduledRunner {
  readonly index: number;
  readonly prefixes = new KnownPrefixes();
  readonly grammars = new KnownGrammars();
  /** Requests that the runner has, or had when it was lost. */
  readonly requests = new Set<OpenRequest>();
  /** Set while the runner takes requests. */
  client: RunnerClient | undefined;
  /** Identity of the model that the runner has. */
  modelIdentity = '';
  /** The request that the runner computes alone. */
  isolationRun: OpenRequest | undefined;
  /** An isolation run has ended, perhaps by a Cancel that the runner has not obeyed yet. */
  isClearing = false;
  /** One request must get a token before the runner gets others. */
  isOnProbation = false;
  /** Kept free for isolation runs. */
  isReserved = false;
  /** The runner was told that no more requests come. */
  isDraining = false;

  constructor(index: number) {
    this.index = index;
  }

  /** Requests that the runner holds. A cancelled one counts until the runner has let go of it. */
  get load(): number {
    return this.requests.size + (this.client?.numCancelled ?? 0);
  }

  /** Requests that the runner computes, or will without being asked again. */
  get computing(): OpenRequest[] {
    return [...this.requests].filter(({ isPaused }) => !isPaused);
  }

  /**
   * Whether the runner should get one more request. isShared: several callers have requests. A caller that is alone gives a
   * runner more than a step has places for, so that no place is empty until the next request has come.
   */
  hasRoom(isShared: boolean): boolean {
    const { client } = this;
    if (client === undefined || this.load >= maxHeldRequests) return false;
    return this.computing.length < client.maxNumSeqs * (isShared ? 1 : placesAhead);
  }

  /** Whether a request given to the runner now would be alone with it. */
  get canIsolate(): boolean {
    return (
      this.client !== undefined && !this.isDraining && this.isolationRun === undefined && this.load === 0
    );
  }

  /** Whether the runner takes requests beside others. */
  get canServe(): boolean {
    if (this.client === undefined || this.isolationRun !== undefined) return false;
    if (this.isOnProbation || this.isReserved || this.isDraining) return false;
    return !this.isClearing || this.client.numCancelled === 0;
  }

  onReady(client: RunnerClient, modelIdentity: string, isOnProbation: boolean): void {
    this.client = client;
    this.modelIdentity = modelIdentity;
    this.isOnProbation = isOnProbation;
    this.isClearing = false;
    this.isReserved = false;
    this.isDraining = false;
    this.prefixes.clear();
    this.grammars.clear();
  }

  onDied(): void {
    this.client = undefined;
    this.isolationRun = undefined;
    this.isReserved = false;
    this.requests.clear();
  }
}

/** Prefixes are compared in blocks of this many tokens. */
export const affinityBlockTokens = 32;
/** Later blocks of a prompt are not compared. */
export const maxAffinityBlocks = 128;
/** Blocks remembered for each runner; above this number the least recently used one is forgotten. */
export const maxKnownBlocks = 16_384;
/** A runner may have this many times its share of the open requests. */
export const maxLoadFactor = 1.25;

/** The prefixes that a runner was given, as hashes of their blocks. */
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

  /** Returns how many blocks are known, counted from the first one without a gap. */
  count(hashes: readonly number[]): number {
    const firstUnknown = hashes.findIndex((hash) => !this.#hashes.has(hash));
    return firstUnknown === -1 ? hashes.length : firstUnknown;
  }

  /** The runner has ended, and its cache with it. */
  clear(): void {
    this.#hashes.clear();
  }
}

/**
 * A hash for each whole block of the prompt. Each hash includes all blocks before it and the cache salt. The 32-bit hash is a
 * variant of FNV-1a that takes whole ids. Two prefixes with the same hash are taken for the same one, which costs no more
 * than a wrong guess.
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

interface LoadedRunner {
  readonly prefixes: KnownPrefixes;
  /** Requests that the runner has. */
  readonly load: number;
}

/**
 * Chooses a runner of several for a request: one that probably has the beginning of the prompt in its KV cache, unless it has
 * much more to do than the others. The bound on its load is that of "Consistent Hashing with Bounded Loads" (Mirrokni,
 * Thorup, Zadimoghaddam, arXiv 1608.01350): no runner gets more than maxLoadFactor times its share of the open requests,
 * rounded up. Within the bound, the runner wins that was given the longest prefix of the prompt before, as in SGLang's
 * cache-aware router (https://docs.sglang.ai/router/router.html); of equals, the least loaded one.
 *
 * The gateway does not know what a runner still has in its cache. A wrong guess costs the computation of a prefix and changes
 * no token.
 * Undefined if there are no candidates.
 */
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
