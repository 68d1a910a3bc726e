import { stat } from 'node:fs/promises';
import { identifyingFile } from './huggingface/folder-files.ts';
import { loadModel } from './load-model.ts';
import { identityOf, type Model } from './model.ts';

/**
 * The model that a gateway serves from one path. It is read again when its file has changed, so that a file mended or
 * replaced under a running gateway is served as it is now. Whether a runner has read the same is backend/same-model.ts's.
 */
export class ModelSlot {
  readonly path: string;
  #model: Model | undefined;

  constructor(path: string) {
    this.path = path;
  }

  /** The model as last read; undefined before the first time, and while its file cannot be used. */
  get current(): Model | undefined {
    return this.#model;
  }

  /** Called before each start of a runner. Throws ModelFileError when the file cannot be used. */
  async refresh(): Promise<void> {
    if (await this.holds(this.path)) return;
    this.close();
    this.#model = await loadModel(this.path);
  }

  /** Whether this is what would be read from that path now. */
  async holds(path: string): Promise<boolean> {
    if (path !== this.path || this.#model === undefined) return false;
    // Without such a file loadModel says so in its own words.
    const stats = await stat(identifyingFile(path), { bigint: true }).catch(() => undefined);
    if (stats === undefined || this.#model === undefined) return false;
    return identityOf(stats) === this.#model.file && stats.dev === this.#model.device;
  }

  /** Lets go of the model; those who have it may end what they are at. */
  close(): void {
    this.#model?.chatTemplate?.close();
    this.#model?.tokenizer.close();
    this.#model = undefined;
  }
}
