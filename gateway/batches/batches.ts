import { rmSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ApiError } from '../errors/api-error.ts';
import { messageOf } from '../errors/thrown.ts';
import { SharedLimit } from '../system/fair-shares.ts';
import { replaceFile, syncFolder } from '../system/synced-file.ts';
import type { BatchFigures } from '../telemetry/metrics.ts';
import { type BatchRecord, batchRecordSchema, hasEnded } from './batch.ts';
import { BatchRun, type BatchRunDeps, type LineRoutes, resultsPath } from './batch-run.ts';
import { type FileBounds, FileStore, newestFirst } from './file-store.ts';
import { LineSlots } from './line-slots.ts';
import { RECORD, readRecords } from './records.ts';

/** The most batches that have not ended, of all callers together, by their shares. */
export const maxOpenBatches = 256;
/** The most batches of a caller that are kept. One more has its oldest ended one forgotten, not its files. */
export const maxKeptBatches = 1000;

export interface BatchBounds extends FileBounds {
  /** The most lines that a model answers at once, of all batches together; up to twice as many for callers that come later. */
  readonly maxOpenLines: number;
  readonly maxLineBytes: number;
}

export interface BatchesOptions extends BatchBounds, Pick<BatchRunDeps, 'log' | 'now' | 'clock'> {}

/** What a caller asks for; ids and times are added. */
export type NewBatch = Pick<
  BatchRecord,
  'id' | 'owner' | 'sharer' | 'cacheSalt' | 'endpoint' | 'inputFileId' | 'window' | 'metadata'
>;

interface Kept {
  readonly record: BatchRecord;
  /** While it is under way. */
  readonly run?: BatchRun | undefined;
}

/** All batches and files, in a folder beside the journal. */
export class Batches {
  readonly #options: BatchesOptions;
  readonly #slots: LineSlots;
  readonly #batches = new Map<string, Kept>();
  #opened: { readonly folder: string; readonly files: FileStore } | undefined;
  #routes: LineRoutes | undefined;
  #isStopping = false;

  constructor(options: BatchesOptions) {
    this.#options = options;
    this.#slots = new LineSlots(options.maxOpenLines, 2 * maxOpenBatches);
  }

