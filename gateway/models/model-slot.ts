import { loadModel } from './load-model.ts';
import type { Model } from './model.ts';
import { modelIdentity } from './model-identity.ts';

/** How files of models are read. */
export interface ModelFiles {
  /** Of those at this path as they are now. Never rejects. */
  identity(path: string): Promise<string>;
  /** Throws ModelFileError when they cannot be used. */
  load(path: string): Promise<Model>;
}

const filesOnDisk: ModelFiles = { identity: modelIdentity, load: loadModel };

/**
 * The model that a gateway serves from one path. It is read again when one of its files has changed, so that a file
 * mended or replaced under a running gateway is served as it is now. Whether a runner has read the same is
 * same-model.ts's.
 */
export class ModelSlot {
  readonly path: string;
  readonly #files: ModelFiles;
  #model: Model | undefined;
  /** Of the files before they were read. */
  #identity = '';
  /** Several runners that start at once have it read once. */
  #refreshed: Promise<void> | undefined;
  #numCloses = 0;

  constructor(path: string, files: ModelFiles = filesOnDisk) {
    this.path = path;
    this.#files = files;
  }

  /** The model as last read; undefined before the first time, and while its file cannot be used. */
  get current(): Model | undefined {
    return this.#model;
  }

  /** Of its files as they are now, whatever was read of them. Never rejects. */
  identity(): Promise<string> {
    return this.#files.identity(this.path);
  }

  /** Called before each start of a runner. Throws ModelFileError when the file cannot be used. */
  refresh(): Promise<void> {
    this.#refreshed ??= this.#refresh().finally(() => (this.#refreshed = undefined));
    return this.#refreshed;
  }

  async #refresh(): Promise<void> {
    const numCloses = this.#numCloses;
    if (await this.holds(this.path)) return;
    this.#letGo();
    this.#identity = await this.#files.identity(this.path);
    const model = await this.#files.load(this.path);
    // Who closed it meanwhile closed what was being read, too.
    if (this.#numCloses === numCloses) this.#model = model;
    else letGoOf(model);
  }

  /** Whether this is what would be read from that path now. */
  async holds(path: string): Promise<boolean> {
    if (path !== this.path || this.#model === undefined) return false;
    return (await this.#files.identity(path)) === this.#identity && this.#model !== undefined;
  }

  /** Lets go of the model; those who have it may end what they are at. */
  close(): void {
    this.#numCloses += 1;
    this.#letGo();
  }

  #letGo(): void {
    if (this.#model !== undefined) letGoOf(this.#model);
    this.#model = undefined;
  }
}

function letGoOf({ chatTemplate, tokenizer }: Model): void {
  chatTemplate?.close();
  tokenizer.close();
}
