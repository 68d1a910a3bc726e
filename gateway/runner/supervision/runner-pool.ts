/**
 * All runners of a model as one runner that is always there. It has one process or several, each with a supervisor that
 * starts the next one (supervisor.ts); the scheduler decides which runner gets which request (request-scheduler.ts). The pool
 * admits requests, reports the status, replaces runners and shuts them down in order.
 */
import { ANONYMOUS } from '../../system/caller.ts';
import { settlesWithin, systemClock } from '../../system/clock.ts';
import type { KvPool, Loading } from '../kv-disk/kv-disk.ts';
import { countersOf, type SchedulerStats, statsOf } from '../protocol/scheduler-stats.ts';
import {
  type GenerateRequest,
  GenerationError,
  type GenerationHandle,
  type Runner,
  type RunnerInfo,
  type RunnerState,
  type RunnerStatus,
  type SingleRunnerStatus,
  type TokenSink,
} from '../runner.ts';
import { AdmissionLimits, type OpenLimits } from './admission-limits.ts';
import type { RunnerCrash } from './exit-policy.ts';
import { KeptCache } from './kept-cache.ts';
import type { OpenRequest } from './open-request.ts';
import { Quarantine } from './quarantine.ts';
import { RollingReplacement } from './replacement.ts';
import { RequestScheduler } from './request-scheduler.ts';
import type { RunnerEvent } from './runner-event.ts';
import type { RunnerSpec } from './runner-spec.ts';
import { SharedWeights } from './shared-weights.ts';
import {
  type Failing,
  RunnerSupervisor,
  type RunnerSupervisorOptions,
  retryAfterSec,
  STOPPING,
  type SupervisorEvents,
} from './supervisor.ts';

export interface RunnerPoolOptions extends RunnerSupervisorOptions, OpenLimits {
  /** Number of runners, each with the whole model; 1 by default. */
  readonly numRunners?: number;
  /** Whether a request is parked for a more urgent one of its caller. By default none is. */
  readonly parksByPriority?: boolean;
  /** Called for every request that is parked for a more urgent one. */
  readonly onParked?: () => void;
  /** The file in which computed blocks of KV caches are kept; absent: they are kept in memory only. */
  readonly disk?: KvPool | undefined;
  /** Called for every death that nobody asked for, before the next runner is started. */
  readonly onCrash?: (crash: RunnerCrash) => void;
}

export const MODEL_REPLACED = 'The model was replaced while the request was being prepared; send it again.';

export class RunnerPool implements Runner {
  readonly #options: RunnerPoolOptions;
  readonly #scheduler: RequestScheduler;
  readonly #supervisors: readonly RunnerSupervisor[];
  readonly #replacement: RollingReplacement;
  readonly #weights: SharedWeights;
  readonly #caches: readonly KeptCache[];
  /** The supervisor whose runner became ready last. */
  #newest: RunnerSupervisor;
  #stopped: Promise<void> | undefined;
  readonly #waitingForIdle: (() => void)[] = [];

