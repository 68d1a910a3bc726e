import type { Fetch } from './http-server.ts';

/**
 * An application that is read from disk when the server listens already: a third of what a start takes. Requests that come
 * before it is there wait for it.
 */
export class DeferredApp {
  readonly #read: () => Promise<{ readonly fetch: Fetch }>;
  #reading: Promise<void> | undefined;
  #fetch: Fetch | undefined;

  constructor(read: () => Promise<{ readonly fetch: Fetch }>) {
    this.#read = read;
  }

  /** Once, however often it is called. Rejects where it cannot be read. */
  load(): Promise<void> {
    this.#reading ??= this.#read().then(({ fetch }) => {
      this.#fetch = fetch;
    });
    return this.#reading;
  }

  readonly fetch: Fetch = async (request, env) => {
    if (this.#fetch === undefined) await this.load();
    if (this.#fetch === undefined) throw new Error('The application was read, and is not there.');
    return this.#fetch(request, env);
  };
}
