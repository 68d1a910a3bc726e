/**
 * One of several models: unloaded until somebody asks for it. While it is not loaded its requests wait at its gate. Each time it
 * is loaded it has a service of its own; when that may begin, and when it has to end, is the loader's to say.
 */

import { countersOf, type SchedulerCounters } from '../runner/protocol/scheduler-stats.ts';
import {
  type GenerateRequest,
  GenerationError,
  type Runner,
  type RunnerInfo,
  type RunnerStatus,
} from '../runner/runner.ts';
import type { RunnerEvent } from '../runner/supervision/runner-event.ts';
import { maxFruitlessStarts } from '../runner/supervision/supervisor.ts';
import { type Clock, systemClock } from '../system/clock.ts';
import type { AdmissionGate } from './admission-gate.ts';
import { absent, HOLDING, type LoadPhase, residencyIn, statusIn } from './load-phase.ts';
import type { Resident } from './memory-budget.ts';
import type { Model } from './model.ts';
import type { ModelService } from './model-service.ts';
import type { Residency, ServedModel } from './served-model.ts';

/** After a load that failed, who asks within this time is told why, and later ones have it tried again. */
export const failedLoadRetryMs = 5000;

/** Where a model's memory is, and how much it takes. */
export interface MemoryNeed {
  readonly kind: string;
  readonly bytes: number;
  /** What was there when this was found out; undefined: nobody knows. */
  readonly availableBytes: number | undefined;
}

/** What serves a model as long as it is loaded. */
export type LoadedService = Pick<
  ModelService,
  'model' | 'start' | 'stop' | 'whenIdle' | 'change' | 'switchBackend'
> &
  Runner;

export interface ServiceHooks {
  readonly onServed: (info: RunnerInfo) => void;
  readonly onEvent: (event: RunnerEvent) => void;
}

export interface OnDemandModelOptions {
  readonly names: readonly [string, ...string[]];
  readonly path: string;
  /** As ServedModel has it. */
  readonly created: () => number;
  readonly isPinned: boolean;
  readonly gate: AdmissionGate;
  /** Makes what serves it, not started. */
  readonly serviceOf: (hooks: ServiceHooks) => LoadedService;
  /** What loading it takes, or why it cannot be loaded. Asked before each load. */
  readonly memoryNeed: () => Promise<MemoryNeed | string>;
  /** As ServedModel has it, of a model that is not loaded. */
  readonly readTokenizer: () => Promise<Model>;
  /** It was not even begun to be loaded, for this reason. */
  readonly onRefused?: (reason: string) => void;
  /** The runner that routes get of this one. */
  readonly runnerOf: (model: Runner) => Runner;
  readonly clock?: Clock;
}

/** Who says when a model is loaded. */
export interface LoadQueue {
  enqueue(model: OnDemandModel): void;
  /** A client wants it unloaded. */
  dismiss(model: OnDemandModel): void;
  /** Memory has been given back, or is about to be asked for in another way. */
  onChange(): void;
}

export class OnDemandModel implements ServedModel, Runner {
  readonly isOnDemand = true;
  readonly runner: Runner;
  readonly #options: OnDemandModelOptions;
  readonly #queue: LoadQueue;
  readonly #clock: Clock;
  #phase: LoadPhase = 'unloaded';
  #service: LoadedService | undefined;
  /** Why the last load failed, and when. */
  #failure = { reason: '', atMs: 0 };
  #need: MemoryNeed | undefined;
  /** RunnerInfo.modelIdentity of what its need was found out of. */
  #measured: string | undefined;
  #lastUsedMs: number;
  #numDeadRunners = 0;
  /** Of the services that are no more. */
  #pastCounters = countersOf(() => 0);
  #pastRestarts = 0;
  #unloaded: Promise<void> = Promise.resolve();
  /** Read for its tokenizer alone. */
  #read: Model | undefined;
  #reading: Promise<void> | undefined;

  constructor(options: OnDemandModelOptions, queue: LoadQueue) {
    this.#options = options;
    this.#queue = queue;
    this.#clock = options.clock ?? systemClock;
    this.#lastUsedMs = this.#clock.now();
    this.runner = options.runnerOf(this);
    options.gate.close();
  }

  get name(): string {
    return this.#options.names[0];
  }

  get names(): readonly string[] {
    return this.#options.names;
  }

  get created(): number {
    return this.model?.created ?? this.#options.created();
  }

  get path(): string {
    return this.#options.path;
  }

  get gate(): AdmissionGate {
    return this.#options.gate;
  }

  get isPinned(): boolean {
    return this.#options.isPinned;
  }

