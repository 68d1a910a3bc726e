import { loadModel } from './load-model.ts';
import type { Model } from './model.ts';
import { modelIdentity } from './model-identity.ts';

/**
 * The model that a gateway serves from one path. It is read again when one of its files has changed, so that a file
 * mended or replaced under a running gateway is served as it is now. Whether a runner has read the same is
 * same-model.ts's.
 */
export class ModelSlot {
  readonly path: string;
  #model: Model | undefined;
  /** Of the files before they were read. */
  #identity = '';
  /** Several runners that start at once have it read once. */
  #refreshed: Promise<void> | undefined;

  constructor(path: string) {
    this.path = path;
  }

  /** The model as last read; undefined before the first time, and while its file cannot be used. */
  get current(): Model | undefined {
    return this.#model;
  }

  /** Of its files as they are now, whatever was read of them. Never rejects. */
  identity(): Promise<string> {
    return modelIdentity(this.path);
  }

  /** Called before each start of a runner. Throws ModelFileError when the file cannot be used. */
  refresh(): Promise<void> {
    this.#refreshed ??= this.#refresh().finally(() => (this.#refreshed = undefined));
    return this.#refreshed;
  }

  async #refresh(): Promise<void> {
    if (await this.holds(this.path)) return;
    this.close();
    this.#identity = await modelIdentity(this.path);
    this.#model = await loadModel(this.path);
  }

  /** Whether this is what would be read from that path now. */
  async holds(path: string): Promise<boolean> {
    if (path !== this.path || this.#model === undefined) return false;
    return (await modelIdentity(path)) === this.#identity && this.#model !== undefined;
  }

  /** Lets go of the model; those who have it may end what they are at. */
  close(): void {
    this.#model?.chatTemplate?.close();
    this.#model?.tokenizer.close();
    this.#model = undefined;
  }
}
