/**
 * Decides which of several models are in memory. It loads what is asked for, in that order, and unloads the models that were
 * least recently used to make room. No stream is cut for another model: a model in use is unloaded when its requests are
 * done, and takes no new ones until it is loaded again. With time slices it goes on serving until its slice is over, and leaves
 * then. Requests in the background, the lines of batches, get no memory that others use: they wait until a model has not been used
 * by others for a while, and their jobs leave a model at once when others wait for its memory.
 */
import { type Clock, systemClock, type Timer } from '../system/clock.ts';
import { idleFor, roomFor } from './memory-budget.ts';
import type { LoadedResident, MemoryNeed, ModelLifecycle } from './model-lifecycle.ts';

/** How often the loader looks for models that nobody uses. */
export const lookMs = 1000;

/** For this long after its last use a model is not unloaded for requests in the background. */
export const urgentMs = 30_000;

/** memory: for another model. turn: the same, after its time slice. idle: nobody used it. asked: a client asked for it. */
export type UnloadReason = 'memory' | 'turn' | 'idle' | 'asked';

export interface ModelLoaderOptions {
  /** Memory for all models together, on each kind of device; undefined: what is available before the first load. */
  readonly budgetBytes: number | undefined;
  /** How long an unused model stays loaded; 0: until its memory is needed. */
  readonly keepAliveMs: number;
  /** How long a model in use may serve on while another one waits for its memory; undefined: it leaves after its requests. */
  readonly timeSliceMs?: number | undefined;
  readonly onUnload?: (model: ModelLifecycle, reason: UnloadReason) => void;
  /**
   * The time slice of a model in use is over, and it waits for the end of its requests. isInBackground: the time of those in the
   * background is over, and not that of the others.
   */
  readonly onTurnOver?: (model: ModelLifecycle, isInBackground: boolean) => void;
  readonly clock?: Clock;
}

interface Queued {
  readonly model: ModelLifecycle;
  readonly need: MemoryNeed;
}

type PlacedResident = LoadedResident & { readonly model: ModelLifecycle };

/** The models' Loader. */
export class ModelLoader {
  readonly #options: ModelLoaderOptions;
  readonly #clock: Clock;
  readonly #models = new Set<ModelLifecycle>();
  #queued: Queued[] = [];
  /** Budget by kind of device, set when a model is first to be loaded there. */
  readonly #budgets = new Map<string, number>();
  #timer: Timer | undefined;
  /** Models that others wait for, and of which it is awaited that nobody uses them. */
  readonly #awaited = new Set<ModelLifecycle>();
  /** Rings when the next time slice is over that somebody waits for. */
  #turn: Timer | undefined;
  #isStopped = false;

