/** Fetches a model file of a hub into the cache that Hugging Face's own tools use. */
import { statSync } from 'node:fs';
import { lockFile } from '../file-lock.ts';
import { Progress, type ProgressOutput } from '../progress.ts';
import { asSystemFault, PullError } from '../pull-error.ts';
import { type DownloadLimits, defaultDownloadLimits, downloadBlob } from './download.ts';
import { HubCache, hubFolder } from './hub-cache.ts';
import { HubClient, TransferError } from './hub-client.ts';
import { type HubFile, parseHubName } from './hub-file.ts';

export const DEFAULT_ENDPOINT = 'https://huggingface.co';

export interface HubOptions {
  readonly endpoint: string;
  readonly token: string | undefined;
  readonly output: ProgressOutput;
  readonly limits?: DownloadLimits;
}

/** The path of the model's file. Throws PullError, or UsageError for a name or an address that is none. */
export async function pullFromHub(name: string, options: HubOptions): Promise<string> {
  const file = parseHubName(name);
  const client = new HubClient(options.endpoint, options.token);
  try {
    return await fetchFile(client, file, options);
  } catch (error) {
    if (error instanceof TransferError) throw new PullError(69, `${error.message}.`, { cause: error });
    throw asSystemFault(name, hubFolder(), error);
  }
}

async function fetchFile(client: HubClient, file: HubFile, options: HubOptions): Promise<string> {
  const { output, limits = defaultDownloadLimits } = options;
  const cache = new HubCache(file);
  const remote = await client.describe(file);
  cache.prepare(remote.sha256, remote.commit);
  const unlock = await lockFile(cache.lockPath(remote.sha256), (ownerPid) =>
    output.write(`Process ${ownerPid} is fetching ${file.name}; waiting for it.\n`),
  );
  try {
    const blob = statSync(cache.blobPath(remote.sha256), { throwIfNoEntry: false });
    if (blob?.size === remote.bytes) output.write(`${file.name} is already there.\n`);
    else {
      const progress = new Progress(`Downloading ${file.name}`, remote.bytes, output);
      const onBytes = (bytes: number) => progress.update(bytes);
      await downloadBlob({ client, cache, file, remote, limits, onBytes });
      progress.done();
    }
    return cache.link(remote.sha256, remote.commit);
  } finally {
    unlock();
  }
}
