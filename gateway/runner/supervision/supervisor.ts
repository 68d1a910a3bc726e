import { asError, isShortage } from '../../errors/thrown.ts';
import { type Clock, systemClock, type Timer } from '../../system/clock.ts';
import { type RunnerCommand, readOomKills, type Spawn, spawnRunner } from '../process/process.ts';
import type { RunnerClient } from '../protocol/client.ts';
import type { Ready } from '../protocol/from-runner.ts';
import type { SchedulerStats } from '../protocol/scheduler-stats.ts';
import type { RunnerInfo } from '../runner.ts';
import {
  type Death,
  type ExitPolicy,
  exitPolicy,
  type LoadFacts,
  loadFacts,
  type RunnerCrash,
} from './exit-policy.ts';
import { watchFiles } from './file-watch.ts';
import type { KeptCache } from './kept-cache.ts';
import { LoadLog, PlaceStatus } from './place-status.ts';
import { Replacement } from './replacement.ts';
import { Backoff, type NextStart, Restarts } from './restarts.ts';
import type { RunnerEvent, RunnerEventName } from './runner-event.ts';
import type { RunnerSpec } from './runner-spec.ts';
import { defaultSessionLimits, RunnerSession, type SessionLimits } from './session.ts';
import type { SharedWeights, WeightsLease } from './shared-weights.ts';
import { StepTimes } from './watchdog.ts';

/** Retry-After in seconds while the next runner starts. */
export const retryAfterSec = 1;

/** Why a server that stops takes no requests. */
export const STOPPING = 'The server is stopping.';

/** The error with which RunnerSpec.prepare() rejects. */
interface UnusableFile extends Error {
  /** The exit status of a runner that refuses the file for the same reason. */
  readonly exitCode?: number;
}

interface FailureFacts extends LoadFacts {
  readonly exitCode?: number | undefined;
}

/** The options include the spec of the first runner. replace() changes the spec later. */
export interface RunnerSupervisorOptions extends RunnerSpec {
  readonly log: (event: RunnerEvent) => void;
  readonly limits?: Partial<SessionLimits>;
  readonly modelPollMs?: number;
  /** Stands in for the real world in tests; so do the three options below. */
  readonly backoff?: Backoff;
  readonly clock?: Clock;
  readonly spawn?: Spawn;
  readonly oomKills?: () => number | undefined;
}

export interface Failing {
  readonly reason: string;
  readonly isRetriable: boolean;
  /** Seconds until the next runner starts. Undefined: none does until something changes. */
  readonly retryAfterSec?: number;
}
export interface SupervisorEvents {
  /** The runner takes requests. isOnProbation: it may compute only one request until onProven() is called. */
  onReady(client: RunnerClient, info: RunnerInfo, isOnProbation: boolean): void;
  onReleased(): void;
  onStats(stats: SchedulerStats): void;
  /** The runner is about to be ended at the end of its step, to make room for its replacement. */
  onReplacing(): void;
  /** The runner accepts no more frames. Called once or twice for each runner. */
  onLost(): void;
  /**
   * Called before the supervisor reacts to the death. areSuspects: what the runner computed may be the cause. ending: set if
   * no runner of the same spec may take its requests, with the reason.
   */
  onDied(areSuspects: boolean, crash: Omit<RunnerCrash, 'requests'>, ending: Failing | undefined): void;
  /** No runner comes, or none soon. */
  onFailed(failing: Failing): void;
  /** Whether the pool still needs a runner here; false only while the server stops and nothing is left to compute. */
  isWanted(): boolean;
}

/**
 * Starts one runner after another in one place of a pool: restarts it after a death, delays or stops a crash loop, and
 * replaces it on request.
 */