  constructor(options: ModelLoaderOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  add(model: ModelLifecycle): void {
    this.#models.add(model);
    this.#timer ??= this.#clock.after(lookMs, () => this.#look());
  }

  /** Stops a model, which takes no new requests and is unloaded when it has none, and then forgets it. */
  async remove(model: ModelLifecycle, drainMs: number): Promise<void> {
    await model.stop(drainMs);
    this.#models.delete(model);
    this.onChange();
  }

  async enqueue(model: ModelLifecycle, asked: Promise<MemoryNeed | string>): Promise<void> {
    const need = await asked;
    if (this.#isStopped) return;
    if (typeof need === 'string') {
      model.fail(need);
      return;
    }
    this.#queued.push({ model, need });
    this.onChange();
  }

  onChange(): void {
    if (this.#isStopped) return;
    this.#keepBudgets();
    // A model that was stopped meanwhile must not make others leave.
    this.#queued = this.#queued.filter(({ model }) => model.isQueued);
    const earlier: MemoryNeed[] = [];
    let turnLeftMs = Number.POSITIVE_INFINITY;
    for (const queued of this.#inOrder()) {
      const leftMs = this.#place(
        queued,
        earlier.filter(({ kind }) => kind === queued.need.kind),
      );
      turnLeftMs = Math.min(turnLeftMs, leftMs ?? turnLeftMs);
      // The background reserves nothing while it waits for others to be done.
      const isReserving = leftMs === undefined || queued.model.gate.isUrgent;
      if (isReserving && this.#queued.includes(queued)) earlier.push(queued.need);
    }
    this.#turn?.cancel();
    if (turnLeftMs < Number.POSITIVE_INFINITY)
      this.#turn = this.#clock.after(turnLeftMs, () => this.onChange());
  }

  /** Those that only the background waits for come last, however long they have waited. */
  #inOrder(): readonly Queued[] {
    const isUrgent = ({ model }: Queued): boolean => model.gate.isUrgent;
    return [...this.#queued.filter(isUrgent), ...this.#queued.filter((queued) => !isUrgent(queued))];
  }

  async stop(drainMs: number): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#turn?.cancel();
    this.#queued = [];
    await Promise.all([...this.#models].map((model) => model.stop(drainMs)));
  }

  /**
   * Loads the model if it fits beside the loaded ones and those that have waited longer. If memory is missing, starts to
   * unload others, or returns how long they may serve on.
   */
  #place(queued: Queued, earlier: readonly MemoryNeed[]): number | undefined {
    const { model, need } = queued;
    const residents = this.#ranked().filter(({ kind }) => kind === need.kind);
    const { isUrgent } = model.gate;
    const room = roomFor({ name: model.name, bytes: need.bytes }, this.#budgetOf(need), residents);
    if (typeof room !== 'string' && room.length > 0) {
      const leftMs = Math.max(...room.map((resident) => this.#turnLeftMs(resident, isUrgent)));
      if (leftMs > 0) {
        for (const { model: other, isBusy } of room) if (isBusy) void this.#awaitUnused(other);
        return leftMs;
      }
      for (const { model: other, isBusy, isYielding } of room) {
        const isTurnOver = isBusy && this.#options.timeSliceMs !== undefined && !(isUrgent && isYielding);
        this.#unload(other, isBusy, isTurnOver ? 'turn' : 'memory');
        if (isUrgent && other.isLeaving) this.#options.onTurnOver?.(other, true);
      }
      return undefined;
    }
    const staying = [...residents.filter(({ isLeaving }) => !isLeaving), ...earlier];
    const promisedBytes = staying.reduce((sum, { bytes }) => sum + bytes, need.bytes);
    // Memory that is being freed goes to earlier models first. Otherwise small models that come and go would keep a large one
    // out for ever.
    if (earlier.length > 0 && typeof room !== 'string' && promisedBytes > this.#budgetOf(need))
      return undefined;
    this.#queued = this.#queued.filter((each) => each !== queued);
    if (typeof room === 'string') model.fail(room);
    else model.load(need);
    return undefined;
  }

  /** How long the model may serve on although another one waits for its memory. isUrgent: not only in the background. */
  #turnLeftMs(
    { isBusy, isYielding, isLeaving, lastUrgentMs, servesSinceMs }: PlacedResident,
    isUrgent: boolean,
  ): number {
    const { timeSliceMs } = this.#options;
    if (isLeaving) return 0;
    const nowMs = this.#clock.now();
    const isInUse = isBusy && !isYielding;
    const urgentLeftMs = isUrgent ? 0 : (isInUse ? nowMs : lastUrgentMs) + urgentMs - nowMs;
    if (timeSliceMs === undefined || !isBusy || (isUrgent && isYielding)) return Math.max(0, urgentLeftMs);
    return Math.max(urgentLeftMs, servesSinceMs + timeSliceMs - nowMs);
  }

  async #awaitUnused(model: ModelLifecycle): Promise<void> {
    if (this.#awaited.has(model)) return;
    this.#awaited.add(model);
    await model.whenUnused();
    this.#awaited.delete(model);
    // One that is being loaded or replaced has no users, and says when it serves. One that leaves says when it has.
    const { isBusy = true, isLeaving = true } = model.resident ?? {};
    if (!isBusy && !isLeaving) this.onChange();
  }

  /**
   * Unloads models where the budget is exceeded: a loaded model that was replaced by a larger file may take memory meant for
   * others.
   */
  #keepBudgets(): void {
    for (const [kind, budgetBytes] of this.#budgets) {
      const residents = this.#ranked().filter((resident) => resident.kind === kind);
      const leaving = roomFor({ name: '', bytes: 0 }, budgetBytes, residents);
      // A sentence means that pinned models alone take more than the budget. They stay.
      if (typeof leaving === 'string') continue;
      for (const { model, isBusy } of leaving) this.#unload(model, isBusy, 'memory');
    }
  }

  #residents(): PlacedResident[] {
    return [...this.#models].flatMap((model) => {
      const { resident } = model;
      return resident === undefined ? [] : [{ ...resident, model }];
    });
  }

  /** The same, last used as counts for the order in which they leave. A use in the background counts as one of a while ago. */
  #ranked(): PlacedResident[] {
    return this.#residents().map((resident) => {
      const { isBusy, isYielding, lastUsedMs, lastUrgentMs, servesSinceMs } = resident;
      // With time slices, of the models in use the one that has served for longest leaves first.
      const isByTurns = isBusy && this.#options.timeSliceMs !== undefined;
      if (isByTurns && !isYielding) return { ...resident, lastUsedMs: servesSinceMs };
      const usedMs = Math.min(lastUsedMs - urgentMs, isByTurns ? servesSinceMs : Number.POSITIVE_INFINITY);
      return { ...resident, lastUsedMs: Math.max(lastUrgentMs, usedMs) };
    });
  }

  #unload(model: ModelLifecycle, isBusy: boolean, reason: UnloadReason): void {
    const isBegun = isBusy ? model.drain() : model.unload();
    if (!isBegun) return;
    this.#options.onUnload?.(model, reason);
    if (reason === 'turn') this.#options.onTurnOver?.(model, false);
  }

  #budgetOf({ kind, availableBytes }: MemoryNeed): number {
    const budget = this.#options.budgetBytes ?? this.#budgets.get(kind) ?? availableBytes;
    // If nobody knows how much memory there is, nothing is held back; the runner itself reports what it lacks.
    if (budget === undefined) return Number.POSITIVE_INFINITY;
    this.#budgets.set(kind, budget);
    return budget;
  }

  #look(): void {
    for (const model of this.#models) model.look(this.#patienceMs);
    this.unloadUnused();
    this.#timer = this.#clock.after(lookMs, () => this.#look());
  }

  unloadUnused(): void {
    const unused = idleFor(this.#residents(), this.#patienceMs, this.#clock.now());
    for (const { model, isUnloadRequested } of unused)
      this.#unload(model, false, isUnloadRequested ? 'asked' : 'idle');
  }

  get #patienceMs(): number {
    const { keepAliveMs } = this.#options;
    return keepAliveMs === 0 ? Number.POSITIVE_INFINITY : keepAliveMs;
  }
}
