import type { RunnerClient } from '../protocol/client.ts';
import { KnownPrefixes } from './known-prefixes.ts';
import type { OpenRequest } from './open-request.ts';

/** One runner of the pool as the scheduler knows it, across all processes that take this place one after another. */
export class ScheduledRunner {
  readonly index: number;
  readonly prefixes = new KnownPrefixes();
  /** Those that it has, or had when it was lost. */
  readonly requests = new Set<OpenRequest>();
  /** While it takes requests. */
  client: RunnerClient | undefined;
  /** Of the model that the client's runner has. */
  modelIdentity = '';
  /** The request that it computes alone. */
  isolationRun: OpenRequest | undefined;
  /** An isolation run has ended, perhaps by a Cancel that the runner has not obeyed yet. */
  isClearing = false;
  /** One request must get a token before others come. */
  isOnProbation = false;
  /** Kept free for isolation runs. */
  isReserved = false;
  /** It was told that nothing more comes. */
  isDraining = false;

  constructor(index: number) {
    this.index = index;
  }

  /** What it holds: those that are cancelled count until it has let go of them. */
  get load(): number {
    return this.requests.size + (this.client?.numCancelled ?? 0);
  }

  /** Whether a request that is given to it now is alone with it. */
  get canIsolate(): boolean {
    return (
      this.client !== undefined && !this.isDraining && this.isolationRun === undefined && this.load === 0
    );
  }

  /** Whether it takes requests beside others. */
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