export class RunnerSupervisor {
  readonly status = new PlaceStatus();
  readonly #options: RunnerSupervisorOptions;
  readonly #events: SupervisorEvents;
  readonly #weights: SharedWeights;
  readonly #cache: KeptCache;
  readonly #clock: Clock;
  readonly #restarts: Restarts;
  #stepTimes = new StepTimes();
  #session: RunnerSession | undefined;
  /** When the runner gave the first sign of its end. */
  #lostAt: number | undefined;
  /** Identity of the model files when the current start began. watchFiles() waits until it changes. */
  #modelBefore = Promise.resolve('');
  #numStarts = 0;
  /** Set by the first crash and never reset: each later runner answers the canary before it gets requests. */
  #needsCanary = false;
  #startTimer: Timer | undefined;
  #watch: Timer | undefined;
  #isStopping = false;
  #isPreparing = false;
  #spec: RunnerSpec;
  /**
   * The replacement under way. It ends when a runner of the new spec is ready, or has failed and the old spec is followed
   * again.
   */
  #replacement: Replacement | undefined;

  /**
   * weights: those of all runners of the pool.
   * cache: the memory of this place for the KV caches of its runners.
   */
  constructor(
    options: RunnerSupervisorOptions,
    events: SupervisorEvents,
    weights: SharedWeights,
    cache: KeptCache,
  ) {
    this.#options = options;
    this.#weights = weights;
    this.#cache = cache;
    this.#spec = options;
    this.#events = events;
    this.#clock = options.clock ?? systemClock;
    const now = () => this.#clock.now();
    this.#restarts = new Restarts(now, options.backoff ?? new Backoff(now, Math.random));
  }

  get pid(): number | undefined {
    return this.#session?.pid;
  }

  get restarts(): number {
    return Math.max(0, this.#numStarts - 1);
  }

  /** Seconds until a retry is worthwhile. Undefined in the state ready, and when no runner will come. */
  get retryAfterSec(): number | undefined {
    const { heldBackMs } = this.#restarts;
    if (heldBackMs !== undefined) return secondsUntil(heldBackMs);
    return this.status.isStarting || this.#watch !== undefined ? retryAfterSec : undefined;
  }

  start(): void {
    const spec = this.#spec;
    this.#watch?.cancel();
    this.#watch = undefined;
    // The identity is taken before anybody opens the file, so a change from now on leads to another attempt.
    const before = spec.modelIdentity();
    this.#modelBefore = before;
    // The preparation below fails with it. It may reject before prepare() settles, when nobody waits for it yet.
    before.catch(() => {});
    // The identity must be known before a failure is reported: somebody who hears of the failure may mend the file at once.
    const prepared = spec.prepare?.().finally(() => before) ?? Promise.resolve(undefined);
    this.#isPreparing = true;
    prepared.then(
      (instead) => this.#onPrepared(spec, instead),
      (error: unknown) => this.#onPrepared(spec, asError(error)),
    );
  }

  /** outcome: why the file cannot be used, or the spec to follow instead. */
  #onPrepared(spec: RunnerSpec, outcome: UnusableFile | RunnerSpec | undefined): void {
    this.#isPreparing = false;
    // The spec was replaced meanwhile, and the new one may be of another model file.
    if (spec !== this.#spec) this.start();
    else if (outcome === undefined) this.#spawn();
    else if (!(outcome instanceof Error)) this.#startBy(outcome);
    else if (this.#replacement !== undefined) this.#goBack(this.#replacement, outcome.message);
    else if (isShortage(outcome)) this.#tryAgain(`The model cannot be read now: ${outcome.message}`);
    else this.#waitForFile(outcome.message, { exitCode: outcome.exitCode });
  }

  #startBy(spec: RunnerSpec): void {
    this.#follow(spec);
    this.start();
  }

  /** Replaces the runner (see RunnerPool.replaceRunner()). The old runner ends first, because memory need not hold two. */
  replace(change: Partial<RunnerSpec>): Promise<string | undefined> {
    if (this.#isStopping) return Promise.resolve(STOPPING);
    this.#log('info', 'runner_replacing', { pid: this.pid });
    // If several replacements overlap, the last one counts. A failure goes back to the spec before the first, which is known
    // to run.
    this.#replacement ??= new Replacement(this.#spec);
    const { settled } = this.#replacement;
    this.#follow({ ...this.#spec, ...change });
    if (this.#session !== undefined) this.#endForReplacement(this.#session, this.#replacement);
    else if (!this.#isPreparing) {
      this.#startTimer?.cancel();
      if (this.status.state === 'failed') this.status.refuseUntilReady();
      this.start();
    }
    return settled;
  }

  /** Changes the spec. Step times of the old spec's runners say nothing about the new spec's. */
  #follow(spec: RunnerSpec): void {
    this.#spec = spec;
    this.#stepTimes = new StepTimes();
    this.#restarts.forget();
  }

  #endForReplacement(session: RunnerSession, replacement: Replacement): void {
    if (replacement.isEnding) return;
    replacement.isEnding = true;
    this.status.recover('The runner is being replaced.');
    this.#events.onReplacing();
    void session.end();
  }

  #settleReplacement(failure: string | undefined): void {
    this.#replacement?.settle(failure);
    this.#replacement = undefined;
  }

