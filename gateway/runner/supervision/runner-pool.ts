/**
 * The runner as the rest of the gateway sees it: always there. Admits requests, shows how it is, and ends in order; who computes
 * (succession.ts) and what is given to it (dispatch.ts) are behind it.
 */
import { systemClock } from '../../system/clock.ts';
import { settlesWithin } from '../../system/settles-within.ts';
import {
  type GenerateRequest,
  GenerationError,
  type GenerationHandle,
  type Runner,
  type RunnerInfo,
  type RunnerStatus,
  type TokenSink,
} from '../runner.ts';
import type { RunnerCrash } from './crash.ts';
import { Quarantine } from './quarantine.ts';
import { RequestScheduler } from './request-scheduler.ts';
import type { RunnerSpec } from './runner-spec.ts';
import { RunnerSupervisor, type RunnerSupervisorOptions, retryAfterSec } from './supervisor.ts';
import type { Failing } from './supervisor-events.ts';

export interface RunnerPoolOptions extends RunnerSupervisorOptions {
  /** Requests that are generating or waiting, cancelled ones included until the runner lets go of them. */
  readonly maxOpenRequests: number;
  /** Prompt tokens of these. */
  readonly maxQueuedTokens: number;
  /** Called for every death that nobody asked for, before the next runner is started. */
  readonly onCrash?: (crash: RunnerCrash) => void;
}

export const MODEL_REPLACED = 'The model was replaced while the request was being prepared; send it again.';

export class RunnerPool implements Runner {
  readonly #options: RunnerPoolOptions;
  readonly #dispatch: RequestScheduler;
  readonly #succession: RunnerSupervisor;
  #stopped: Promise<void> | undefined;
  /** Resolves when no request is open; there while somebody waits for that. */
  #idle: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;

