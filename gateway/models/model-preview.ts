import type { Model } from './model.ts';

/** A model that is read without a runner, for its tokenizer. Callers at the same time share one read. */
export class ModelPreview {
  readonly #load: () => Promise<Model>;
  #model: Model | undefined;
  #reading: Promise<void> | undefined;
  #isEnded = false;

  constructor(load: () => Promise<Model>) {
    this.#load = load;
  }

  /** Resolves with undefined behind end(). Throws if the file cannot be read. */
  async read(): Promise<Model | undefined> {
    if (this.#model !== undefined || this.#isEnded) return this.#model;
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
    return this.#model;
  }

  /** Closes what has been read. It is read again for the next who asks. */
  forget(): void {
    this.#model?.chatTemplate?.close();
    this.#model?.tokenizer.close();
    this.#model = undefined;
  }

  /** Reads nothing any more. */
  end(): void {
    this.#isEnded = true;
    this.forget();
  }

  async #read(): Promise<void> {
    this.#model = await this.#load();
    if (this.#isEnded) this.forget();
  }
}
