import { stat } from 'node:fs/promises';
import { loadModel } from './load-model.ts';
import type { Model } from './model.ts';

/**
 * The model that a gateway serves from one path. It is read again when its file has changed, so that a file mended or
 * replaced under a running gateway is served as it is now, and the tokenizer is never another model's than the runner's.
 */
export class ModelSlot {
  readonly path: string;
  #model: Model | undefined;
  #identity: string | undefined;

  constructor(path: string) {
    this.path = path;
  }

  /** The model as last read; undefined before the first time, and while its file cannot be used. */
  get current(): Model | undefined {
    return this.#model;
  }

  /** Called before each start of a runner. Throws ModelFileError when the file cannot be used. */
  async refresh(): Promise<void> {
    const identity = await identify(this.path);
    if (this.#model !== undefined && identity !== undefined && identity === this.#identity) return;
    this.close();
    this.#model = await loadModel(this.path);
    this.#identity = identity;
  }

  /** Whether this is what would be read from that path now. */
  async holds(path: string): Promise<boolean> {
    if (path !== this.path || this.#model === undefined) return false;
    return (await identify(path)) === this.#identity;
  }

  /** Lets go of the model; those who have it may end what they are at. */
  close(): void {
    this.#model?.chatTemplate?.close();
    this.#model = undefined;
  }
}

/** Undefined when there is no such file: loadModel then says so in its own words. */
async function identify(path: string): Promise<string | undefined> {
  const stats = await stat(path, { bigint: true }).catch(() => undefined);
  return stats && `${stats.dev} ${stats.ino} ${stats.size} ${stats.mtimeNs}`;
}
