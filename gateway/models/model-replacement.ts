import { GenerationError, type ModelChange } from '../runner/runner.ts';
import type { RunnerEvent, RunnerEventName } from '../runner/supervision/runner-event.ts';
import { type Clock, settlesWithin } from '../system/clock.ts';
import type { Deployment, Loaded } from './loaded-model.ts';
import { modelIdOf } from './model.ts';
import type { ModelSlot } from './model-slot.ts';

export interface ModelReplacementOptions {
  /** Time that open requests get to finish before the next runners take over. */
  readonly drainMs: number;
  readonly clock: Clock;
  readonly log: (event: RunnerEvent) => void;
  readonly whenUnused: () => Promise<void>;
  /** Called once, when requests may go to the runners again. */
  readonly onEnd: () => void;
}

/**
 * The replacement of a model by another one, or of its backend by one that is not needed at once. Open requests are finished
 * first. Of another model's runners, none can go on with what is still open then; of another backend's, they can.
 */
export class ModelReplacement {
  readonly #model: Loaded;
  readonly #before: ModelSlot;
  readonly #options: ModelReplacementOptions;
  #target: Deployment;
  /** The pool's replacement of the runners; undefined while open requests are being finished. */
  #replaced: Promise<string | undefined> | undefined;
  #isOver = false;
  #stopDraining = (): void => {};
  /** Resolves with undefined when the target is served, or with the reason why it is not. */
  readonly outcome: Promise<string | undefined>;

  constructor(model: Loaded, target: Deployment, options: ModelReplacementOptions) {
    this.#model = model;
    this.#before = model.slot;
    this.#options = options;
    this.#target = target;
    this.outcome = this.#run();
  }

  /** The slot of the next runners. */
  get slot(): ModelSlot {
    return this.#target.slot;
  }

  /** Whether the next runners serve another model, and not only by another backend. */
  get isOther(): boolean {
    return this.slot !== this.#model.slot;
  }

  get change(): ModelChange {
    return {
      phase: this.#replaced === undefined ? 'draining' : 'loading',
      from: modelIdOf(this.#model.slot.path),
      to: modelIdOf(this.slot.path),
    };
  }

  aimAt(target: Deployment): void {
    const { slot } = this.#target;
    this.#target = target;
    if (slot !== target.slot && slot !== this.#model.slot) slot.close();
    if (this.#replaced !== undefined) this.#replaced = this.#model.replace(target);
    // The model stays the same, so open requests can go on.
    else if (!this.isOther) this.#giveUpDraining(this.#model.replace(target));
  }

  /** The model stops: whoever waits for the replacement gets this reason. */
  stop(reason: string): void {
    if (this.#replaced === undefined) this.#giveUpDraining(Promise.resolve(reason));
  }

  async #run(): Promise<string | undefined> {
    const { drainMs, clock, whenUnused } = this.#options;
    const drainingStopped = new Promise<void>((resolve) => (this.#stopDraining = resolve));
    this.#log('draining', this.#numOpen());
    await settlesWithin(Promise.race([whenUnused(), drainingStopped]), drainMs, clock);
    if (this.#replaced === undefined) this.#load();
    const failure = await this.#last();
    this.#end();
    if (failure === undefined) this.#log('complete', {});
    else this.#log('failed', { reason: failure });
    return failure;
  }

  #load(): void {
    this.#log('loading', this.#numOpen());
    if (this.slot !== this.#before) {
      const { from, to } = this.change;
      const message = `The request was not finished within ${this.#options.drainMs / 1000} s, and the model ${to} takes over from ${from}.`;
      this.#model.pool.failOpen(new GenerationError('INFERENCE_FAILED', message, { retriable: true }));
    }
    this.#replaced = this.#model.replace(this.#target);
  }

  /** Awaits the pool's replacement; a newer target may have started another one meanwhile. */
  async #last(): Promise<string | undefined> {
    for (;;) {
      const replaced = this.#replaced;
      const failure = await replaced;
      if (replaced === this.#replaced) return failure;
    }
  }

  #giveUpDraining(replaced: Promise<string | undefined>): void {
    this.#replaced = replaced;
    this.#end();
    this.#stopDraining();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.isOther) this.slot.close();
    this.#options.onEnd();
  }

  #numOpen(): object {
    return { open_requests: this.#model.status().openRequests };
  }

  #log(phase: 'draining' | 'loading' | 'complete' | 'failed', fields: object): void {
    const models = { from: modelIdOf(this.#before.path), to: modelIdOf(this.slot.path) };
    const isOther = this.slot !== this.#before;
    const event: RunnerEventName = isOther ? `model_change_${phase}` : `backend_change_${phase}`;
    this.#options.log({
      level: phase === 'failed' ? 'error' : 'info',
      event,
      ...(isOther ? models : {}),
      ...fields,
    });
  }
}