  constructor(options: RunnerPoolOptions) {
    const { clock = systemClock } = options;
    this.#options = options;
    const { numRunners = 1, parksByPriority } = options;
    const now = () => clock.now();
    const limits = new AdmissionLimits(options);
    const quarantine = new Quarantine(now);
    this.#scheduler = new RequestScheduler(
      { numRunners, quarantine, limits, now, parksByPriority },
      {
        onIdle: () => {
          for (const resolve of this.#waitingForIdle.splice(0)) resolve();
        },
        onProven: (index) => this.#supervisors[index]?.onProven(),
        onQuarantined: (numPromptIds, numEmitted) => {
          options.log({ level: 'error', event: 'request_quarantined', numPromptIds, numEmitted });
        },
        onParked: ({ priority, state: { numEmitted } }, { priority: forPriority }) => {
          options.log({ level: 'info', event: 'request_parked', priority, forPriority, numEmitted });
          options.onParked?.();
        },
        isComing: (index) => this.#supervisors[index]?.status.isComing ?? false,
        kvFrom: (index, places) => this.#caches[index]?.descriptorsOf(places) ?? [],
        load: (open) => this.#load(open),
      },
    );
    this.#weights = new SharedWeights((reason) => {
      options.log({ level: 'warn', event: 'weights_dropped', reason });
    });
    const { disk } = options;
    // One more place, without a runner, is where blocks from the disk are put.
    this.#caches = KeptCache.ofPlaces(disk === undefined ? numRunners : numRunners + 1, {
      onDropped: (runner, reason) => {
        const numbered = numRunners === 1 || runner === numRunners ? {} : { runner };
        options.log({ level: 'info', event: 'kv_cache_dropped', ...numbered, reason });
      },
      onMade: (place, memory) => {
        if (place === numRunners) disk?.setStaging(memory);
        else disk?.setPlace(place, memory);
      },
      onFreed: (place, mayBeWrong) => {
        if (place === numRunners) disk?.setStaging(undefined);
        else disk?.dropPlace(place, mayBeWrong);
      },
      onReleased: (index, descriptor) => this.#supervisors[index]?.releaseKv(descriptor),
    });
    this.#supervisors = Array.from({ length: numRunners }, (_, index) => this.#supervisorOf(index));
    this.#replacement = new RollingReplacement(this.#supervisors, options);
    this.#newest = this.#supervisors[0] as RunnerSupervisor;
  }

  #supervisorOf(index: number): RunnerSupervisor {
    const { numRunners = 1, disk, log, onCrash } = this.#options;
    // A single runner needs no number in the log.
    const numbered = numRunners === 1 ? {} : { runner: index };
    const options = { ...this.#options, log: (event: RunnerEvent) => log({ ...event, ...numbered }) };
    let numComputed = 0;
    const events: SupervisorEvents = {
      onReady: (client, info, isOnProbation) => {
        this.#newest = supervisor;
        disk?.setModel(info.modelIdentity);
        if (disk !== undefined && info.kind !== 'cpu')
          log({
            level: 'warn',
            event: 'kv_disk_unused',
            ...numbered,
            reason: 'What GPUs compute is not kept on the disk.',
          });
        this.#scheduler.onReady(index, client, info.modelIdentity, isOnProbation);
        this.#replaceOthers(supervisor, info);
      },
      onReleased: () => this.#scheduler.onReleased(),
      onStats: (stats) => {
        this.#scheduler.onStats(index, stats);
        const computed = stats.numPrefillTokens + stats.numGeneratedTokens;
        if (computed !== numComputed) disk?.onComputed();
        numComputed = computed;
      },
      onReplacing: () => this.#scheduler.takeBack(index),
      onLost: () => this.#scheduler.onLost(index),
      onDied: (areSuspects, crash, ending) => {
        onCrash?.({ ...crash, ...numbered, requests: this.#scheduler.requestsWith(index) });
        this.#scheduler.onDied(index, areSuspects, ending && errorOf(ending));
      },
      onFailed: (failing) => {
        // Other runners go on with the open requests.
        if (this.#takesRequests) this.#scheduler.onGivenUp();
        else this.#scheduler.failAll(errorOf(failing));
      },
      isWanted: () => this.#stopped === undefined || this.#scheduler.isWanted(index),
    };
    const supervisor = new RunnerSupervisor(options, events, this.#weights, this.#caches[index] as KeptCache);
    return supervisor;
  }

  /**
   * The model file has changed since the other runners loaded it, so they are replaced. Prompts are tokenized for the new
   * model from now on.
   */
  #replaceOthers(newest: RunnerSupervisor, { modelIdentity }: RunnerInfo): void {
    for (const supervisor of this.#supervisors) {
      const isOther = supervisor !== newest && supervisor.status.info?.modelIdentity !== modelIdentity;
      if (isOther && supervisor.status.state === 'ready') void supervisor.replace({});
    }
  }

  get #takesRequests(): boolean {
    return this.#supervisors.some(({ status }) => status.takesRequests);
  }

  /** Starts the first runners. Call it once. */
  start(): void {
    for (const supervisor of this.#supervisors) supervisor.start();
  }

  /**
   * Replaces the runners by ones of the spec with this change. Open requests go on with the new runners if these have the
   * same model. Several runners of one model are replaced one after the other. Resolves with undefined when all are ready, or
   * with the reason why one is not; then runners of the old spec are started again.
   */
  replaceRunner(change: Partial<RunnerSpec>): Promise<string | undefined> {
    return this.#replacement.replace(change);
  }

  /** How many of the open requests are of callers in the background. */
  get numOpenInBackground(): number {
    return this.#scheduler.numOpenInBackground;
  }

  whenIdle(): Promise<void> {
    if (this.#scheduler.numOpen === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waitingForIdle.push(resolve));
  }

  /** Ends all open requests; the pool still takes new ones. */
  failOpen(error: GenerationError): void {
    this.#scheduler.failAll(error);
  }

  status(): RunnerStatus {
    const status = poolStatus(this.#supervisors, this.#newest.status.info, this.#scheduler);
    if (this.#stopped === undefined) return status;
    return { ...status, state: 'stopping', reason: STOPPING, retryAfterSec };
  }

  generate(request: GenerateRequest, sink: TokenSink): GenerationHandle {
    this.assertCapacity([request]);
    return this.#scheduler.admit(request, sink);
  }

  /**
   * Refuses new requests, lets the open ones finish for at most drainMs, fails the rest, and ends the runners. Settles when
   * no process and no timer is left, and the runners' memory is free for another model.
   */
  stop(drainMs: number): Promise<void> {
    this.#stopped ??= this.#drainAndEnd(drainMs);
    return this.#stopped;
  }

  async #drainAndEnd(drainMs: number): Promise<void> {
    this.#replacement.stop();
    for (const supervisor of this.#supervisors) supervisor.stop();
    this.#scheduler.drain();
    this.#options.log({ level: 'info', event: 'runner_draining', openRequests: this.#scheduler.numOpen });
    await settlesWithin(this.whenIdle(), drainMs, this.#options.clock ?? systemClock);
    const message = 'The server stopped before the request was finished.';
    this.failOpen(new GenerationError('INFERENCE_FAILED', message, { retriable: true }));
    await Promise.all(this.#supervisors.map((supervisor) => supervisor.end()));
    const freed = [this.#weights.close()];
    const { disk } = this.#options;
    const answers = await disk?.flush();
    for (const cache of this.#caches) freed.push(cache.close());
    // The keeper has the memory open too, and has closed it when it answers again.
    if (answers) await disk?.flush();
    disk?.close();
    await Promise.all(freed);
  }

  /** Looks on the disk for what no runner has of the text. A vector, and what is known of the prompt's own tokens, is computed anew. */
  #load({ request, state }: OpenRequest): Loading | undefined {
    const { disk, numRunners = 1 } = this.#options;
    if (disk === undefined || request.pooling !== undefined || request.promptLogprobs !== undefined)
      return undefined;
    const { tokenIds, cacheSalt } = state.toGenerate();
    if (tokenIds.length <= (this.#newest.status.info?.blockSize ?? 0)) return undefined;
    const loading = disk.load(tokenIds, cacheSalt);
    return loading && { ...loading, done: loading.done.then((places) => places && [...places, numRunners]) };
  }

  assertAcceptsRequests(caller = ANONYMOUS): void {
    this.#requireReady();
    this.#scheduler.assertRoom(caller, 1, 1);
  }

  assertCapacity(requests: readonly GenerateRequest[]): void {
    const info = this.#requireReady();
    if (requests.some(({ modelIdentity }) => modelIdentity !== info.modelIdentity))
      throw this.#notReady(MODEL_REPLACED);
    for (const request of requests) this.#scheduler.assertNotQuarantined(request);
    const numTokens = requests.reduce((sum, { promptIds }) => sum + promptIds.length, 0);
    this.#scheduler.assertRoom(requests[0]?.caller ?? ANONYMOUS, requests.length, numTokens);
  }

  #requireReady(): RunnerInfo {
    const { info } = this.#newest.status;
    if (info !== undefined && this.#stopped === undefined && this.#takesRequests) return info;
    throw this.#notReady(this.status().reason ?? 'The runner is not ready.');
  }

  #notReady(message: string): GenerationError {
    const status = this.status();
    const seconds = status.retryAfterSec ?? (status.state === 'ready' ? retryAfterSec : undefined);
    const retriable = seconds !== undefined;
    return new GenerationError('NOT_READY', message, { retriable, retryAfterSec: seconds });
  }
}

/** If another runner comes, the error is NOT_READY with the time to wait, so that clients come back and kept jobs wait. */
function errorOf({ reason, isRetriable: retriable, retryAfterSec: seconds }: Failing): GenerationError {
  const code = seconds === undefined ? 'INFERENCE_FAILED' : 'NOT_READY';
  return new GenerationError(code, reason, { retriable, retryAfterSec: seconds });
}

/** The pool has the first of these states that one of its runners has. */
const bestFirst: readonly Exclude<RunnerState, 'stopping'>[] = ['ready', 'recovering', 'starting', 'failed'];

/**
 * The status of all runners as one. Their memory, blocks and counters are summed, and the pool is ready if one of them is.
 * newest: facts about the runner that became ready last.
 */
function poolStatus(
  supervisors: readonly RunnerSupervisor[],
  newest: RunnerInfo | undefined,
  scheduler: RequestScheduler,
): RunnerStatus {
  const state = bestFirst.find((each) => supervisors.some(({ status }) => status.state === each));
  const best = supervisors.find(({ status }) => status.state === state);
  if (state === undefined || best === undefined) throw new Error('A pool has a runner at least.');
  const statuses = supervisors.map(({ status }) => status);
  const stats = statuses.flatMap((each) => each.stats ?? []);
  const freeBlocks = statuses.flatMap((each) => each.numFreeBlocks ?? []);
  return {
    state,
    reason: best.status.reason,
    pid: best.pid,
    restarts: sum(supervisors.map(({ restarts }) => restarts)),
    openRequests: scheduler.numOpen,
    openTokens: scheduler.numOpenTokens,
    loadProgress: best.status.loadProgress,
    retryAfterSec: best.retryAfterSec,
    info: newest && sumOfInfo(supervisors, newest),
    numFreeBlocks: freeBlocks.length === 0 ? undefined : sum(freeBlocks),
    stats: stats.length === 0 ? undefined : withPending(sumOfStats(stats), scheduler.numPending),
    counters: countersOf((name) => sum(statuses.map(({ counters }) => counters[name]))),
    ...(supervisors.length === 1 ? {} : { runners: supervisors.map(runnerStatus(scheduler)) }),
  };
}

function runnerStatus(scheduler: RequestScheduler) {
  return ({ pid, restarts, status }: RunnerSupervisor, index: number): SingleRunnerStatus => {
    const { state, reason, loadProgress, numFreeBlocks, info } = status;
    const openRequests = scheduler.numWith(index);
    return { state, reason, pid, restarts, openRequests, loadProgress, numFreeBlocks, info };
  };
}

/** Counts the memory of every runner that has been ready, even if it is dead now, because its successor takes the same. */
function sumOfInfo(supervisors: readonly RunnerSupervisor[], newest: RunnerInfo): RunnerInfo {
  const infos = supervisors.flatMap(({ status }) => status.info ?? []);
  const sharedWeightsBytes = Math.max(...infos.map((info) => info.sharedWeightsBytes));
  const ownWeightsBytes = sum(infos.map((info) => info.weightsBytes - info.sharedWeightsBytes));
  return {
    ...newest,
    numBlocks: sum(infos.map(({ numBlocks }) => numBlocks)),
    weightsBytes: sharedWeightsBytes + ownWeightsBytes,
    sharedWeightsBytes,
    kvCacheBytes: sum(infos.map(({ kvCacheBytes }) => kvCacheBytes)),
  };
}

function sumOfStats(stats: readonly SchedulerStats[]): SchedulerStats {
  return statsOf((name) => sum(stats.map((each) => each[name])));
}

/** A request that no runner has waits for its first step too. */
function withPending(stats: SchedulerStats, numPending: number): SchedulerStats {
  return numPending === 0 ? stats : { ...stats, numWaiting: stats.numWaiting + numPending };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
