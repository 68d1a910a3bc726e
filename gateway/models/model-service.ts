/**
 * Serves a model with its runners. Another runner of the same model takes over the open streams. Before another model takes
 * over, or another backend that is not needed at once, open requests are finished, while new ones wait at the gate.
 */

import { type RunnerLauncher, specOf } from '../runner/backends/runner-launcher.ts';
import {
  type GenerateRequest,
  GenerationError,
  type GenerationHandle,
  type Runner,
  type RunnerInfo,
  type RunnerStatus,
  type TokenSink,
} from '../runner/runner.ts';
import type { RunnerEventName } from '../runner/supervision/runner-event.ts';
import { MODEL_REPLACED, RunnerPool, type RunnerPoolOptions } from '../runner/supervision/runner-pool.ts';
import type { RunnerSpec } from '../runner/supervision/runner-spec.ts';
import { retryAfterSec } from '../runner/supervision/supervisor.ts';
import type { Caller } from '../system/caller.ts';
import { systemClock } from '../system/clock.ts';
import { settlesWithin } from '../system/settles-within.ts';
import type { AdmissionGate } from './admission-gate.ts';
import { type Model, modelIdOf } from './model.ts';
import { type ModelFiles, ModelSlot } from './model-slot.ts';
import { agreeOn, differenceOf } from './same-model.ts';

export interface ModelServiceOptions extends Omit<RunnerPoolOptions, keyof RunnerSpec> {
  readonly gate: AdmissionGate;
  /** Time that open requests get to finish before another model takes over. */
  readonly drainMs: number;
  /** Called for every runner that becomes ready and has read the same model as the gateway. */
  readonly onServed?: (info: RunnerInfo, model: Model) => void;
  /** How files are read; by default from the disk. */
  readonly files?: ModelFiles;
}

/** What to serve. Runners can go on with each other's streams only if they have the same slot. */
interface Deployment {
  readonly slot: ModelSlot;
  readonly launch: RunnerLauncher;
}

/** A change to another model or backend. */
interface Change {
  phase: 'draining' | 'loading';
  /** The deployment that was asked for last. */
  target: Deployment;
  /** The pool's replacement of the runners; undefined until it has begun. */
  replaced: Promise<string | undefined> | undefined;
  /** Ends the wait for open requests; only `replaced` is then awaited. */
  readonly stopDraining: () => void;
}

/** After this many runners in a row with another file than the gateway's, the model counts as failed. */
export const maxRunnersOfOtherFiles = 3;

const STOPPING = 'The server is stopping.';

export class ModelService implements Runner {
  readonly #options: ModelServiceOptions;
  readonly #supervisor: RunnerPool;
  /** The slot of the runner that serves, or that is expected to. */
  #slot: ModelSlot;
  /** The launcher of that runner. */
  #launch: RunnerLauncher;
  #change: Change | undefined;
  /** Shared by all who asked for a change since the current one began. */
  #changed: Promise<string | undefined> = Promise.resolve(undefined);
  /** Settles when the last file that a change asked for has been read. */
  #looked: Promise<unknown> = Promise.resolve();
  #isStopping = false;
  /** Why the ready runner cannot serve the model that the gateway has read. isFinal: neither is tried again. */
  #difference: { readonly reason: string; readonly isFinal: boolean } | undefined;
  /** Runners in a row that had another file than the gateway. */
  #numOfOtherFiles = 0;

  constructor(modelPath: string, launch: RunnerLauncher, options: ModelServiceOptions) {
    this.#options = options;
    this.#slot = new ModelSlot(modelPath, options.files);
    this.#launch = launch;
    this.#supervisor = new RunnerPool({ ...options, ...this.#specOf({ slot: this.#slot, launch }) });
  }

  /**
   * The model that is served. Undefined until it is loaded, while it cannot be loaded, and while the last ready runner has
   * another file.
   */
  get model(): Model | undefined {
    const model = this.#slot.current;
    const { info } = this.#supervisor.status();
    if (model === undefined || info === undefined) return model;
    return differenceOf(model, info) === undefined ? model : undefined;
  }

  /** Starts the first runner. Call it once. */
  start(): void {
    this.#supervisor.start();
  }

