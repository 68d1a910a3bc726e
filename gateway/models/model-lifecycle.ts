/**
 * A model from its first load to its end: unloaded → loading → serving ⇄ replacing → leaving (model-phase.ts). One of several
 * is unloaded until somebody asks for it; while it is not loaded, its requests wait at its gate. The loader decides when a load
 * may begin and when the model must leave. A model that is alone has the memory for itself: it is loaded at the start and stays.
 */

import { messageOf } from '../errors/thrown.ts';
import {
  type GenerateRequest,
  GenerationError,
  type Runner,
  type RunnerInfo,
  type RunnerStatus,
} from '../runner/runner.ts';
import { maxFruitlessStarts } from '../runner/supervision/restarts.ts';
import type { RunnerEvent } from '../runner/supervision/runner-event.ts';
import { MODEL_REPLACED } from '../runner/supervision/runner-pool.ts';
import type { CacheSize } from '../runner/supervision/runner-spec.ts';
import { retryAfterSec, STOPPING } from '../runner/supervision/supervisor.ts';
import type { Caller } from '../system/caller.ts';
import { type Clock, systemClock } from '../system/clock.ts';
import type { AdmissionGate } from './admission-gate.ts';
import { type Deployment, type Loaded, Loads } from './loaded-model.ts';
import type { Resident } from './memory-budget.ts';
import { type Model, modelIdOf } from './model.ts';
import {
  type LoadState,
  loadStateOf,
  type ModelPhase,
  phaseFacts,
  statusIn,
  statusWhileReplacing,
} from './model-phase.ts';
import { ModelReplacement } from './model-replacement.ts';
import { type ModelFiles, ModelSlot } from './model-slot.ts';

/** For this long after a failed load, requests are refused with the reason. A later request tries the load again. */
export const failedLoadRetryMs = 5000;

/** On which kind of device a model needs memory, and how much. */
export interface MemoryNeed {
  readonly kind: string;
  readonly bytes: number;
  /** Memory available when the need was determined; undefined: unknown. */
  readonly availableBytes: number | undefined;
  /** The KV cache of each runner, which is part of the need. */
  readonly cache?: CacheSize | undefined;
}

/** A model that takes memory, for its loader. */
export interface LoadedResident extends Resident {
  readonly kind: string;
  /** lastUsedMs without uses in the background. */
  readonly lastUrgentMs: number;
  readonly servesSinceMs: number;
}

export interface LoadedHooks {
  readonly onServed: (info: RunnerInfo) => void;
  readonly onEvent: (event: RunnerEvent) => void;
  /** The KV cache that was planned; undefined: the runner decides. */
  readonly cache: CacheSize | undefined;
}

/** What a model that shares the memory with others is loaded by. */
export interface SharedMemory {
  readonly loader: Loader;
  /** The memory that a load takes, or a sentence that says why the model cannot be loaded. Called before each load. */
  readonly memoryNeed: () => Promise<MemoryNeed | string>;
  /** Called when a load was refused before it began. */
  readonly onRefused?: (reason: string) => void;
}

export interface ModelLifecycleOptions {
  /** Empty: the file's name is used, once it has been read. */
  readonly names: readonly string[];
  readonly path: string;
  /** Modification time of the file in seconds since 1970. */
  readonly created: () => number;
  readonly isPinned: boolean;
  /** How files are read; by default from the disk. */
  readonly files?: ModelFiles;
  /**
   * Undefined if it is the only model: it then waits for no memory. Its supervisor starts runners until one is ready, and until
   * then requests are refused with the reason instead of waiting.
   */
  readonly shared: SharedMemory | undefined;
  readonly gate: AdmissionGate;
  /** Makes what serves the model of this slot, without starting it. */
  readonly loadedOf: (slot: ModelSlot, hooks: LoadedHooks) => Loaded;
  /** Time that open requests get to finish before the model is replaced. */
  readonly drainMs: number;
  readonly log: (event: RunnerEvent) => void;
  /** Makes the runner for routes from this one. */
  readonly runnerOf: (model: Runner) => Runner;
  readonly clock?: Clock;
}

