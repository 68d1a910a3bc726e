import { rmSync } from 'node:fs';
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { ApiError } from '../errors/api-error.ts';
import { callerSchema } from '../journal/records.ts';
import type { Caller } from '../system/caller.ts';
import { SharedLimit } from '../system/fair-shares.ts';
import { replaceFile, syncFolder } from '../system/synced-file.ts';
import type { Log } from '../telemetry/log.ts';
import { RECORD, readRecords } from './records.ts';

/**
 * Files of clients in a folder: the content of each, and a record beside it. The content is on the disk before its record, and the
 * record goes first, so a file that has a record is whole. What a death leaves without a record is removed at the next start.
 */

/** The most files of all callers together, by their shares. */
export const maxFiles = 10_000;
const CONTENT = '.jsonl';

const recordSchema = z.strictObject({
  id: z.string(),
  /** As in callersOf(). A caller cannot find the files of others. */
  owner: z.string(),
  /** Whose share of the room it takes. */
  sharer: callerSchema,
  filename: z.string(),
  purpose: z.enum(['batch', 'batch_output']),
  bytes: z.int().nonnegative(),
  /** Milliseconds since 1970. */
  createdMs: z.number(),
});
export type StoredFile = Readonly<z.output<typeof recordSchema>>;

export interface FileBounds {
  /** Of a file that a client sends. */
  readonly maxFileBytes: number;
  /** Of all files together, by their callers' shares. */
  readonly maxBytes: number;
}

type NewFile = Omit<StoredFile, 'bytes' | 'createdMs'>;

export class FileStore {
  readonly #folder: string;
  readonly #bounds: FileBounds;
  readonly #now: () => number;
  readonly #files = new Map<string, StoredFile>();
  readonly #bytes: SharedLimit;
  readonly #count = new SharedLimit(maxFiles);

  /** The folder is made for the first file. Only one process may have it open. Throws what the system throws. */
  constructor(folder: string, bounds: FileBounds, now: () => number, log: Log) {
    this.#folder = folder;
    this.#bounds = bounds;
    this.#now = now;
    this.#bytes = new SharedLimit(bounds.maxBytes);
    const { records, names } = readRecords(folder, recordSchema, log);
    for (const file of records) {
      this.#files.set(file.id, file);
      this.hold(file.sharer, file.bytes);
      this.#count.hold(file.sharer, 1);
    }
    for (const name of names) {
      if (!name.endsWith(CONTENT)) continue;
      const id = name.slice(0, -CONTENT.length);
      if (!names.has(id + RECORD)) rmSync(join(folder, name), { force: true });
    }
  }

  get numFiles(): number {
    return this.#files.size;
  }

  /** With what is held of the room by results of batches. */
  get numBytes(): number {
    return this.#bytes.total;
  }

  get maxFileBytes(): number {
    return this.#bounds.maxFileBytes;
  }