  /** The runner reads nothing more from the KV cache that it knows by this descriptor. */
  releaseKv(descriptor: number): void {
    this.#session?.client.releaseKv(descriptor);
  }

  onProven(): void {
    this.#restarts.closeBreaker();
    this.#log('info', 'breaker_closed', {});
  }

  /** From now on a next runner is started only while requests are open. */
  stop(): void {
    this.#isStopping = true;
    this.#settleReplacement(STOPPING);
    this.#watch?.cancel();
  }

  /** Ends the runner. Settles when no process and no timer is left. */
  async end(): Promise<void> {
    this.#startTimer?.cancel();
    await this.#session?.end();
  }

  #spawn(): void {
    if (!this.#events.isWanted()) return;
    const { limits, spawn = spawnRunner, oomKills = readOomKills } = this.#options;
    const spec = this.#spec;
    const command = spec.command();
    const again = () => this.#spawn();
    const wait = this.#cache.wait(command, again) ?? this.#weights.wait(command, again);
    if (wait !== undefined) {
      this.#startTimer = wait;
      return;
    }
    const lease = this.#weights.lend(command);
    this.#lostAt = undefined;
    this.status.hello = undefined;
    const loadLog = new LoadLog((percent) => this.#log('info', 'model_load_progress', { percent }));
    const support = {
      spawn,
      oomKills,
      clock: this.#clock,
      stepTimes: this.#stepTimes,
      limits: { ...defaultSessionLimits, ...limits },
      contextLength: () => spec.contextLength?.(),
    };
    const used = this.#cache.passTo(lease.command);
    const session = new RunnerSession(used, this.#needsCanary, support, {
      onNotice: (notice) => {
        this.status.onNotice(notice);
        if (notice.type === 'stats') this.#events.onStats(notice);
        // All bytes are loaded before the runner is ready, so onReady reports the last step.
        const { loadProgress = 1 } = this.status;
        if (loadProgress < 1) loadLog.reached(loadProgress);
      },
      onReady: (ready) => {
        loadLog.reached(1);
        this.#weights.onReady(lease, session.pid, ready.weightsDescriptor);
        this.#onReady(session, spec, ready, lease);
      },
      onReleased: () => this.#events.onReleased(),
      onLost: () => this.#onLost(),
      onDied: (death) => {
        this.#weights.onDied(lease, death);
        this.#onDied(session, used, death);
      },
      onStderrLine: (line) => this.#log('info', 'runner_stderr', { pid: session.pid, line }),
      onInternalError: (err) => this.#log('error', 'internal_error', { pid: session.pid, err }),
    });
    this.#session = session;
    if (session.pid === undefined) return;
    this.#numStarts += 1;
    this.#restarts.onProcess();
    this.#log('info', 'model_load_start', { pid: session.pid, start: this.#numStarts });
    loadLog.reached(0);
  }