  constructor(options: RunnerPoolOptions) {
    const { clock = systemClock } = options;
    this.#options = options;
    this.#dispatch = new RequestScheduler(new Quarantine(() => clock.now()), {
      onIdle: () => {
        this.#idle?.resolve();
        this.#idle = undefined;
      },
      onProven: () => this.#succession.onProven(),
      onQuarantined: (numPromptIds, numEmitted) => {
        options.log({ level: 'error', event: 'request_quarantined', numPromptIds, numEmitted });
      },
    });
    this.#succession = new RunnerSupervisor(options, {
      onReady: (client, info, isOnTrial) => {
        this.#dispatch.onReady(client, info.modelIdentity, isOnTrial);
      },
      onLetGo: () => this.#dispatch.onLetGo(),
      onReplacing: () => this.#dispatch.takeBack(),
      onLost: () => this.#dispatch.onLost(),
      onDied: (isStrike, crash) => {
        options.onCrash?.({ ...crash, requests: this.#dispatch.inFlight() });
        this.#dispatch.onDied(isStrike);
      },
      onFailed: (failing) => this.#dispatch.failAll(errorOf(failing)),
      isWanted: () => this.#stopped === undefined || this.#dispatch.numOpen > 0,
    });
  }

  /** Starts the first runner. To be called once. */
  start(): void {
    this.#succession.start();
  }

  /**
   * Another runner in place of the one there is, by the plan with this change; open requests go on with it, if it has
   * the same model. Resolves when it is ready, or with the reason why it is not: then one by the plan of before is
   * started again.
   */
  replaceRunner(change: Partial<RunnerSpec>): Promise<string | undefined> {
    return this.#succession.replace(change);
  }

  /** Resolves when no request is open. */
  whenIdle(): Promise<void> {
    if (this.#dispatch.numOpen === 0) return Promise.resolve();
    if (this.#idle === undefined) {
      let resolve = (): void => {};
      const promise = new Promise<void>((settle) => (resolve = settle));
      this.#idle = { promise, resolve };
    }
    return this.#idle.promise;
  }

  /** Ends all open requests; others may come. */
  failOpen(error: GenerationError): void {
    this.#dispatch.failAll(error);
  }

  status(): RunnerStatus {
    const isStopping = this.#stopped !== undefined;
    const { state, reason, pid, restarts, heard } = this.#succession;
    const { loadProgress, info, numFreeBlocks, stats, counters } = heard;
    return {
      state: isStopping ? 'stopping' : state,
      reason: isStopping ? 'The server is stopping.' : reason,
      pid,
      restarts,
      openRequests: this.#dispatch.numOpen,
      openTokens: this.#dispatch.numOpenTokens,
      loadProgress,
      retryAfterSec: isStopping ? retryAfterSec : this.#succession.retryAfterSec,
      info,
      numFreeBlocks,
      stats,
      counters,
    };
  }

  generate(request: GenerateRequest, sink: TokenSink): GenerationHandle {
    this.assertCapacity([request]);
    return this.#dispatch.admit(request, sink);
  }

  /**
   * Refuses new requests, lets the open ones finish for at most drainMs, fails the rest, and ends the runner. Nothing
   * is left afterwards: no process, no timer.
   */
  stop(drainMs: number): Promise<void> {
    this.#stopped ??= this.#drainAndEnd(drainMs);
    return this.#stopped;
  }

  async #drainAndEnd(drainMs: number): Promise<void> {
    this.#succession.stop();
    this.#dispatch.drain();
    this.#options.log({ level: 'info', event: 'runner_draining', openRequests: this.#dispatch.numOpen });
    await settlesWithin(this.whenIdle(), drainMs, this.#options.clock ?? systemClock);
    const message = 'The server stopped before the request was finished.';
    this.failOpen(new GenerationError('INFERENCE_FAILED', message, { retriable: true }));
    await this.#succession.end();
  }

  assertAcceptsRequests(): void {
    this.#requireReady();
    this.#assertCapacityFor(1, 1);
  }

  assertCapacity(requests: readonly GenerateRequest[]): void {
    const info = this.#requireReady();
    if (requests.some(({ modelIdentity }) => modelIdentity !== info.modelIdentity)) {
      throw this.#notReady(MODEL_REPLACED);
    }
    for (const request of requests) this.#dispatch.assertNotQuarantined(request);
    const numTokens = requests.reduce((sum, { promptIds }) => sum + promptIds.length, 0);
    this.#assertCapacityFor(requests.length, numTokens);
  }

  #requireReady(): RunnerInfo {
    const { reason, info } = this.status();
    if (info !== undefined && this.#stopped === undefined && this.#succession.takesRequests) return info;
    throw this.#notReady(reason ?? 'The runner is not ready.');
  }

  #assertCapacityFor(numAnswers: number, numTokens: number): void {
    const { maxOpenRequests, maxQueuedTokens } = this.#options;
    assertCapacityFor('answers', numAnswers, this.#dispatch.numHeld, maxOpenRequests);
    assertCapacityFor('prompt tokens', numTokens, this.#dispatch.numHeldTokens, maxQueuedTokens);
  }

  #notReady(message: string): GenerationError {
    const status = this.status();
    const seconds = status.retryAfterSec ?? (status.state === 'ready' ? retryAfterSec : undefined);
    if (seconds === undefined) return new GenerationError('NOT_READY', message, { retriable: false });
    return new GenerationError('NOT_READY', message, { retriable: true, retryAfterSec: seconds });
  }
}

/** Being held back is told as what it is, so that clients come back when it is over. */
function errorOf({ reason, isRetriable, retryAfterSec: seconds }: Failing): GenerationError {
  if (seconds === undefined)
    return new GenerationError('INFERENCE_FAILED', reason, { retriable: isRetriable });
  return new GenerationError('NOT_READY', reason, { retriable: isRetriable, retryAfterSec: seconds });
}

function assertCapacityFor(what: string, numWanted: number, numHeld: number, limit: number): void {
  if (numHeld + numWanted <= limit) return;
  if (numWanted > limit) {
    const message = `The request asks for ${numWanted} ${what}, and this server holds at most ${limit} at once; ask for fewer.`;
    throw new GenerationError('INVALID_REQUEST', message, { retriable: false });
  }
  const message = `${numHeld} ${what} are held; ${numWanted} more would exceed the limit of ${limit}.`;
  throw new GenerationError('QUEUE_FULL', message, { retriable: true, retryAfterSec });
}