  /**
   * Serves the model at this path with this launcher instead. Resolves with undefined when it is served, or with the reason
   * why it cannot be; the model before is then served on or again. Of several changes at once the last one counts, and all
   * callers get its outcome.
   */
  async change(path: string, launch: RunnerLauncher): Promise<string | undefined> {
    const looked = this.#looked.then(() => this.#slotOf(path));
    this.#looked = looked.catch(() => {});
    let slot: ModelSlot;
    try {
      slot = await looked;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#log('error', 'model_change_failed', { to: modelIdOf(path), reason });
      return reason;
    }
    if (this.#isStopping) return STOPPING;
    return this.#changeTo({ slot, launch });
  }

  /**
   * Serves the same model with this launcher. Open requests get drainMs to finish, and go on with the new runner after that.
   * Returns false if another change is under way or the server stops.
   */
  switchBackend(launch: RunnerLauncher): boolean {
    if (this.#isStopping || this.#change !== undefined) return false;
    this.#changed = this.#takeOver({ slot: this.#slot, launch });
    return true;
  }

  status(): RunnerStatus {
    const ofRunner = this.#supervisor.status();
    const backend = this.#launch.status?.();
    const status = {
      ...ofRunner,
      ...(backend === undefined ? {} : { backend }),
      openRequests: ofRunner.openRequests + this.#options.gate.numWaiting,
    };
    if (this.#difference !== undefined && status.state === 'ready') {
      const { reason, isFinal } = this.#difference;
      return isFinal
        ? { ...status, state: 'failed', reason }
        : { ...status, state: 'recovering', reason, retryAfterSec };
    }
    if (this.#change === undefined) return status;
    const { phase, target } = this.#change;
    const [from, to] = [modelIdOf(this.#slot.path), modelIdOf(target.slot.path)];
    const isOtherModel = target.slot !== this.#slot;
    const ofModel = isOtherModel ? ` of the model ${from}` : '';
    const reason =
      phase === 'draining'
        ? `Open requests${ofModel} are being finished before ${isOtherModel ? `the model ${to}` : 'another runner'} takes over.`
        : `The model ${to} is being loaded ${isOtherModel ? `in place of ${from}` : 'by another runner'}.`;
    const changing = isOtherModel ? { ...status, modelChange: { phase, from, to } } : status;
    // Requests that would be refused anyway still get the status that says why.
    if (status.state !== 'ready' && status.state !== 'recovering') return changing;
    return { ...changing, state: 'recovering', reason, retryAfterSec };
  }

  generate(request: GenerateRequest, sink: TokenSink): GenerationHandle {
    return this.#supervisor.generate(request, sink);
  }

  assertAcceptsRequests(caller?: Caller): void {
    this.#supervisor.assertAcceptsRequests(caller);
  }

  assertCapacity(requests: readonly GenerateRequest[]): void {
    const { phase, target } = this.#change ?? {};
    // The gate lets nobody in now, so this request was prepared for the model before, and took longer than all requests open
    // then.
    if (phase === 'loading' && target?.slot !== this.#slot) {
      throw new GenerationError('NOT_READY', MODEL_REPLACED, { retriable: true, retryAfterSec });
    }
    this.#supervisor.assertCapacity(requests);
  }

  /** Resolves when no request is being prepared and then none is open. */
  whenIdle(): Promise<void> {
    return this.#options.gate.emptied().then(() => this.#supervisor.whenIdle());
  }

  /** The same as RunnerPool.stop(). Requests that wait for another model are let in and then refused. */
  async stop(drainMs: number): Promise<void> {
    this.#isStopping = true;
    this.#launch.leave?.();
    const stopped = this.#supervisor.stop(drainMs);
    this.#giveUpDraining(Promise.resolve(STOPPING));
    await stopped;
    // A runner for the open requests may have become ready meanwhile and started its launcher's probe.
    this.#launch.leave?.();
    this.#slot.close();
  }

  /** Reads the file first, so that nothing is given up for a file that no runner could use. */
  async #slotOf(path: string): Promise<ModelSlot> {
    for (const slot of [this.#change?.target.slot, this.#slot])
      if (await slot?.holds(path)) return slot as ModelSlot;
    const slot = new ModelSlot(path, this.#options.files);
    await slot.refresh();
    return slot;
  }

  #changeTo(target: Deployment): Promise<string | undefined> {
    this.#launch.leave?.();
    this.#numOfOtherFiles = 0;
    const change = this.#change;
    const isSame = target.slot === this.#slot;
    if (change === undefined) {
      if (isSame) return this.#supervisor.replaceRunner(this.#specOf(target));
      this.#changed = this.#takeOver(target);
      return this.#changed;
    }
    const { slot } = change.target;
    change.target = target;
    if (slot !== target.slot && slot !== this.#slot) slot.close();
    if (change.phase === 'loading') change.replaced = this.#supervisor.replaceRunner(this.#specOf(target));
    else if (isSame) this.#giveUpDraining(this.#supervisor.replaceRunner(this.#specOf(target)));
    return this.#changed;
  }

  async #takeOver(target: Deployment): Promise<string | undefined> {
    let stopDraining = (): void => {};
    const drainingStopped = new Promise<void>((resolve) => (stopDraining = resolve));
    const change: Change = { phase: 'draining', target, replaced: undefined, stopDraining };
    const before = this.#slot;
    const { gate, drainMs, clock = systemClock } = this.#options;
    this.#change = change;
    gate.close();
    this.#logChange('info', 'draining', change, before, this.#numOpen());
    const drained = this.whenIdle();
    await settlesWithin(Promise.race([drained, drainingStopped]), drainMs, clock);
    if (change.replaced === undefined) this.#load(change, before);
    const failure = await lastOf(change);
    this.#end(change);
    if (failure === undefined) this.#logChange('info', 'complete', change, before, {});
    else this.#logChange('error', 'failed', change, before, { reason: failure });
    return failure;
  }

  #load(change: Change, before: ModelSlot): void {
    this.#logChange('info', 'loading', change, before, this.#numOpen());
    const { drainMs } = this.#options;
    const { slot } = change.target;
    if (slot !== before) {
      const [from, to] = [modelIdOf(before.path), modelIdOf(slot.path)];
      const message = `The request was not finished within ${drainMs / 1000} s, and the model ${to} takes over from ${from}.`;
      this.#supervisor.failOpen(new GenerationError('INFERENCE_FAILED', message, { retriable: true }));
    }
    change.phase = 'loading';
    change.replaced = this.#supervisor.replaceRunner(this.#specOf(change.target));
  }

  /** Ends the drain early, because the model stays the same and open requests can go on. */
  #giveUpDraining(replaced: Promise<string | undefined>): void {
    const change = this.#change;
    if (change?.phase !== 'draining') return;
    change.replaced = replaced;
    this.#end(change);
    change.stopDraining();
  }

  #end(change: Change): void {
    if (this.#change !== change) return;
    this.#change = undefined;
    if (change.target.slot !== this.#slot) change.target.slot.close();
    this.#options.gate.open();
  }

  #numOpen(): object {
    return { open_requests: this.#supervisor.status().openRequests };
  }

  #specOf({ slot, launch }: Deployment): RunnerSpec {
    return specOf(slot, launch, {
      // Starts the template's process while the runner loads, so that it is ready for the first chat.
      onRead: () => slot.current?.chatTemplate?.start(),
      onReady: (info, launched) => {
        if (slot !== this.#slot) this.#slot.close();
        this.#slot = slot;
        this.#launch = launched;
        void this.#serve(slot, info);
      },
    });
  }

  /** Called when a runner is ready. The model is served once gateway and runner are known to have read the same file. */
  async #serve(slot: ModelSlot, info: RunnerInfo): Promise<void> {
    const model = slot.current;
    this.#difference = undefined;
    if (model !== undefined && differenceOf(model, info) === undefined) {
      this.#numOfOtherFiles = 0;
      this.#options.onServed?.(info, model);
      return;
    }
    const reason = 'The model file was replaced while it was being loaded; it is being read again.';
    const difference = { reason, isFinal: false };
    this.#difference = difference;
    this.#log('warn', 'model_file_differs', { runner: info.modelIdentity, gateway: model?.file });
    const agreed = await agreeOn(slot, info);
    // Another runner has become ready meanwhile.
    if (this.#difference !== difference) return;
    if (typeof agreed === 'string') {
      this.#numOfOtherFiles += 1;
      if (this.#numOfOtherFiles < maxRunnersOfOtherFiles) {
        // The runner's file has been replaced since, or was incomplete when it was read. The next runner opens what is there
        // now.
        void this.#supervisor.replaceRunner(this.#specOf({ slot, launch: this.#launch }));
        return;
      }
      this.#difference = { reason: agreed, isFinal: true };
      this.#log('error', 'model_failed', { reason: agreed, isRetriable: false });
      return;
    }
    this.#difference = undefined;
    this.#numOfOtherFiles = 0;
    this.#options.onServed?.(info, agreed);
  }

  #logChange(
    level: 'info' | 'error',
    phase: 'draining' | 'loading' | 'complete' | 'failed',
    { target: { slot } }: Change,
    before: ModelSlot,
    fields: object,
  ): void {
    const models = { from: modelIdOf(before.path), to: modelIdOf(slot.path) };
    if (slot === before) this.#log(level, `backend_change_${phase}`, fields);
    else this.#log(level, `model_change_${phase}`, { ...models, ...fields });
  }

  #log(level: 'info' | 'warn' | 'error', event: RunnerEventName, fields: object): void {
    this.#options.log({ level, event, ...fields });
  }
}

/** Awaits the replacement; a newer target may have started another one meanwhile. */
async function lastOf(change: Change): Promise<string | undefined> {
  for (;;) {
    const { replaced } = change;
    const failure = await replaced;
    if (replaced === change.replaced) return failure;
  }
}
