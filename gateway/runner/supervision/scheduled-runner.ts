import type { RunnerClient } from '../protocol/client.ts';
import { KnownPrefixes } from './known-prefixes.ts';
import type { OpenRequest } from './open-request.ts';

/** The most requests that a runner takes (runner/engine.h). */
const maxHeldRequests = 1024;
/** How many times a step's places a runner is given requests for, while one caller has all of them. */
const placesAhead = 2;

/** The scheduler's view of one place in the pool, across all runner processes that take this place one after another. */
export class ScheduledRunner {
  readonly index: number;
  readonly prefixes = new KnownPrefixes();
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
  }

  onDied(): void {
    this.client = undefined;
    this.isolationRun = undefined;
    this.isReserved = false;
    this.requests.clear();
  }
}