  /** The files of these owners, the newest first. */
  of(owners: readonly string[]): readonly StoredFile[] {
    const found = [...this.#files.values()].filter(({ owner }) => owners.includes(owner));
    return found.sort(newestFirst);
  }

  find(owners: readonly string[], id: string): StoredFile | undefined {
    const file = this.#files.get(id);
    return file !== undefined && owners.includes(file.owner) ? file : undefined;
  }

  pathOf({ id }: Pick<StoredFile, 'id'>): string {
    return join(this.#folder, id + CONTENT);
  }

  #recordPathOf({ id }: Pick<StoredFile, 'id'>): string {
    return join(this.#folder, id + RECORD);
  }

  /** Begins a file, or one again that a death has cut off. Throws an ApiError if there are too many. */
  async begin(file: NewFile): Promise<FileWriter> {
    if (!this.#count.hasRoom(file.sharer, 1))
      throw filesFull(`There are ${this.#count.total} files, and ${maxFiles} are the most that are kept`);
    this.#count.hold(file.sharer, 1);
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      return new FileWriter(await open(this.pathOf(file), 'w', 0o600), file, this);
    } catch (error) {
      this.#count.release(file.sharer, 1);
      throw error;
    }
  }

  /** Keeps a file whose content is on the disk. Its room is held. */
  async keep(file: NewFile, bytes: number): Promise<StoredFile> {
    const kept = { ...file, bytes, createdMs: this.#now() };
    await replaceFile(this.#recordPathOf(file), JSON.stringify(kept));
    this.#files.set(file.id, kept);
    return kept;
  }

  async discard(file: NewFile, bytes: number): Promise<void> {
    this.release(file.sharer, bytes);
    this.#count.release(file.sharer, 1);
    // It is there if the disk refused what comes after its writing.
    await rm(this.#recordPathOf(file), { force: true });
    await rm(this.pathOf(file), { force: true });
  }

  async delete(file: StoredFile): Promise<void> {
    if (!this.#files.delete(file.id)) return;
    await rm(this.#recordPathOf(file), { force: true });
    await syncFolder(this.#folder);
    await this.discard(file, file.bytes);
  }

  /** Throws an ApiError if there is no room for this many bytes more. */
  requireRoom(sharer: Caller, bytes: number): void {
    if (this.#bytes.hasRoom(sharer, bytes)) return;
    throw filesFull(
      `Files take ${this.#bytes.total} bytes, and ${bytes} more would exceed --files-max-bytes ${this.#bounds.maxBytes}`,
    );
  }

  hold(sharer: Caller, bytes: number): void {
    this.#bytes.hold(sharer, bytes);
  }

  release(sharer: Caller, bytes: number): void {
    this.#bytes.release(sharer, bytes);
  }
}

/** A file that is being written. Ends with keep() or discard(). */
export class FileWriter {
  readonly #handle: FileHandle;
  readonly #file: NewFile;
  readonly #store: FileStore;
  #bytes = 0;
  #isOver = false;

  constructor(handle: FileHandle, file: NewFile, store: FileStore) {
    this.#handle = handle;
    this.#file = file;
    this.#store = store;
  }

  /** Throws an ApiError for bytes beyond the bounds. What a batch writes is bounded where its results are. */
  async write(bytes: Uint8Array): Promise<void> {
    const { purpose, sharer } = this.#file;
    const { maxFileBytes } = this.#store;
    if (purpose === 'batch' && this.#bytes + bytes.length > maxFileBytes) throw fileTooLarge(maxFileBytes);
    if (purpose === 'batch') this.#store.requireRoom(sharer, bytes.length);
    this.#store.hold(sharer, bytes.length);
    this.#bytes += bytes.length;
    await this.#handle.writeFile(bytes);
  }

  /** When this resolves, the file is on the disk. If it rejects, the file is to be discarded. */
  async keep(): Promise<StoredFile> {
    await this.#handle.sync();
    const kept = await this.#store.keep(this.#file, this.#bytes);
    await this.#close();
    return kept;
  }

  /** Does nothing to a file that is kept. */
  async discard(): Promise<void> {
    if (this.#isOver) return;
    await this.#close();
    await this.#store.discard(this.#file, this.#bytes);
  }

  async #close(): Promise<void> {
    this.#isOver = true;
    await this.#handle.close();
  }
}

/** The order of lists. */
export function newestFirst(a: { readonly id: string; readonly createdMs: number }, b: typeof a): number {
  return b.createdMs - a.createdMs || (a.id < b.id ? 1 : -1);
}

export function fileTooLarge(maxFileBytes: number): ApiError {
  const message = `The file has more than ${maxFileBytes} bytes, the limit (--max-file-bytes): split it, a batch for each part.`;
  return new ApiError({ status: 413, code: 'file_too_large', message });
}

function filesFull(why: string): ApiError {
  const message = `${why}: delete files that are not needed any more (DELETE /v1/files/ID).`;
  return new ApiError({ status: 503, code: 'files_full', message });
}
