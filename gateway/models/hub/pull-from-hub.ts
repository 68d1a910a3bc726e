/** Fetches a model from a hub, a file or a folder, into the cache of Hugging Face's own tools. */

import {
  optionalFiles,
  pickles,
  readShards,
  requiredFiles,
  soleWeightFile,
  weightFiles,
  weightIndex,
  whyNoPickle,
} from '../huggingface/folder-files.ts';
import { type FileName, FolderError, fileLimits } from '../huggingface/json-file.ts';
import { asSystemFault, PullError } from '../pull-report.ts';
import { type Blob, type BlobOptions, fetchBlob } from './blob.ts';
import { HubCache } from './hub-cache.ts';
import { HubClient, TransferError } from './hub-client.ts';
import { fileIn, type HubFile, type HubModel, hubFolder, parseHubName } from './hub-file.ts';

export const DEFAULT_ENDPOINT = 'https://huggingface.co';

export interface HubOptions extends BlobOptions {
  readonly endpoint: string;
  readonly token: string | undefined;
}

/** Returns the path of the model's file or folder. Throws PullError, or UsageError for a malformed name or address. */
export async function pullFromHub(name: string, options: HubOptions): Promise<string> {
  const model = parseHubName(name);
  const client = new HubClient(options.endpoint, options.token);
  try {
    if (model.path === undefined) return await fetchFolder(client, model, options);
    return await fetchFile(client, fileIn(model, model.path), options);
  } catch (error) {
    if (error instanceof TransferError) throw new PullError(69, `${error.message}.`, { cause: error });
    throw asSystemFault(name, hubFolder(), error);
  }
}

async function fetchFile(client: HubClient, file: HubFile, options: BlobOptions): Promise<string> {
  const cache = new HubCache(file);
  const remote = await client.describe(file);
  const isNew = await fetchBlob({ client, cache, file, remote }, options);
  if (!isNew) options.output.write(`${file.name} is already there.\n`);
  const path = cache.link(remote.hash, remote.commit, file.path);
  cache.setMain(remote.commit);
  return path;
}

/**
 * Fetches the files that make up a model in a folder, at one commit, and no other file of the repository: neither code nor
 * pickles. Files get their names when all of them are in the cache, config.json last, so the folder is complete or absent.
 * Returns the path of the folder. Throws PullError or TransferError.
 */
async function fetchFolder(client: HubClient, model: HubModel, options: BlobOptions): Promise<string> {
  const config = await client.describe(fileIn(model, 'config.json'));
  const folder = new RemoteFolder(client, model, config.commit, options);
  const optional = await Promise.all(optionalFiles.map((name) => folder.find(name)));
  const required = await Promise.all(requiredFiles.map((name) => folder.describe(name)));
  const weights = await folder.weights();
  const blobs = [...optional.filter((blob) => blob !== undefined), ...weights, ...required.reverse()];
  return folder.fetch(blobs);
}

class RemoteFolder {
  readonly #client: HubClient;
  readonly #cache: HubCache;
  readonly #model: HubModel;
  readonly #commit: string;
  readonly #options: BlobOptions;
  #isNew = false;

  constructor(client: HubClient, model: HubModel, commit: string, options: BlobOptions) {
    this.#client = client;
    this.#cache = new HubCache(model);
    this.#model = model;
    this.#commit = commit;
    this.#options = options;
  }

  async find(name: string): Promise<Blob | undefined> {
    const file = fileIn(this.#model, name);
    const remote = await this.#client.find(file, this.#commit);
    if (remote === undefined) return undefined;
    const limit = fileLimits[name as FileName] ?? Number.MAX_SAFE_INTEGER;
    if (remote.bytes > limit)
      throw new PullError(65, `${file.name} has ${remote.bytes} bytes; at most ${limit} are allowed.`);
    return { client: this.#client, cache: this.#cache, file, remote };
  }

  async describe(name: string): Promise<Blob> {
    return (await this.find(name)) ?? this.#refuse(66, `has no ${name}`);
  }

  /** The file with all weights, or the files that the index lists and the index, which is fetched here to be read. */
  async weights(): Promise<readonly Blob[]> {
    const sole = await this.find(soleWeightFile);
    if (sole !== undefined) return [sole];
    const index = await this.find(weightIndex);
    if (index === undefined) return this.#refuse(...(await this.#whyNoWeights()));
    await this.#fetch(index);
    const blobs = [];
    for (const shard of this.#shardsOf(this.#link(index))) blobs.push(await this.describe(shard));
    return [...blobs, index];
  }

  /** Fetches all blobs, then names them in this order. Returns the folder's path. */
  async fetch(blobs: readonly Blob[]): Promise<string> {
    for (const blob of blobs) await this.#fetch(blob);
    for (const blob of blobs) this.#link(blob);
    this.#cache.setMain(this.#commit);
    if (!this.#isNew) this.#options.output.write(`${this.#model.name} is already there.\n`);
    return this.#cache.snapshotPath(this.#commit);
  }

  async #fetch(blob: Blob): Promise<void> {
    if (await fetchBlob(blob, this.#options)) this.#isNew = true;
  }

  #link({ file, remote }: Blob): string {
    return this.#cache.link(remote.hash, this.#commit, file.path);
  }

  #shardsOf(indexPath: string): readonly string[] {
    try {
      return readShards(indexPath) ?? [];
    } catch (error) {
      if (!(error instanceof FolderError)) throw error;
      return this.#refuse(65, `cannot be used: ${error.message}`);
    }
  }

  async #whyNoWeights(): Promise<[65 | 66, string]> {
    for (const name of pickles) {
      if ((await this.#client.find(fileIn(this.#model, name), this.#commit)) === undefined) continue;
      return [65, `has its weights as a pickle alone (${name}), ${whyNoPickle}; ask for safetensors`];
    }
    return [
      66,
      `has neither ${weightFiles.join(' nor ')}; write ${this.#model.name}/FILE.gguf for a GGUF file`,
    ];
  }

  #refuse(exitCode: 65 | 66, why: string): never {
    throw new PullError(exitCode, `${this.#model.name} ${why}.`);
  }
}
