import { type Caller, isInBackground } from '../../system/caller.ts';
import { RecentSet } from '../../system/recent-set.ts';
import type { RunnerClient } from '../protocol/client.ts';
import type { GenerateRequest } from '../runner.ts';
import type { OpenRequest } from './open-request.ts';
import { BlockWaits, isLessUrgent } from './urgency.ts';

/** The most requests that a runner takes (runner/engine/engine.h). */
const maxHeldRequests = 1024;
/** How many times a step's places a runner is given requests for, while one caller has all of them. */
const placesAhead = 2;
/** Grammars remembered for each runner, as many as it caches (runner/grammar/grammar_cache.h). */
const maxKnownGrammars = 1024;

/** The scheduler's view of one place in the pool, across all runner processes that take this place one after another. */
export class ScheduledRunner {
  readonly index: number;
  /** The prefixes that the runner was given, as hashes of their blocks. */
  readonly prefixes = new RecentSet<number>(maxKnownBlocks);
  /** The grammars that the runner has compiled, by their keys. One that has left its cache costs a turn that was not counted. */
  readonly grammars = new RecentSet<string>(maxKnownGrammars);
  blockWaits = new BlockWaits();
  /** Requests that the runner has, or had when it was lost, in the order in which it got them. */
  readonly requests = new Set<OpenRequest>();
  /** Set while the runner takes requests. */
  client: RunnerClient | undefined;
  modelIdentity = '';
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
    return this.requests.size + (this.client?.requests.numCancelled ?? 0);
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
    return this.computing.length < client.ready.maxNumSeqs * (isShared ? 1 : placesAhead);
  }

  /** Whether a request given to the runner now would be alone with it. */
  get canIsolate(): boolean {
    return (
      this.client !== undefined && !this.isDraining && this.isolationRun === undefined && this.load === 0
    );
  }

  get canServe(): boolean {
    if (this.client === undefined || this.isolationRun !== undefined) return false;
    if (this.isOnProbation || this.isReserved || this.isDraining) return false;
    return !this.isClearing || this.client.requests.numCancelled === 0;
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
    this.blockWaits = new BlockWaits();
  }

  onDied(): void {
    this.client = undefined;
    this.isolationRun = undefined;
    this.isReserved = false;
    this.requests.clear();
  }
}

/** The places in runners' steps, as callers have them now. */
export class StepPlaces {
  readonly #numHeld = new Map<string, number>();
  /** The highest priority number of each caller's requests; empty where none is parked by it. */
  readonly #leastUrgent = new Map<string, number>();

  constructor(runners: readonly ScheduledRunner[], parksByPriority: boolean) {
    for (const { computing } of runners)
      for (const { caller, priority } of computing) {
        this.#add(caller, 1);
        if (!parksByPriority) continue;
        this.#leastUrgent.set(
          caller.name,
          Math.max(priority, this.#leastUrgent.get(caller.name) ?? priority),
        );
      }
  }