/** What a model needs of the ModelLoader, which needs the model. */
interface Loader {
  /** Loads the model when its memory is free. need: the memory that it takes, or why it cannot be loaded. */
  enqueue(model: ModelLifecycle, need: Promise<MemoryNeed | string>): Promise<void>;
  /** Unloads what nobody uses and shall be unloaded. */
  unloadUnused(): void;
  /** Memory has become free, or the need for it has changed. */
  onChange(): void;
}

export class ModelLifecycle implements Runner {
  /** The runner for routes. While no runner process exists, its status says why. */
  readonly runner: Runner;
  readonly path: string;
  /** Where requests wait until the model takes them. */
  readonly gate: AdmissionGate;
  /** Whether it is loaded at the start and never unloaded. A single model is. */
  readonly isPinned: boolean;
  readonly #options: ModelLifecycleOptions;
  readonly #shared: SharedMemory | undefined;
  readonly #clock: Clock;
  #phase: ModelPhase = 'unloaded';
  /** What the model is read into, with a runner or without. */
  readonly #slot: ModelSlot;
  readonly #loads = new Loads();
  #replacement: ModelReplacement | undefined;
  /** Settles when the last file that a change asked for has been read. */
  #looked: Promise<unknown> = Promise.resolve();
  #failure = { reason: '', atMs: 0 };
  #need: MemoryNeed | undefined;
  /** RunnerInfo.modelIdentity of the file for which the need was determined. */
  #measured: string | undefined;
  #lastUsedMs: number;
  /** The same, leaving out what is in the background. */
  #lastUrgentMs = Number.NEGATIVE_INFINITY;
  #isUnloadRequested = false;
  /** Since its last load, by the clock; infinite while that goes on. */
  #servesSinceMs = Number.POSITIVE_INFINITY;
  #numDeadRunners = 0;

