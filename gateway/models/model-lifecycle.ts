/**
 * A model from its first load to its end. One of several is unloaded until somebody asks for it; while it is not loaded, its
 * requests wait at its gate. Each load makes a service of its own. The loader decides when a load may begin and when the
 * service must end. A model that is alone has the memory for itself: it is loaded at the start and stays.
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
import type { Caller } from '../system/caller.ts';
import { type Clock, systemClock } from '../system/clock.ts';
import type { AdmissionGate } from './admission-gate.ts';
import { absent, HOLDING, type LoadPhase, residencyIn, statusIn } from './load-phase.ts';
import type { Resident } from './memory-budget.ts';
import type { Model } from './model.ts';
import type { ModelService } from './model-service.ts';
import type { Residency, ServedModel } from './served-model.ts';

/** For this long after a failed load, requests are refused with the reason. A later request tries the load again. */
export const failedLoadRetryMs = 5000;

/** On which kind of device a model needs memory, and how much. */
export interface MemoryNeed {
  readonly kind: string;
  readonly bytes: number;
  /** Memory available when the need was determined; undefined: unknown. */
  readonly availableBytes: number | undefined;
}

/** What serves a model while it is loaded. */
export type LoadedService = Pick<
  ModelService,
  'model' | 'start' | 'stop' | 'whenIdle' | 'change' | 'switchBackend'
> &
  Runner;

export interface ServiceHooks {
  readonly onServed: (info: RunnerInfo) => void;
  readonly onEvent: (event: RunnerEvent) => void;
}

export interface ModelLifecycleOptions {
  /** Empty: the file's name is used, once it has been read. */
  readonly names: readonly string[];
  readonly path: string;
  /** As in ServedModel. */
  readonly created: () => number;
  readonly isPinned: boolean;
  /**
   * No other model is served, so this one waits for no memory and is never unloaded. Its supervisor starts runners until one
   * is ready, and until then requests are refused with the reason instead of waiting.
   */
  readonly isAlone: boolean;
  readonly gate: AdmissionGate;
  /** Makes the service without starting it. */
  readonly serviceOf: (hooks: ServiceHooks) => LoadedService;
  /** The memory that a load takes, or a sentence that says why the model cannot be loaded. Called before each load. */
  readonly memoryNeed: () => Promise<MemoryNeed | string>;
  /** Reads the model without a runner, for ServedModel.read(). */
  readonly readTokenizer: () => Promise<Model>;
  /** Called when a load was refused before it began. */
  readonly onRefused?: (reason: string) => void;
  /** Makes the runner for routes from this one. */
  readonly runnerOf: (model: Runner) => Runner;
  readonly clock?: Clock;
}

/** Decides when models are loaded; ModelLoader implements it. */
export interface LoadQueue {
  enqueue(model: ModelLifecycle): void;
  /** A model was dismissed. */
  onDismissed(): void;
  /** Memory has become free, or the need for it has changed. */
  onChange(): void;
}

export class ModelLifecycle implements ServedModel, Runner {
  readonly runner: Runner;
  readonly #options: ModelLifecycleOptions;
  readonly #queue: LoadQueue;
  readonly #clock: Clock;
  #phase: LoadPhase = 'unloaded';
  #service: LoadedService | undefined;
  /** Why the last load failed, and when. */
  #failure = { reason: '', atMs: 0 };
  #need: MemoryNeed | undefined;
  /** RunnerInfo.modelIdentity of the file for which the need was determined. */
  #measured: string | undefined;
  #lastUsedMs: number;
  #isDismissed = false;
  #numDeadRunners = 0;
  /** Counters of the services that have ended. */
  #pastCounters = countersOf(() => 0);
  #pastRestarts = 0;
  #unloaded: Promise<void> = Promise.resolve();
  /** The model as read without a runner, for its tokenizer. */
  #read: Model | undefined;
  #reading: Promise<void> | undefined;

  constructor(options: ModelLifecycleOptions, queue: LoadQueue) {
    this.#options = options;
    this.#queue = queue;
    this.#clock = options.clock ?? systemClock;
    this.#lastUsedMs = this.#clock.now();
    this.runner = options.runnerOf(this);
    if (options.isAlone) this.#make();
    else options.gate.close();
  }

  /** For messages and the log: the first name, or the path where no names were given. */
  get name(): string {
    return this.#options.names[0] ?? this.path;
  }

