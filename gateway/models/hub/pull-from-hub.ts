/** Fetches a model from a hub, a file or a folder, into the cache of Hugging Face's own tools. */
import { asSystemFault, PullError } from '../pull-error.ts';
import { type BlobOptions, fetchBlob } from './fetch-blob.ts';
import { fetchFolder } from './fetch-folder.ts';
import { HubCache } from './hub-cache.ts';
import { HubClient, TransferError } from './hub-client.ts';
import { fileIn, type HubFile, parseHubName } from './hub-file.ts';
import { hubFolder } from './hub-folder.ts';

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