  #onReady(session: RunnerSession, spec: RunnerSpec, ready: Ready, { source }: WeightsLease): void {
    // The runner was told to end while it loaded; this Ready was written before.
    if (this.#replacement?.isEnding) return;
    const before = this.status.info;
    const info = this.status.onReady(ready);
    this.#settleReplacement(undefined);
    this.#restarts.onReady();
    this.#log('info', 'model_load_complete', {
      pid: session.pid,
      msg: `Model loaded to ${info.kind.toUpperCase()} memory`,
      memory_bytes: info.weightsBytes + info.kvCacheBytes,
      weights: info.sharedWeightsBytes === 0 ? 'private' : source,
      ...info,
    });
    if (before !== undefined && before.numericsId !== info.numericsId) {
      this.#log('warn', 'numerics_changed', { from: before.numericsId, to: info.numericsId });
    }
    this.#events.onReady(session.client, info, this.#restarts.isOnProbation);
    spec.onReady?.(info);
  }

  #onLost(): void {
    this.#lostAt ??= this.#clock.now();
    this.#events.onLost();
    this.status.onLost();
  }

  #onDied(session: RunnerSession, command: RunnerCommand, death: Death): void {
    this.#onLost();
    this.#session = undefined;
    const isPlanned = this.#replacement?.isEnding ?? false;
    this.#cache.onDied(death, this.#clock.now() - (this.#lostAt ?? 0), isPlanned);
    const policy = exitPolicy(death);
    const isWanted = this.#events.isWanted();
    const level = isWanted && !isPlanned ? (policy.action === 'restart' ? 'warn' : 'error') : 'info';
    this.#log(level, 'runner_exited', {
      pid: session.pid,
      ...death.exit,
      ...loadFacts(death),
      ...(isWanted && !isPlanned ? { reason: policy.reason, stderrTail: session.stderrTail } : {}),
    });
    if (!isWanted) return;
    if (this.#replacement !== undefined && isPlanned) {
      this.#replacement.isEnding = false;
      this.start();
      return;
    }
    const crash = {
      pid: session.pid,
      start: this.#numStarts,
      command,
      death,
      message: policy.reason,
      build: this.status.hello?.build,
      numericsId: session.client.numericsId || this.status.hello?.numericsId,
      modelIdentity: this.status.info?.modelIdentity,
    };
    const isStarted = death.exit.spawnError === undefined;
    // A row of failed starts is reported once, so that it does not push the reports of crashes out.
    if (isStarted || !this.#restarts.hasNoProcess)
      this.#events.onDied(policy.countsForRequests, crash, endingOf(policy));
    if (policy.isOfDevice && this.#fallBack(policy, death)) return;
    if (this.#replacement !== undefined && (!policy.isTriedAgain || this.#restarts.isLastTry))
      this.#goBack(this.#replacement, policy.reason);
    else if (!isStarted) this.#tryAgain(policy.reason);
    else if (policy.action === 'restart') this.#restart(policy, death);
    else {
      const facts = { exitCode: death.exit.code, ...loadFacts(death) };
      if (policy.action === 'wait_for_file') this.#waitForFile(policy.reason, facts);
      else this.#fail({ reason: policy.reason, isRetriable: false }, facts);
    }
  }

  /** Follows the spec's fallback, if it has one. Returns whether it does. */
  #fallBack({ reason, crash }: ExitPolicy, death: Death): boolean {
    const next = this.#spec.fallback?.({ reason, death });
    if (next === undefined) return false;
    this.status.reason = reason;
    if (crash !== undefined) this.#needsCanary = true;
    this.#startBy(next);
    return true;
  }

  /** The new spec's runner was never ready, so the supervisor starts one of the old spec again. */
  #goBack({ before }: Replacement, failure: string): void {
    this.#log('error', 'runner_replacement_failed', { reason: failure });
    this.status.reason = failure;
    this.#spec = before;
    this.#settleReplacement(failure);
    this.start();
  }

  #restart(policy: ExitPolicy, death: Death): void {
    const { crash, reason } = policy;
    this.status.reason = reason;
    if (crash !== undefined) this.#needsCanary = true;
    const next = this.#restarts.afterDeath(policy, death.readyForMs);
    if (next !== undefined) this.#startAfter(next, reason);
    else if (!this.#fallBack(policy, death)) this.#holdBack(reason);
  }

  #tryAgain(reason: string): void {
    this.status.reason = reason;
    this.#startAfter(this.#restarts.afterNoProcess(), reason);
  }

  /** reason: why the last start or runner failed. */
  #startAfter({ delayMs, isHopeless }: NextStart, reason: string): void {
    if (isHopeless) {
      this.status.refuseUntilReady();
      this.#events.onFailed({ reason, isRetriable: true, retryAfterSec: secondsUntil(delayMs) });
    }
    this.#log('info', 'runner_restarting', { delayMs, reason });
    this.#startTimer = this.#clock.after(delayMs, () => this.start());
  }

  /** After too many crashes, starts no runner for a while, then one on probation. */
  #holdBack(reason: string): void {
    const { heldBackMs: trialInMs = 0 } = this.#restarts;
    const seconds = Math.ceil(trialInMs / 1000);
    this.#fail({
      reason: `The runner crashed too often; the next one starts after a pause of ${seconds} s. Last crash: ${reason}`,
      isRetriable: true,
      retryAfterSec: seconds,
    });
    this.#log('error', 'breaker_opened', { trialInMs });
    if (this.#isStopping) return;
    this.#startTimer = this.#clock.after(trialInMs, () => {
      this.#restarts.beginProbation();
      this.status.refuseUntilReady();
      this.status.reason = 'The runner crashed too often; a new one is starting on trial.';
      this.start();
    });
  }

  /**
   * Starts no runner until the model file changes. Open requests fail: a changed file is another model, which cannot go on
   * with them.
   */
  #waitForFile(reason: string, facts: FailureFacts): void {
    this.#fail({ reason, isRetriable: true }, facts);
    if (this.#isStopping) return;
    const { modelPath, modelIdentity } = this.#spec;
    const { modelPollMs = 1000 } = this.#options;
    const onChange = () => {
      this.status.refuseUntilReady();
      this.status.reason = 'The model file has changed; it is being loaded.';
      this.#restarts.closeBreaker();
      this.#log('info', 'model_file_changed', { modelPath });
      this.start();
    };
    this.#watch = watchFiles(modelIdentity, this.#modelBefore, modelPollMs, onChange, this.#clock);
  }

  #fail(failing: Failing, { exitCode, ...facts }: FailureFacts = {}): void {
    const { reason, isRetriable } = failing;
    this.status.state = 'failed';
    this.status.reason = reason;
    this.#weights.closeUnlessUsed();
    this.#log('error', 'model_failed', {
      reason,
      isRetriable,
      ...(exitCode === undefined ? {} : { exitCode }),
      ...facts,
    });
    this.#events.onFailed(failing);
  }

  #log(level: RunnerEvent['level'], event: RunnerEventName, fields: Record<string, unknown>): void {
    this.#options.log({ level, event, ...fields });
  }
}

/** The error for requests that the dead runner had, if no other runner of this spec may take them; undefined: another one may. */
function endingOf({ action, reason }: ExitPolicy): Failing | undefined {
  return action === 'restart' ? undefined : { reason, isRetriable: action === 'wait_for_file' };
}

/** When clients come again whose runner starts after this delay. */
function secondsUntil(delayMs: number): number {
  return Math.max(retryAfterSec, Math.ceil(delayMs / 1000));
}