  /** While it is loaded. */
  get service(): LoadedService | undefined {
    return this.#service;
  }

  get model(): Model | undefined {
    return this.#service?.model;
  }

  get residency(): Residency {
    const status = this.status();
    return { state: residencyIn(this.#phase, status), progress: status.loadProgress, reason: status.reason };
  }

  /** Undefined while it holds no memory. */
  get resident(): (Resident & { readonly kind: string }) | undefined {
    if (this.#need === undefined || (!HOLDING.includes(this.#phase) && this.#service === undefined))
      return undefined;
    const { kind, bytes } = this.#need;
    return {
      ...{ name: this.name, kind, bytes, lastUsedMs: this.#lastUsedMs, isPinned: this.isPinned },
      isBusy: this.#isBusy,
      isLeaving: this.#phase !== 'loading' && this.#phase !== 'loaded',
    };
  }

  get #isBusy(): boolean {
    if (this.#phase === 'loading') return true;
    return this.gate.numInside > 0 || (this.#service?.status().openRequests ?? 0) > 0;
  }

  want(): void {
    this.#lastUsedMs = this.#clock.now();
    const isWanted =
      this.#phase === 'unloaded' ||
      (this.#phase === 'failed' && this.#service === undefined && this.#retryInMs <= 0);
    if (!isWanted) return;
    this.#phase = 'queued';
    this.gate.close();
    this.#queue.enqueue(this);
  }

  dismiss(): 'leaves' | 'loading' | 'stays' {
    if (this.isPinned) return 'stays';
    if (this.#phase === 'queued' || this.#phase === 'loading') return 'loading';
    this.#queue.dismiss(this);
    return 'leaves';
  }

  get #retryInMs(): number {
    return this.#failure.atMs + failedLoadRetryMs - this.#clock.now();
  }

  memoryNeed(): Promise<MemoryNeed | string> {
    return this.#options.memoryNeed();
  }

  async read(): Promise<Model | undefined> {
    this.#lastUsedMs = this.#clock.now();
    const loaded = this.model ?? this.#read;
    if (loaded !== undefined || this.#phase === 'stopped') return loaded;
    // Those who ask at once have it read once.
    this.#reading ??= this.#readTokenizer().finally(() => (this.#reading = undefined));
    await this.#reading;
    return this.model ?? this.#read;
  }

  async #readTokenizer(): Promise<void> {
    try {
      this.#read = await this.#options.readTokenizer();
      if (this.#phase === 'stopped') this.#forgetTokenizer();
    } catch (error) {
      // It cannot be loaded either.
      if (this.#phase === 'unloaded') this.#refuse(error instanceof Error ? error.message : String(error));
    }
  }

  /** Once it has been looked at: one with requests has been used just now, and a tokenizer that was read alone may go. */
  look(keepAliveMs: number): void {
    const nowMs = this.#clock.now();
    if (this.#isBusy) this.#lastUsedMs = nowMs;
    if (this.model !== undefined || nowMs - this.#lastUsedMs >= keepAliveMs) this.#forgetTokenizer();
  }

  /** Takes its memory from now on. */
  load(need: MemoryNeed): void {
    if (this.#phase !== 'queued') return;
    this.#need = need;
    this.#phase = 'loading';
    this.#numDeadRunners = 0;
    try {
      this.#service = this.#options.serviceOf({
        onServed: (info) => this.#onServed(info),
        onEvent: (event) => this.#onEvent(event),
      });
    } catch (error) {
      // A runner that is not built any more.
      this.#refuse(error instanceof Error ? error.message : String(error));
      return;
    }
    this.#service.start();
  }

  /** It cannot be loaded: who waits is told why. */
  fail(reason: string): void {
    if (this.#phase === 'queued') this.#options.onRefused?.(reason);
    if (this.#phase === 'queued' || this.#phase === 'loading') this.#refuse(reason);
  }

  #refuse(reason: string): void {
    this.#failure = { reason, atMs: this.#clock.now() };
    this.#phase = 'failed';
    this.gate.open();
    void this.#endService().then(() => this.#queue.onChange());
  }

  /**
   * Ends its service when nobody uses it any more; who asks for it meanwhile waits until it is loaded again. False: it is not
   * loaded, or leaves already.
   */
  drain(): boolean {
    const service = this.#service;
    if (this.#phase !== 'loaded' || service === undefined) return false;
    this.#phase = 'draining';
    this.gate.close();
    void this.gate
      .emptied()
      .then(() => service.whenIdle())
      .then(() => this.unload());
    return true;
  }

  /** Of one that nobody uses. False: there is nothing to unload. */
  unload(): boolean {
    if (this.#phase !== 'loaded' && this.#phase !== 'draining') return false;
    this.#phase = 'unloading';
    this.gate.close();
    void this.#endService().then(() => {
      if (this.#phase !== 'unloading') return;
      this.#phase = 'unloaded';
      this.#queue.onChange();
      if (this.gate.numWaiting > 0) this.want();
    });
    return true;
  }

  /** Another runner in place of the one there is, as ModelService.change() has it. */
  async restart(launch: Parameters<ModelService['change']>[1]): Promise<string | undefined> {
    return this.#phase === 'loaded' ? this.#service?.change(this.path, launch) : undefined;
  }

  /** For good: open requests may finish for drainMs at most, and others are refused. */
  async stop(drainMs: number): Promise<void> {
    const service = this.#service;
    this.#phase = 'stopped';
    const stopped = service?.stop(drainMs);
    this.gate.open();
    await stopped;
    await this.#unloaded;
    this.#forgetTokenizer();
  }

  status(): RunnerStatus {
    const status = this.#service?.status() ?? absent;
    const { restarts, counters, loadProgress } = status;
    const sum = {
      ...status,
      // A service counts those who wait at the gate too.
      openRequests: this.#service === undefined ? this.gate.numWaiting : status.openRequests,
      restarts: this.#pastRestarts + restarts,
      counters: countersOf((name) => this.#pastCounters[name] + counters[name]),
    };
    const { reason } = this.#failure;
    return {
      ...sum,
      ...statusIn(this.#phase, { name: this.name, loadProgress, reason, retryInMs: this.#retryInMs }),
    };
  }

  generate(...args: Parameters<Runner['generate']>): ReturnType<Runner['generate']> {
    return this.#requireService().generate(...args);
  }

  assertCapacity(requests: readonly GenerateRequest[]): void {
    this.#requireService().assertCapacity(requests);
  }

  assertAcceptsRequests(): void {
    this.#requireService().assertAcceptsRequests();
  }

  #requireService(): LoadedService {
    const isThere = this.#phase === 'loaded' || this.#phase === 'draining';
    if (isThere && this.#service !== undefined) return this.#service;
    const { reason = 'The runner is not ready.', retryAfterSec: seconds } = this.status();
    throw new GenerationError('NOT_READY', reason, {
      retriable: seconds !== undefined,
      ...(seconds === undefined ? {} : { retryAfterSec: seconds }),
    });
  }

  #onServed(info: RunnerInfo): void {
    // What it really lies on: the CPU may have taken over from a device.
    if (this.#need !== undefined) this.#need = { ...this.#need, kind: info.kind };
    const isAnotherFile = this.#phase === 'loaded' && this.#measured !== info.modelIdentity;
    this.#measured = info.modelIdentity;
    if (isAnotherFile) void this.#measureAgain();
    if (this.#phase !== 'loading') return;
    this.#phase = 'loaded';
    this.#lastUsedMs = this.#clock.now();
    this.#forgetTokenizer();
    this.gate.open();
    // Who waited has to come in before anybody may close the gate again.
    this.#clock.after(0, () => this.#queue.onChange());
  }

  /** A runner was started again and read a file that had been replaced: it may take more than the one before. */
  async #measureAgain(): Promise<void> {
    const need = await this.memoryNeed();
    // A sentence says why it cannot be loaded; it has been.
    if (typeof need === 'string' || this.#need === undefined) return;
    this.#need = { ...need, kind: this.#need.kind };
    this.#queue.onChange();
  }

  #onEvent({ event, reason }: RunnerEvent): void {
    if (this.#phase !== 'loading') return;
    if (event === 'runner_exited') this.#numDeadRunners += 1;
    if (event !== 'model_failed' && this.#numDeadRunners < maxFruitlessStarts) return;
    // The supervisor is in the middle of what it tells of.
    queueMicrotask(() => this.fail(String(reason)));
  }

  #endService(): Promise<void> {
    this.#unloaded = this.#unloaded.then(async () => {
      const service = this.#service;
      if (service === undefined) return;
      await service.stop(0);
      const { counters, restarts } = service.status();
      const past: SchedulerCounters = this.#pastCounters;
      this.#pastCounters = countersOf((name) => past[name] + counters[name]);
      this.#pastRestarts += restarts;
      this.#service = undefined;
    });
    return this.#unloaded;
  }

  #forgetTokenizer(): void {
    this.#read?.chatTemplate?.close();
    this.#read?.tokenizer.close();
    this.#read = undefined;
  }
}
