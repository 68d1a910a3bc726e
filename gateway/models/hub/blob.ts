/** Brings the bytes of one file of a hub into the cache. */
import { createHash } from 'node:crypto';
import { createReadStream, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { withLock } from '../../system/file-lock.ts';
import { syncFolder } from '../../system/synced-file.ts';
import { Progress, type ProgressOutput, PullError, waitingFor } from '../pull-report.ts';
import type { HubCache } from './hub-cache.ts';
import { type HubClient, type RemoteFile, reasonOf, TransferError } from './hub-client.ts';
import { type HubFile, isGitId } from './hub-file.ts';

interface DownloadLimits {
  /** Attempts in a row that bring no byte before the download fails. */
  readonly maxVainAttempts: number;
  /** Delay before the second attempt; doubles with each attempt that brings no byte. */
  readonly firstDelayMs: number;
  /** The longest wait for the next piece of a file. */
  readonly stallTimeoutMs: number;
}

const defaultDownloadLimits: DownloadLimits = {
  maxVainAttempts: 5,
  firstDelayMs: 1000,
  stallTimeoutMs: 30_000,
};

interface Download {
  readonly client: HubClient;
  readonly cache: HubCache;
  readonly file: HubFile;
  readonly remote: RemoteFile;
  readonly limits: DownloadLimits;
  readonly onBytes: (bytes: number) => void;
}

/**
 * Downloads one blob into a part file and checks it. An interrupted download goes on where it stopped, however often that
 * happens. The blob gets its name only when its hash is right and it is on the disk.
 */
async function downloadBlob(download: Download): Promise<void> {
  const { cache, file, remote, limits } = download;
  const part = cache.partPath(remote.hash);
  for (let vain = 0; sizeOf(part) < remote.bytes; ) {
    const before = sizeOf(part);
    try {
      await fetchRest(download, part);
      break;
    } catch (error) {
      if (!(error instanceof TransferError)) throw error;
      vain = sizeOf(part) > before ? 1 : vain + 1;
      if (vain >= limits.maxVainAttempts)
        throw new PullError(
          69,
          `Fetching ${file.name} failed ${vain} times without a byte: ${error.message}. Run it again to go on after ${sizeOf(part)} of ${remote.bytes} bytes.`,
          { cause: error },
        );
      await sleep(limits.firstDelayMs * 2 ** (vain - 1));
    }
  }
  const actual = await hashOf(part, remote);
  if (actual !== remote.hash) {
    rmSync(part, { force: true });
    rmSync(etagPath(part), { force: true });
    throw new PullError(
      65,
      `${file.name} arrived with ${isInGit(remote) ? 'the git id' : 'sha256'} ${actual}, but ${remote.hash} was promised; it has been removed.`,
    );
  }
  renameSync(part, cache.blobPath(remote.hash));
  rmSync(etagPath(part), { force: true });
  await syncFolder(dirname(part));
}

/** Sends one request and appends the missing bytes, or starts the part anew if the store has other bytes than before. */
async function fetchRest({ client, file, remote, limits, onBytes }: Download, part: string): Promise<void> {
  const ifRange = etagOf(part);
  const offset = ifRange === undefined ? 0 : sizeOf(part);
  const response = await client.fetch(file, remote.commit, { offset, ifRange });
  const isResumed = response.status === 206;
  if (response.status === 416 || (isResumed && !continues(response, offset, remote.bytes))) {
    await response.body?.cancel();
    rmSync(etagPath(part), { force: true });
    throw new TransferError(`the store cannot go on after byte ${offset}`);
  }
  const handle = await open(part, isResumed ? 'a' : 'w');
  try {
    if (!isResumed) rememberEtag(part, response.headers.get('etag'));
    let bytes = isResumed ? offset : 0;
    for await (const chunk of pieces(response, limits.stallTimeoutMs)) {
      bytes += chunk.length;
      if (bytes > remote.bytes)
        throw new PullError(65, `${file.name} has more than the ${remote.bytes} bytes that were promised.`);
      await handle.appendFile(chunk);
      onBytes(bytes);
    }
    if (bytes < remote.bytes) throw new TransferError(`the connection ended after ${bytes} bytes`);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function* pieces(response: Response, stallTimeoutMs: number): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  try {
    for (;;) {
      const timer = setTimeout(() => void reader.cancel('stalled').catch(() => {}), stallTimeoutMs);
      const { value, done } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      yield value;
    }
  } catch (error) {
    throw new TransferError(`the connection broke: ${reasonOf(error)}`, { cause: error });
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Whether Content-Range is exactly the range that was asked for. */
function continues(response: Response, offset: number, bytes: number): boolean {
  return response.headers.get('content-range') === `bytes ${offset}-${bytes - 1}/${bytes}`;
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** The file that holds the ETag of a part. Without it the part cannot be continued. */
function etagPath(part: string): string {
  return `${part}.etag`;
}

function etagOf(part: string): string | undefined {
  try {
    return readFileSync(etagPath(part), 'utf8') || undefined;
  } catch {
    return undefined;
  }
}

/** A weak ETag does not promise the same bytes, so it is not stored. */
function rememberEtag(part: string, etag: string | null): void {
  writeFileSync(etagPath(part), etag === null || etag.startsWith('W/') ? '' : etag);
}

function isInGit({ hash }: RemoteFile): boolean {
  return isGitId(hash);
}

/** Computes the kind of hash that the hub promised. A git id hashes a header, then the bytes. */
async function hashOf(path: string, remote: RemoteFile): Promise<string> {
  const hash = isInGit(remote) ? createHash('sha1').update(`blob ${remote.bytes}\0`) : createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return hash.digest('hex');
}

export interface BlobOptions {
  readonly output: ProgressOutput;
  readonly limits?: DownloadLimits;
}

export type Blob = Pick<Download, 'client' | 'cache' | 'file' | 'remote'>;

/**
 * Makes sure that the bytes of a file are in the cache, whichever process fetches them. Returns whether they had to be fetched.
 * Throws PullError or TransferError.
 */
export async function fetchBlob(blob: Blob, options: BlobOptions): Promise<boolean> {
  const { cache, file, remote } = blob;
  const { output, limits = defaultDownloadLimits } = options;
  cache.prepare(remote.hash);
  return withLock(cache.lockPath(remote.hash), waitingFor(file.name, output), async () => {
    if (sizeOf(cache.blobPath(remote.hash)) === remote.bytes) return false;
    const progress = new Progress(`Downloading ${file.name}`, remote.bytes, output);
    await downloadBlob({ ...blob, limits, onBytes: (bytes) => progress.update(bytes) });
    progress.done();
    return true;
  });
}
