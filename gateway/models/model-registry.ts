import type { Waiter } from './admission-gate.ts';
import type { ServedModel } from './served-model.ts';

/** A name that no model here has. */
export class UnknownModelError extends Error {
  override readonly name = 'UnknownModelError';
}

/** One that a request may use, and that is not unloaded before it has been given back. */
export interface AcquiredModel extends ServedModel {
  /** To be called when the request is with the runner, or answered. */
  release(): void;
}

/** The models that a gateway serves, by their names. */
export class ModelRegistry {
  #models: readonly [ServedModel, ...ServedModel[]];

  /** The first one is the default. */
  constructor(models: readonly ServedModel[]) {
    this.#models = atLeastOne(models);
  }

  get all(): readonly ServedModel[] {
    return this.#models;
  }

  /** Of requests that name none. */
  get default(): ServedModel {
    return this.#models[0];
  }

  /** Whether models are loaded when they are asked for. */
  get isOnDemand(): boolean {
    return this.default.isOnDemand;
  }

  /** Others from now on; requests that are with those of before are theirs to finish. */
  replace(models: readonly ServedModel[]): void {
    this.#models = atLeastOne(models);
  }

  /** Every name there is. */
  get names(): readonly string[] {
    return this.#models.flatMap(({ names }) => names);
  }

  /** The model of this name, or of none: the default. UnknownModelError. */
  find(name: string | undefined): ServedModel {
    const found = name === undefined ? this.default : this.#models.find(({ names }) => names.includes(name));
    if (found !== undefined) return found;
    throw new UnknownModelError(`No model here is called ${JSON.stringify(name)}.`);
  }

  /**
   * Waits until the model takes requests, or cannot be loaded: then the status of its runner says why. UnknownModelError, and
   * what waiting at a gate throws. A model that is not on demand may get other names meanwhile, and any is let through to it.
   */
  async acquire(name: string | undefined, waiter: Waiter): Promise<AcquiredModel> {
    const model = this.isOnDemand ? this.find(name) : this.default;
    model.want();
    const release = await model.gate.enter(waiter);
    return {
      isOnDemand: model.isOnDemand,
      get names() {
        return model.names;
      },
      created: model.created,
      get model() {
        return model.model;
      },
      runner: model.runner,
      gate: model.gate,
      get residency() {
        return model.residency;
      },
      dismiss: () => model.dismiss(),
      want: () => model.want(),
      read: () => model.read(),
      release,
    };
  }
}

function atLeastOne(models: readonly ServedModel[]): readonly [ServedModel, ...ServedModel[]] {
  const [first, ...others] = models;
  if (first === undefined) throw new Error('A gateway without a model has nothing to serve.');
  return [first, ...others];
}