  get names(): readonly string[] {
    const { names } = this.#options;
    return names.length > 0 || this.model === undefined ? names : [this.model.id];
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

  /** Set while the model is loaded. */
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

  /** How the model uses memory; undefined while it takes none. */
  get resident(): (Resident & { readonly kind: string }) | undefined {
    if (this.#need === undefined || (!HOLDING.includes(this.#phase) && this.#service === undefined))
      return undefined;
    const { kind, bytes } = this.#need;
    return {
      ...{ name: this.name, kind, bytes, lastUsedMs: this.#lastUsedMs, isPinned: this.isPinned },
      isDismissed: this.#isDismissed,
      isBusy: this.#isBusy,
      isLeaving: this.#phase !== 'loading' && this.#phase !== 'loaded',
    };
  }

  /** Whether it waits for memory, or for the measurement of its need. */
  get isQueued(): boolean {
    return this.#phase === 'queued';
  }

  get #isBusy(): boolean {
    if (this.#phase === 'loading') return true;
    return this.gate.numInside > 0 || (this.#service?.status().openRequests ?? 0) > 0;
  }

  /** Starts a model that is loaded at the start. */
  start(): void {
    if (this.#options.isAlone) this.#service?.start();
    else this.want();
  }

  want(): void {
    this.#lastUsedMs = this.#clock.now();
    this.#isDismissed = false;
    const isWanted =
      this.#phase === 'unloaded' ||
      (this.#phase === 'failed' && this.#service === undefined && this.#retryInMs <= 0);
    if (!isWanted) return;
    this.#phase = 'queued';
    this.gate.close();
    this.#queue.enqueue(this);
  }

  dismiss(): boolean {
    if (this.isPinned) return false;
    this.#isDismissed = true;
    this.#queue.onDismissed();
    return true;
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
    // The runners of a model that is alone read it at once, and they must agree with what is read here.
    if (loaded !== undefined || this.#options.isAlone || this.#phase === 'stopped') return loaded;
    // Callers at the same time share one read.
    this.#reading ??= this.#readTokenizer().finally(() => (this.#reading = undefined));
    await this.#reading;
    return this.model ?? this.#read;
  }

  async #readTokenizer(): Promise<void> {
    try {
      this.#read = await this.#options.readTokenizer();
      if (this.#phase === 'stopped') this.#forgetTokenizer();
    } catch (error) {
      // If the tokenizer cannot be read, the model cannot be loaded either.
      if (this.#phase === 'unloaded') this.#refuse(error instanceof Error ? error.message : String(error));
    }
  }

  /** Called at intervals. Marks a busy model as used now, and closes a tokenizer that is no longer needed. */
  look(keepAliveMs: number): void {
    const nowMs = this.#clock.now();
    if (this.#isBusy) this.#lastUsedMs = nowMs;
    if (this.model !== undefined || nowMs - this.#lastUsedMs >= keepAliveMs) this.#forgetTokenizer();
  }

  /** Begins to load the model, which takes its memory from now on. */
  load(need: MemoryNeed): void {
    if (this.#phase !== 'queued') return;
    this.#need = need;
    this.#phase = 'loading';
    this.#numDeadRunners = 0;
    try {
      this.#make();
    } catch (error) {
      // For example, because the runner's binary has been removed.
      this.#refuse(error instanceof Error ? error.message : String(error));
      return;
    }
    this.#service?.start();
  }

  #make(): void {
    this.#service = this.#options.serviceOf({
      onServed: (info) => this.#onServed(info),
      onEvent: (event) => this.#onEvent(event),
    });
    if (this.#options.isAlone) this.#phase = 'loaded';
  }

  /** The model cannot be loaded; waiting requests get the reason. */
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
   * Ends the service once nobody uses it. Requests that come meanwhile wait for the next load. Returns false if the model is
   * not loaded or is being unloaded already.
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

  /** Unloads a model that nobody uses. Returns false if there is nothing to unload. */
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

  /** Serves the model at this path with this launcher instead, as ModelService.change() does, if the model is loaded. */
  async change(...to: Parameters<ModelService['change']>): Promise<string | undefined> {
    return this.#phase === 'loaded' ? this.#service?.change(...to) : undefined;
  }

  /** Stops for good: open requests may finish for at most drainMs, and new ones are refused. */
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
      // The status of a service already counts the requests that wait at the gate.
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

  /** Requests for a model that is not loaded are accepted: they wait at the gate. */
  assertAcceptsRequests(caller?: Caller): void {
    if (this.#loaded === undefined && this.gate.isClosed) return;
    this.#requireService().assertAcceptsRequests(caller);
  }

  /** The service while requests may go to it. */
  get #loaded(): LoadedService | undefined {
    return this.#phase === 'loaded' || this.#phase === 'draining' ? this.#service : undefined;
  }

  #requireService(): LoadedService {
    if (this.#loaded !== undefined) return this.#loaded;
    const { reason = 'The runner is not ready.', retryAfterSec: seconds } = this.status();
    throw new GenerationError('NOT_READY', reason, {
      retriable: seconds !== undefined,
      ...(seconds === undefined ? {} : { retryAfterSec: seconds }),
    });
  }

  #onServed(info: RunnerInfo): void {
    // The device may differ from the planned one: the CPU may have taken over.
    if (this.#need !== undefined) this.#need = { ...this.#need, kind: info.kind };
    const isAnotherFile = this.#phase === 'loaded' && this.#measured !== info.modelIdentity;
    this.#measured = info.modelIdentity;
    if (isAnotherFile) void this.#measureAgain();
    if (this.#phase !== 'loading') return;
    this.#phase = 'loaded';
    this.#lastUsedMs = this.#clock.now();
    this.#forgetTokenizer();
    this.gate.open();
    // Requests that waited must come in before anybody may close the gate again.
    this.#clock.after(0, () => this.#queue.onChange());
  }

  /** A restarted runner has read a file that was replaced meanwhile, which may take more memory. */
  async #measureAgain(): Promise<void> {
    const need = await this.memoryNeed();
    // A sentence says why the model cannot be loaded. It is loaded, so the old need is kept.
    if (typeof need === 'string' || this.#need === undefined) return;
    this.#need = { ...need, kind: this.#need.kind };
    this.#queue.onChange();
  }

  #onEvent({ event, reason }: RunnerEvent): void {
    if (this.#phase !== 'loading') return;
    if (event === 'runner_exited') this.#numDeadRunners += 1;
    if (event !== 'model_failed' && this.#numDeadRunners < maxFruitlessStarts) return;
    // The supervisor is still handling this event, so the failure comes after it.
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