  /** Batches that have not ended, of all callers. */
  get unfinished(): readonly BatchRecord[] {
    return [...this.#batches.values()].map(recordOf).filter((record) => !hasEnded(record));
  }

  /** Undefined if none are kept. */
  get stats(): BatchFigures | undefined {
    if (this.#opened === undefined) return undefined;
    const { numFiles, numBytes } = this.#opened.files;
    const open = this.unfinished;
    const numLinesLeft = open.reduce(
      (sum, each) => sum + each.numLines - each.numCompleted - each.numFailed,
      0,
    );
    return { numFiles, numBytes, numOpen: open.length, numLinesLeft };
  }

  /** Whoever has the journal has the folder, which is made for the first file. Throws what the system throws. */
  open(folder: string): void {
    const { log, now } = this.#options;
    const files = new FileStore(join(folder, 'files'), this.#options, now, log);
    const ofBatches = join(folder, 'batches');
    for (const record of readRecords(ofBatches, batchRecordSchema, log).records) {
      this.#batches.set(record.id, { record });
      if (hasEnded(record)) rmSync(resultsPath(ofBatches, record.id), { force: true });
    }
    this.#opened = { folder: ofBatches, files };
    this.#runAll();
  }

  /** Begins, or goes on, with all batches that have not ended. */
  serve(routes: LineRoutes): void {
    this.#routes = routes;
    this.#runAll();
  }

  #runAll(): void {
    if (this.#routes === undefined || this.#opened === undefined) return;
    for (const { record, run } of [...this.#batches.values()])
      if (run === undefined && !hasEnded(record)) this.#run(record);
  }

  #run(record: BatchRecord): void {
    const { folder, files } = this.#mustBeOpen();
    const routes = this.#routes;
    if (routes === undefined || this.#isStopping) return;
    const slots = this.#slots;
    const keep = (next: BatchRecord): Promise<void> => this.#write(next);
    const run = new BatchRun(record, { ...this.#options, folder, files, slots, routes, keep });
    this.#batches.set(record.id, { record, run });
    // What the run knows of each line is not needed any more.
    void run.done.then(() => {
      if (this.#batches.has(record.id)) this.#batches.set(record.id, { record: run.record, run: undefined });
    });
  }

  get files(): FileStore {
    return this.#mustBeOpen().files;
  }

  #mustBeOpen(): { readonly folder: string; readonly files: FileStore } {
    if (this.#opened !== undefined) return this.#opened;
    const message =
      'Files and batches are kept beside the journal, which this server does not have now: it was started with --journal-dir off, or its log says why.';
    throw new ApiError({ status: 501, code: 'not_supported', message });
  }

  /** When this resolves, the batch is kept, whatever happens to this process. Throws an ApiError if there are too many. */
  async create(batch: NewBatch): Promise<BatchRecord> {
    const { sharer } = batch;
    const open = new SharedLimit(maxOpenBatches);
    for (const record of this.unfinished) open.hold(record.sharer, 1);
    if (!open.hasRoom(sharer, 1)) throw tooMany(open.total);
    const ended = this.#newestFirst((record) => record.sharer.name === sharer.name).slice(maxKeptBatches - 1);
    const createdMs = this.#options.now();
    const record: BatchRecord = {
      ...batch,
      ...{ status: 'validating', createdMs, reachedMs: {}, numLines: 0, numCompleted: 0, numFailed: 0 },
    };
    this.#batches.set(record.id, { record });
    try {
      await mkdir(this.#mustBeOpen().folder, { recursive: true, mode: 0o700 });
      await this.#write(record);
    } catch (error) {
      this.#batches.delete(record.id);
      throw error;
    }
    this.#run(record);
    for (const each of ended) if (hasEnded(each)) void this.#forget(each);
    return record;
  }

  find(owners: readonly string[], id: string): BatchRecord | undefined {
    const kept = this.#batches.get(id);
    const record = kept && recordOf(kept);
    return record !== undefined && owners.includes(record.owner) ? record : undefined;
  }

  /** The batches of these owners, the newest first. */
  of(owners: readonly string[]): readonly BatchRecord[] {
    return this.#newestFirst(({ owner }) => owners.includes(owner));
  }

  #newestFirst(isWanted: (record: BatchRecord) => boolean): BatchRecord[] {
    const found = [...this.#batches.values()].map(recordOf).filter(isWanted);
    return found.sort(newestFirst);
  }

  /** When this resolves, the cancel is kept. Returns false if the batch goes on to another end, or has had it. */
  async cancel(id: string): Promise<boolean> {
    return (await this.#batches.get(id)?.run?.cancel()) ?? false;
  }

  /** The batch that has not ended and reads this file. */
  readerOf(fileId: string): BatchRecord | undefined {
    return this.unfinished.find((record) => record.inputFileId === fileId);
  }

  /** Leaves unfinished batches to the next process. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all([...this.#batches.values()].map(({ run }) => run?.stop()));
  }

  #write(record: BatchRecord): Promise<void> {
    return replaceFile(this.#pathOf(record), JSON.stringify(record));
  }

  /** If the disk refuses, the next process finds the record, and forgets it in its turn. */
  async #forget(record: BatchRecord): Promise<void> {
    this.#batches.delete(record.id);
    try {
      await rm(this.#pathOf(record), { force: true });
      await syncFolder(this.#mustBeOpen().folder);
    } catch (error) {
      const msg = `The record of an old batch cannot be removed: ${messageOf(error)}`;
      this.#options.log.warn({ event: 'batch_not_forgotten', batch_id: record.id, msg });
    }
  }

  #pathOf({ id }: BatchRecord): string {
    return join(this.#mustBeOpen().folder, id + RECORD);
  }
}

function recordOf({ record, run }: Kept): BatchRecord {
  return run?.record ?? record;
}

function tooMany(numOpen: number): ApiError {
  const message = `There are ${numOpen} batches that have not ended, and ${maxOpenBatches} are the most at once: wait for the end of one, or cancel one.`;
  return new ApiError({ status: 429, code: 'too_many_batches', message, retriable: true, retryAfterSec: 60 });
}