  constructor(options: ModelLifecycleOptions) {
    this.#options = options;
    this.path = options.path;
    this.gate = options.gate;
    this.isPinned = options.isPinned;
    this.#shared = options.shared;
    this.#slot = new ModelSlot(options.path, options.files);
    this.#clock = options.clock ?? systemClock;
    this.#lastUsedMs = this.#clock.now();
    this.runner = options.runnerOf(this);
    if (this.#shared === undefined) this.#make();
    else this.gate.close();
  }

  /** For messages and the log: the first name, or the path where no names were given. */
  get name(): string {
    return this.#options.names[0] ?? this.path;
  }

  /** Names for clients; empty while unknown. Answers of the native API use the file's name instead. */
  get names(): readonly string[] {
    const { names } = this.#options;
    return names.length > 0 || this.model === undefined ? names : [this.model.id];
  }

  /** Modification time of the file in seconds since 1970; 0 while unknown. */
  get created(): number {
    return this.model?.created ?? this.#options.created();
  }

  get model(): Model | undefined {
    return this.#loads.current?.model;
  }

  get loadState(): LoadState {
    const status = this.status();
    const state = phaseFacts[this.#phase].loadState ?? loadStateOf(status);
    return { state, progress: status.loadProgress, reason: status.reason };
  }

  /** How the model uses memory; undefined while it takes none. */
  get resident(): LoadedResident | undefined {
    const { holdsMemory = this.#loads.current !== undefined } = phaseFacts[this.#phase];
    if (this.#need === undefined || !holdsMemory) return undefined;
    const { kind, bytes } = this.#need;
    return {
      ...{ name: this.name, kind, bytes, lastUsedMs: this.#lastUsedMs, isPinned: this.isPinned },
      isUnloadRequested: this.#isUnloadRequested,
      isBusy: this.#isBusy,
      isYielding: this.#isYielding,
      lastUrgentMs: this.#lastUrgentMs,
      servesSinceMs: this.#servesSinceMs,
      isLeaving: this.#phase !== 'loading' && this.#phase !== 'serving' && this.#phase !== 'replacing',
    };
  }

  /** Whether it waits for memory, or for the measurement of its need. */
  get isQueued(): boolean {
    return this.#phase === 'queued';
  }

  get #isBusy(): boolean {
    return this.#phase === 'loading' || this.#phase === 'replacing' || this.#numUsers > 0;
  }

  get #isYielding(): boolean {
    const isServing = this.#phase === 'serving' || this.#phase === 'leaving';
    const { numInsideInBackground } = this.gate;
    const { numOpenInBackground = 0 } = this.#loads.current?.pool ?? {};
    return isServing && this.#numUsers > 0 && this.#numUsers === numInsideInBackground + numOpenInBackground;
  }

  /** Requests that are being prepared, or are with the runners. */
  get #numUsers(): number {
    return this.gate.numInside + (this.#loads.current?.status().openRequests ?? 0);
  }

  /** Whether it takes no more requests, and is unloaded when those that it has are done. */
  get isLeaving(): boolean {
    return this.#phase === 'leaving' || this.#phase === 'unloading';
  }

  async whenUnused(loaded = this.#loads.current): Promise<void> {
    await this.gate.emptied();
    await loaded?.pool.whenIdle();
  }

  start(): void {
    if (this.#shared === undefined) this.#loads.current?.pool.start();
    else this.requestLoad();
  }

  /**
   * Starts to load the model if it is not loaded. Requests that enter the gate then wait for it. isUrgent: for a request that is not
   * in the background.
   */
  requestLoad(isUrgent = true): void {
    this.#onUse(isUrgent);
    this.#isUnloadRequested = false;
    // The request is at the gate then, as the first urgent one.
    if (isUrgent && this.#phase === 'queued' && !this.gate.isUrgent)
      queueMicrotask(() => this.#shared?.loader.onChange());
    const isWanted =
      this.#phase === 'unloaded' ||
      (this.#phase === 'failed' && this.#loads.current === undefined && this.#retryInMs <= 0);
    if (!isWanted) return;
    this.#phase = 'queued';
    this.gate.close();
    void this.#shared?.loader.enqueue(this, this.#shared.memoryNeed());
  }

  #onUse(isUrgent: boolean): void {
    this.#lastUsedMs = this.#clock.now();
    if (isUrgent) this.#lastUrgentMs = this.#lastUsedMs;
  }

  /**
   * Has the model unloaded once nobody uses it and nobody waits for it. It keeps taking requests, and stays if one comes before
   * that. Returns false if it is pinned, and so stays.
   */
  requestUnload(): boolean {
    if (this.isPinned) return false;
    this.#isUnloadRequested = true;
    this.#shared?.loader.unloadUnused();
    return true;
  }

  get #retryInMs(): number {
    return this.#failure.atMs + failedLoadRetryMs - this.#clock.now();
  }

  /** The model with its tokenizer, read without a runner; undefined if it cannot be read, or only together with its runner. */
  async read(): Promise<Model | undefined> {
    this.#onUse(true);
    // The runners of a model that is alone read it at once, and they must agree with what is read.
    const waitsForRunner = this.#shared === undefined || this.#phase === 'stopped';
    if (this.model !== undefined || waitsForRunner) return this.model;
    try {
      await this.#slot.refresh();
      return this.model ?? this.#slot.current;
    } catch (error) {
      // If the tokenizer cannot be read, the model cannot be loaded either.
      if (this.#phase === 'unloaded') this.#refuse(messageOf(error));
      return this.model;
    }
  }

  /** Called at intervals. Marks a busy model as used now, and closes what was read without a runner and is no longer used. */
  look(keepAliveMs: number): void {
    const nowMs = this.#clock.now();
    const isUrgent = this.#phase === 'loading' ? this.gate.isUrgent : !this.#isYielding;
    if (this.#isBusy) this.#onUse(isUrgent);
    if (this.#loads.current === undefined && nowMs - this.#lastUsedMs >= keepAliveMs) this.#slot.close();
  }

  /** Begins to load the model, which takes its memory from now on. */
  load(need: MemoryNeed): void {
    if (this.#phase !== 'queued') return;
    this.#need = need;
    this.#phase = 'loading';
    this.#servesSinceMs = Number.POSITIVE_INFINITY;
    this.#numDeadRunners = 0;
    try {
      this.#make();
    } catch (error) {
      // For example, because the runner's binary has been removed.
      this.#refuse(messageOf(error));
      return;
    }
    this.#loads.current?.pool.start();
  }

  #make(): void {
    const loaded = this.#options.loadedOf(this.#slot, {
      onServed: (info) => this.#onServed(info),
      onEvent: (event) => this.#onEvent(event),
      cache: this.#need?.cache,
    });
    this.#loads.begin(loaded);
    if (this.#shared === undefined) this.#phase = 'serving';
  }

  /** The model cannot be loaded; waiting requests get the reason. */
  fail(reason: string): void {
    if (this.#phase === 'queued') this.#shared?.onRefused?.(reason);
    if (this.#phase === 'queued' || this.#phase === 'loading') this.#refuse(reason);
  }

  #refuse(reason: string): void {
    this.#failure = { reason, atMs: this.#clock.now() };
    this.#phase = 'failed';
    this.gate.open();
    void this.#loads.end().then(() => this.#shared?.loader.onChange());
  }

  /**
   * Unloads the model once nobody uses it. Requests that come meanwhile wait for the next load. Returns false if the model is
   * not loaded or is being unloaded already.
   */
  drain(): boolean {
    const loaded = this.#loads.current;
    if (this.#phase !== 'serving' || loaded === undefined) return false;
    this.#phase = 'leaving';
    this.gate.close();
    void this.whenUnused(loaded).then(() => this.unload());
    return true;
  }

  /** Unloads a model that nobody uses. Returns false if there is nothing to unload. */
  unload(): boolean {
    if (this.#phase !== 'serving' && this.#phase !== 'leaving') return false;
    this.#phase = 'unloading';
    this.gate.close();
    void this.#loads.end().then(() => {
      if (this.#phase !== 'unloading') return;
      this.#phase = 'unloaded';
      this.#shared?.loader.onChange();
      if (this.gate.numWaiting > 0) this.requestLoad(this.gate.isUrgent);
    });
    return true;
  }

  /**
   * Serves the model at this path with this launcher instead, if the model is loaded. Resolves with undefined when it is served,
   * or with the reason why it cannot be; the model before is then served on or again. Of several changes at once the last one
   * counts, and all callers get its outcome.
   */
  async change(path: string, launch: Deployment['launch']): Promise<string | undefined> {
    const loaded = this.#replaceable;
    if (loaded === undefined) return this.#phase === 'stopped' ? STOPPING : undefined;
    const looked = this.#looked.then(() => loaded.slotOf(path, this.#replacement?.slot));
    this.#looked = looked.catch(() => {});
    try {
      return await this.#changeTo(loaded, { slot: await looked, launch });
    } catch (error) {
      const reason = messageOf(error);
      const event = { level: 'error', event: 'model_change_failed', to: modelIdOf(path), reason } as const;
      this.#options.log(event);
      return reason;
    }
  }

  /**
   * Serves the same model with this launcher. Open requests get drainMs to finish, and go on with the new runner after that.
   * Returns false if the model is being replaced or leaves.
   */
  switchBackend(launch: Deployment['launch']): boolean {
    if (this.#phase !== 'serving' || this.#loads.current === undefined) return false;
    this.#replace(this.#loads.current, { slot: this.#loads.current.slot, launch });
    return true;
  }

  get #replaceable(): Loaded | undefined {
    return this.#phase === 'serving' || this.#phase === 'replacing' ? this.#loads.current : undefined;
  }

  #changeTo(loaded: Loaded, target: Deployment): Promise<string | undefined> {
    if (this.#replaceable !== loaded) {
      // It left while the file was read.
      if (target.slot !== loaded.slot) target.slot.close();
      return Promise.resolve(this.#phase === 'stopped' ? STOPPING : undefined);
    }
    loaded.settle();
    if (this.#replacement !== undefined) {
      const { outcome } = this.#replacement;
      this.#replacement.aimAt(target);
      return outcome;
    }
    // Open requests go on with another runner of the same file.
    return target.slot === loaded.slot ? loaded.replace(target) : this.#replace(loaded, target).outcome;
  }

  /** Lets open requests finish, while new ones wait, and then replaces the runners. */
  #replace(loaded: Loaded, target: Deployment): ModelReplacement {
    this.#phase = 'replacing';
    this.gate.close();
    this.#replacement = new ModelReplacement(loaded, target, {
      drainMs: this.#options.drainMs,
      clock: this.#clock,
      log: this.#options.log,
      whenUnused: () => this.whenUnused(loaded),
      onEnd: () => this.#onReplaced(),
    });
    return this.#replacement;
  }

  #onReplaced(): void {
    this.#replacement = undefined;
    if (this.#phase !== 'replacing') return;
    this.#serve();
  }

  /** Lets requests go to the runners. */
  #serve(): void {
    this.#phase = 'serving';
    this.gate.open();
    // Requests that waited must come in before anybody may close the gate again.
    this.#clock.after(0, () => this.#shared?.loader.onChange());
  }

  /** Stops for good: open requests may finish for at most drainMs, and new ones are refused. */
  async stop(drainMs: number): Promise<void> {
    this.#phase = 'stopped';
    const stopped = this.#loads.current?.stop(drainMs);
    this.#replacement?.stop(STOPPING);
    this.gate.open();
    await stopped;
    await this.#loads.whenEnded();
    this.#slot.close();
  }

  status(): RunnerStatus {
    const status = this.#loads.status();
    const { loadProgress } = status;
    const whole = { ...status, openRequests: status.openRequests + this.gate.numWaiting };
    const replacement = this.#replacement;
    if (replacement !== undefined)
      return statusWhileReplacing(whole, replacement.change, replacement.isOther);
    const { reason } = this.#failure;
    return {
      ...whole,
      ...statusIn(this.#phase, { name: this.name, loadProgress, reason, retryInMs: this.#retryInMs }),
    };
  }

  generate(...args: Parameters<Runner['generate']>): ReturnType<Runner['generate']> {
    return this.#requireTaking().generate(...args);
  }

  assertCapacity(requests: readonly GenerateRequest[]): void {
    const { isOther = false, change } = this.#replacement ?? {};
    // The gate lets nobody in now, so this request was prepared for the model before, and took longer than all requests open
    // then.
    if (isOther && change?.phase === 'loading')
      throw new GenerationError('NOT_READY', MODEL_REPLACED, { retriable: true, retryAfterSec });
    this.#requireTaking().assertCapacity(requests);
  }

  /** Requests for a model that is not loaded are accepted: they wait at the gate. */
  assertAcceptsRequests(caller?: Caller): void {
    if (!phaseFacts[this.#phase].isTaking && this.gate.isClosed) return;
    this.#requireTaking().assertAcceptsRequests(caller);
  }

  #requireTaking(): Loaded['pool'] {
    if (phaseFacts[this.#phase].isTaking && this.#loads.current !== undefined)
      return this.#loads.current.pool;
    const { reason = 'The runner is not ready.', retryAfterSec: seconds } = this.status();
    throw new GenerationError('NOT_READY', reason, {
      retriable: seconds !== undefined,
      retryAfterSec: seconds,
    });
  }

  #onServed(info: RunnerInfo): void {
    // The device may differ from the planned one: the CPU may have taken over.
    if (this.#need !== undefined) this.#need = { ...this.#need, kind: info.kind };
    const isAnotherFile = this.#phase === 'serving' && this.#measured !== info.modelIdentity;
    this.#measured = info.modelIdentity;
    if (isAnotherFile) void this.#measureAgain();
    if (this.#phase !== 'loading') return;
    this.#onUse(this.gate.isUrgent);
    this.#servesSinceMs = this.#clock.now();
    this.#serve();
  }

  /** A restarted runner has read a file that was replaced meanwhile, which may take more memory. */
  async #measureAgain(): Promise<void> {
    const need = await this.#shared?.memoryNeed();
    if (need === undefined) return;
    // A sentence says why the model cannot be loaded. It is loaded, so the old need is kept.
    if (typeof need === 'string' || this.#need === undefined) return;
    this.#need = { ...need, kind: this.#need.kind };
    this.#shared?.loader.onChange();
  }

  #onEvent({ event, reason }: RunnerEvent): void {
    if (this.#phase !== 'loading') return;
    if (event === 'runner_exited') this.#numDeadRunners += 1;
    if (event !== 'model_failed' && this.#numDeadRunners < maxFruitlessStarts) return;
    // The supervisor is still handling this event, so the failure comes after it.
    queueMicrotask(() => this.fail(String(reason)));
  }
}
