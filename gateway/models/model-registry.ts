import type { Waiter } from './admission-gate.ts';
import type { ModelLifecycle } from './model-lifecycle.ts';

/** No model has this name. */
export class UnknownModelError extends Error {
  override readonly name = 'UnknownModelError';
}

/** One of the models that a gateway serves, as routes see it. It exists whether or not a runner has it in memory. */
export type ServedModel = Pick<
  ModelLifecycle,
  'isPinned' | 'names' | 'created' | 'model' | 'runner' | 'gate' | 'residency' | 'dismiss' | 'want' | 'read'
>;

/** A model that a request may use. It is not unloaded before it is released. */
export interface AcquiredModel {
  readonly served: ServedModel;
  /** Must be called when the request is with the runner, or has been answered. */
  release(): void;
}

/** The models that a gateway serves, by name. */
export class ModelRegistry {
  #models: readonly [ServedModel, ...ServedModel[]];

  /** The first model is the default. */
  constructor(models: readonly ServedModel[]) {
    this.#models = atLeastOne(models);
  }

  get all(): readonly ServedModel[] {
    return this.#models;
  }

  /** The model for requests that name none. */
  get default(): ServedModel {
    return this.#models[0];
  }

  /**
   * The only model, if it is pinned. It is there for every request, and may change its name when another file is served in its
   * place.
   */
  get sole(): ServedModel | undefined {
    return this.#models.length === 1 && this.default.isPinned ? this.default : undefined;
  }

  /** Replaces the models. Requests that are with the old ones are finished by them. */
  replace(models: readonly ServedModel[]): void {
    this.#models = atLeastOne(models);
  }

  /** All names of all models. */
  get names(): readonly string[] {
    return this.#models.flatMap(({ names }) => names);
  }

  /** The model of this name, or the default without a name. Throws UnknownModelError. */
  find(name: string | undefined): ServedModel {
    const found = name === undefined ? this.default : this.#models.find(({ names }) => names.includes(name));
    if (found !== undefined) return found;
    throw new UnknownModelError(`No model here is called ${JSON.stringify(name)}.`);
  }

  /** As find(), but every name means the sole model: it may have the name when the caller gets to use it. */
  expect(name: string | undefined): ServedModel {
    return this.sole ?? this.find(name);
  }

  /**
   * Waits until the model takes requests or cannot be loaded; in the latter case the status of its runner says why. Throws
   * UnknownModelError, and the errors of AdmissionGate.enter(). As in expect(), the model may have another name.
   */
  async acquire(name: string | undefined, waiter: Waiter): Promise<AcquiredModel> {
    const served = this.expect(name);
    served.want();
    const release = await served.gate.enter(waiter);
    return { served, release };
  }
}

function atLeastOne(models: readonly ServedModel[]): readonly [ServedModel, ...ServedModel[]] {
  const [first, ...others] = models;
  if (first === undefined) throw new Error('A gateway without a model has nothing to serve.');
  return [first, ...others];
}