  /** A caller in the background counts with one more, which is more for its shares than any other can have. */
  heldBy(caller: Caller): number {
    return (this.#numHeld.get(caller.name) ?? 0) + (isInBackground(caller) ? 1 : 0);
  }

  /**
   * Takes the place that this caller should get from the one who has the most for its shares: from the last of that caller's
   * requests. Undefined if that caller would then have less than this one.
   */
  takeFor(caller: Caller, runners: readonly ScheduledRunner[]): OpenRequest | undefined {
    let last: OpenRequest | undefined;
    for (const open of runners.flatMap(({ computing }) => computing)) {
      if (this.#perShare(open.caller, -1) < this.#perShare(caller, 1)) continue;
      if (last === undefined || this.#givesWayBefore(open, last)) last = open;
    }
    if (last !== undefined) this.#add(last.caller, -1);
    return last;
  }

  /** The least urgent request of the same caller that a runner computes, if it is less urgent; of equals, the last one. */
  lessUrgent(
    { caller, priority }: OpenRequest,
    runners: readonly ScheduledRunner[],
  ): OpenRequest | undefined {
    if (priority >= (this.#leastUrgent.get(caller.name) ?? priority)) return undefined;
    let least: OpenRequest | undefined;
    for (const open of runners.flatMap(({ computing }) => computing)) {
      if (open.caller.name !== caller.name || open.priority <= priority) continue;
      if (least === undefined || isLessUrgent(open, least)) least = open;
    }
    return least;
  }

  #add({ name }: Caller, more: number): void {
    this.#numHeld.set(name, (this.#numHeld.get(name) ?? 0) + more);
  }

  #perShare(caller: Caller, more = 0): number {
    return (this.heldBy(caller) + more) / caller.shares;
  }

  /** The request of the caller with more gives way before another; of one caller's, the one that came last. */
  #givesWayBefore(one: OpenRequest, other: OpenRequest): boolean {
    if (one.caller.name !== other.caller.name)
      return this.#perShare(one.caller) > this.#perShare(other.caller);
    return isLessUrgent(one, other);
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

/** How many blocks are known, counted from the first one without a gap. */
export function numKnownBlocks(prefixes: RecentSet<number>, hashes: readonly number[]): number {
  const firstUnknown = hashes.findIndex((hash) => !prefixes.has(hash));
  return firstUnknown === -1 ? hashes.length : firstUnknown;
}

interface LoadedRunner {
  readonly prefixes: RecentSet<number>;
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
    const numKnown = numKnownBlocks(candidate.prefixes, hashes);
    const isBetter =
      best === undefined ||
      numKnown > best.numKnown ||
      (numKnown === best.numKnown && candidate.load < best.candidate.load);
    if (isBetter) best = { candidate, numKnown };
  }
  return best?.candidate;
}

/**
 * Which requests may be at a runner before it has compiled their grammars. A runner compiles in the order of arrival, up to ten
 * seconds for each, and nothing can overtake what it has. So while several callers wait for grammars, each has one at a runner,
 * and they take turns. A caller that is alone has all of them there. These are the turns as they are now: a look at the open
 * requests and at where they are.
 */
export class GrammarTurns {
  /** For each runner the grammar of each caller that is to be compiled next; undefined if at most one caller waits for grammars. */
  readonly #turns: ReadonlyMap<ScheduledRunner, ReadonlyMap<string, string>> | undefined;
  /** Requests at runners whose callers have another turn there. */
  readonly surplus: readonly OpenRequest[] = [];

  constructor(runners: readonly ScheduledRunner[], requests: Iterable<OpenRequest>) {
    if (numWaiting(runners, requests) < 2) return;
    const surplus: OpenRequest[] = [];
    const turnsAt = (runner: ScheduledRunner): ReadonlyMap<string, string> => {
      const turns = new Map<string, string>();
      for (const open of runner.requests) {
        const { grammarKey: key, caller } = open;
        if (key === undefined || runner.grammars.has(key)) continue;
        const turn = turns.get(caller.name) ?? key;
        turns.set(caller.name, turn);
        if (turn !== key && runner.canServe) surplus.push(open);
      }
      return turns;
    };
    this.#turns = new Map(runners.map((runner) => [runner, turnsAt(runner)]));
    this.surplus = surplus;
  }

  mayHave({ grammarKey: key, caller }: OpenRequest, runner: ScheduledRunner): boolean {
    if (key === undefined || runner.grammars.has(key)) return true;
    return (this.#turns?.get(runner)?.get(caller.name) ?? key) === key;
  }
}

function numWaiting(runners: readonly ScheduledRunner[], requests: Iterable<OpenRequest>): number {
  const names = new Set<string>();
  for (const open of requests) {
    const { grammarKey: key } = open;
    // A paused request shows by no token that its grammar is compiled.
    if (key === undefined || open.isPaused) continue;
    const at = runners.filter(({ requests: held }) => held.has(open));
    const isCompiled = (at.length === 0 ? runners : at).some(({ grammars }) => grammars.has(key));
    if (!isCompiled) names.add(open.caller.name);
  }
  return names.size;
}
