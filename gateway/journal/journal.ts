import { randomBytes } from 'node:crypto';
import { messageOf } from '../errors/thrown.ts';
import { type Clock, systemClock, type Timer } from '../system/clock.ts';
import {
  bytesOf,
  type Entry,
  endKey,
  entryOf,
  isKnown,
  type JournalEntry,
  KEY_LENGTH,
  keyOf,
  nameOf,
  parkingKey,
  pieceKey,
  startKey,
} from './entry.ts';
import {
  DamagedJob,
  JournalError,
  JournalRefusal,
  JournalUnavailable,
  passingReasonOf,
} from './journal-error.ts';
import {
  type EndRecord,
  emptyContent,
  type JobRecord,
  type ParkingRecord,
  packEnd,
  packPiece,
  packRecord,
  packStart,
  unpackEnd,
  unpackParking,
  unpackPiece,
  unpackRecord,
  unpackStart,
} from './records.ts';
import { NoRoom, type RoomBounds, roomFor } from './room.ts';
import { JournalStore, type Store, type Write } from './store.ts';
import type { TokenLogContent } from './token-log.ts';

/**
 * Keeps jobs in a folder. The record of a request is synced to the disk before its first token is computed; tokens are written
 * later, those of all jobs together. A token that was sent but not written is computed again and is the same.
 */

/**
 * Milliseconds from the first unwritten token to the next write, or from the end of the write before. Only one write runs at a
 * time.
 */
export const commitMs = 50;
/** Milliseconds between searches for jobs that are due to be forgotten. */
export const sweepMs = 10_000;
/** The version of the format on disk. A journal of another version is refused. */
const FORMAT = 2;
const SECRET_BYTES = 32;

export interface JournalBounds extends RoomBounds {
  /** A job is kept this long after its end. A job that has not ended is given up this long after its beginning. */
  readonly keepMs: number;
}

export interface JournalOptions extends JournalBounds {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly clock?: Clock;
  /** Opens the store in the folder; by default that on the disk. */
  readonly openStore?: (folder: string) => Promise<Store>;
  /** Called once, when nothing can be written any more. */
  readonly onFailed: (error: unknown) => void;
  /** Called for a job that is damaged, and is removed. key: where it is stored. */
  readonly onDamaged: (key: string, reason: string) => void;
  /** Called for a job that another version has written, and that is left to it. */
  readonly onUnknown: (key: string, reason: string) => void;
  /** Called if bytes could not be read and were dropped when the journal was opened, with whatever was in them. */
  readonly onDropped: (numBytes: number) => void;
}

export interface Journalled {
  readonly entry: JournalEntry;
  /** Returns the writes since the last call. end: set once, together with the last writes. */
  takeWrites(): TakenWrites;
  /** Called when the job's end is on disk. */
  onEndKept(): void;
}

export interface TakenWrites {
  readonly writes: Write[];
  /** The bytes of earlier writes that these replace. */
  readonly numReplacedBytes: number;
  readonly end: EndRecord | undefined;
  /** Whether a client is told that they are kept. Another process would compute the end of an answer again, but not a cancel. */
  readonly isPromised: boolean;
}

/** Room for a job that is not written yet. */
export interface Reservation {
  readonly entry: Entry;
  /** The job's record. */
  readonly packed: Uint8Array;
}

export interface JournalStats {
  readonly numJobs: number;
  readonly numBytes: number;
  readonly isFailed: boolean;
}

export interface KeptJob {
  readonly record: JobRecord;
  readonly content: TokenLogContent;
  readonly endedMs: number | undefined;
  readonly parking?: ParkingRecord | undefined;
  /** The gateways that died while they computed the job, and of which none added a token. */
  readonly numDeaths: number;
}

export class Journal {
  readonly #store: Store;
  readonly #options: JournalOptions;
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();
  readonly #dirty = new Set<Journalled>();
  /** The write under way, if any. forget() waits for it, or the write would bring the job back. */
  #writing: Promise<void> | undefined;
  /** The removals under way, by the keys of their jobs. */
  readonly #removals = new Map<string, Promise<boolean>>();
  #timer: Timer | undefined;
  #sweeper: Timer | undefined;
  #nextNumber = 1;
  #isFailed = false;
  #isClosed = false;
  /** The secret that callerOf() hashes API keys with. It stays the same as long as the folder exists. */
  #secret: Uint8Array = new Uint8Array();

  private constructor(store: Store, options: JournalOptions) {
    this.#store = store;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Throws JournalError if the folder cannot be used, and JournalUnavailable if the disk is full or does not answer. */
  static async open(folder: string, options: JournalOptions): Promise<Journal> {
    try {
      return await Journal.#open(folder, options);
    } catch (error) {
      const reason = passingReasonOf(error);
      if (reason === undefined) throw error;
      const message = `The journal in ${folder} cannot be opened now: ${reason}.`;
      throw new JournalUnavailable(message, { cause: error });
    }
  }

  static async #open(folder: string, options: JournalOptions): Promise<Journal> {
    const { openStore = JournalStore.open } = options;
    const store = await openStore(folder);
    const journal = new Journal(store, options);
    try {
      await journal.#readAll(folder);
    } catch (error) {
      await store.close();
      throw error;
    }
    if (store.numDroppedBytes > 0) options.onDropped(store.numDroppedBytes);
    journal.#armSweeper();
    return journal;
  }

  get secret(): Uint8Array {
    return this.#secret;
  }

  get stats(): JournalStats {
    return {
      numJobs: this.#entries.size,
      numBytes: sum([...this.#entries.values()].map(({ numBytes }) => numBytes)),
      isFailed: this.#isFailed,
    };
  }

  find(caller: string, id: string): JournalEntry | undefined {
    const entry = this.#entries.get(nameOf({ caller, id }));
    // A job whose record is not yet written cannot be found.
    return entry?.numBytes === 0 ? undefined : entry;
  }

  has(entry: JournalEntry): boolean {
    return this.#entries.get(nameOf(entry))?.key === entry.key;
  }

  /** The job that the request with this Idempotency-Key began. */
  findByKey(idempotencyKey: string): JournalEntry | undefined {
    const found = [...this.#entries.values()].find((entry) => entry.idempotencyKey === idempotencyKey);
    return found?.numBytes === 0 ? undefined : found;
  }

  /** Jobs that have not ended, oldest first. Right after open() these are the jobs of an earlier process. */
  get unfinished(): readonly JournalEntry[] {
    return [...this.#entries.values()].filter(({ endedMs }) => endedMs === undefined);
  }

  /**
   * Keeps a job that starts at once. When this resolves, its record is on the disk. Its id and its key must be new. Throws
   * JournalRefusal.
   */
  async admit(record: JobRecord): Promise<JournalEntry> {
    const { entry, packed } = this.reserve(record);
    try {
      const started = packStart({ numTokens: 0, numStarts: 1 });
      const writes: Write[] = [
        { type: 'put', key: `${entry.key}r`, value: packed },
        { type: 'put', key: startKey(entry), value: started },
      ];
      entry.numBytes += await this.#store.write(writes, true);
    } catch (error) {
      this.release(entry);
      this.#fail(error);
      throw this.#refusal();
    }
    return entry;
  }

  /** Makes room for a job, of which nothing is written, and which cannot be found yet. Throws JournalRefusal. */
  reserve(record: JobRecord): Reservation {
    const name = nameOf(record);
    if (this.#isClosed)
      throw new JournalRefusal('failed', 'The server is stopping and accepts no durable jobs.');
    if (this.#entries.has(name)) throw new Error(`The journal already has a job ${record.id}.`);
    const packed = packRecord(record);
    const entry = entryOf(keyOf(this.#nextNumber++), record, packed.length);
    this.#makeRoom(entry);
    this.#entries.set(name, entry);
    return { entry, packed };
  }

  /** Gives the room back. What the disk has of the job stays there. */
  release(entry: JournalEntry): void {
    this.#entries.delete(nameOf(entry));
  }

  /** Writes a job that has ended, whole. Returns false, and gives its room back, if it cannot be written. */
  async fill(
    { entry, packed }: Reservation,
    content: Readonly<TokenLogContent>,
    end: EndRecord,
  ): Promise<boolean> {
    const writes: Write[] = [
      { type: 'put', key: `${entry.key}r`, value: packed },
      { type: 'put', key: pieceKey(entry, 0), value: packPiece(content, 0) },
      { type: 'put', key: endKey(entry), value: packEnd(end) },
    ];
    try {
      if (this.#isFailed || this.#isClosed) throw this.#refusal();
      entry.numBytes += await this.#store.write(writes, false);
    } catch (error) {
      this.release(entry);
      if (!this.#isClosed) this.#fail(error);
      return false;
    }
    entry.endedMs = end.endedMs;
    entry.reservedBytes = entry.numBytes;
    return true;
  }

  /** Marks the job as having something to be written. Repeated calls before the next write cost nothing. */
  touch(job: Journalled): void {
    if (this.#isClosed) return;
    this.#dirty.add(job);
    if (this.#writing === undefined) this.#timer ??= this.#clock.after(commitMs, () => void this.flush());
  }

  /** Writes what has been marked by touch(). */
  async flush(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    while (this.#writing !== undefined) await this.#writing;
    if (this.#dirty.size === 0 || this.#isClosed) return;
    this.#writing = this.#commit().finally(() => {
      this.#writing = undefined;
      if (this.#dirty.size > 0 && !this.#isClosed)
        this.#timer ??= this.#clock.after(commitMs, () => void this.flush());
    });
    await this.#writing;
  }

  /** The same. Throws JournalRefusal if the writes have failed. */
  async confirm(): Promise<void> {
    await this.flush();
    this.assertWritable();
  }

  /** Throws JournalRefusal once nothing can be written any more. */
  assertWritable(): void {
    if (this.#isFailed) throw this.#refusal();
  }

  /** Reads all that is kept of a job. Throws DamagedJob, and another error if this version cannot read it. */
  async read({ key, endedMs }: JournalEntry): Promise<KeptJob> {
    await this.flush();
    const record = unpackRecord(whole(await this.#store.get(`${key}r`)));
    const content = emptyContent(record.request);
    for await (const { value } of this.#store.range(`${key}t`)) unpackPiece(whole(value), content);
    if (endedMs !== undefined) content.end = unpackEnd(whole(await this.#store.get(`${key}z`))).end;
    const started = await this.#store.get(`${key}s`);
    const parked = await this.#store.get(parkingKey({ key }));
    const parking = parked === undefined ? undefined : unpackParking(whole(parked));
    const last = started === undefined ? undefined : unpackStart(whole(started));
    const numDeaths = last?.numTokens === content.tokenIds.length ? last.numStarts : 0;
    return { record, content, endedMs, parking, numDeaths };
  }

  /** When this resolves, the job is gone from the disk. Throws JournalRefusal if the disk still has it; then it is still here, too. */
  async forget(entry: JournalEntry): Promise<void> {
    if (!(await this.#forget(entry, true))) throw this.#refusal();
  }

  /** Returns false if the disk still has the job. */
  async #forget(entry: JournalEntry, isSynced: boolean): Promise<boolean> {
    const { key } = entry;
    const removing = this.#removals.get(key);
    if (removing !== undefined) return removing;
    const name = nameOf(entry);
    const kept = this.#entries.get(name);
    if (this.#isClosed || kept?.key !== key) return true;
    this.#entries.delete(name);
    for (const job of this.#dirty) if (job.entry.key === key) this.#dirty.delete(job);
    const removal = this.#remove(key, isSynced);
    this.#removals.set(key, removal);
    const isGone = await removal;
    this.#removals.delete(key);
    if (!isGone && !this.#entries.has(name)) this.#entries.set(name, kept);
    return isGone;
  }

  async #remove(key: string, isSynced: boolean): Promise<boolean> {
    while (this.#writing !== undefined) await this.#writing;
    try {
      await this.#store.remove(key, isSynced);
      return true;
    } catch (error) {
      this.#fail(error);
      return false;
    }
  }

  async close(): Promise<void> {
    await this.flush();
    this.#isClosed = true;
    this.#sweeper?.cancel();
    this.#timer?.cancel();
    while (this.#writing !== undefined) await this.#writing;
    await Promise.all(this.#removals.values());
    await this.#store.close();
  }

  async #commit(): Promise<void> {
    const written: { readonly job: Journalled; readonly end: EndRecord | undefined; numBytes: number }[] = [];
    try {
      const writes: Write[] = [];
      let isSynced = false;
      for (const job of this.#dirty) {
        const taken = job.takeWrites();
        const numBytes = sum(taken.writes.map(bytesOf)) - taken.numReplacedBytes;
        writes.push(...taken.writes);
        isSynced ||= taken.isPromised;
        written.push({ job, end: taken.end, numBytes });
      }
      this.#dirty.clear();
      if (this.#isFailed) return;
      await this.#store.write(writes, isSynced);
    } catch (error) {
      this.#dirty.clear();
      this.#fail(error);
      return;
    }
    for (const { job, end, numBytes } of written) {
      const entry = this.#entries.get(nameOf(job.entry));
      if (entry?.key !== job.entry.key) continue;
      entry.numBytes += numBytes;
      if (end === undefined) continue;
      entry.endedMs = end.endedMs;
      entry.reservedBytes = entry.numBytes;
      job.onEndKept();
    }
  }

  /** Forgets ended jobs until this one has room. Throws JournalRefusal, and forgets none, if that is not enough. */
  #makeRoom(entry: Entry): void {
    this.assertWritable();
    const entries = [...this.#entries.values()];
    const room = roomFor(entry, entries, this.#options);
    if (room instanceof NoRoom)
      throw new JournalRefusal(
        'full',
        room.message,
        room.isForever ? undefined : this.#nextForgottenSec(entries),
      );
    for (const each of room) void this.#forget(each, false);
  }

  #nextForgottenSec(entries: readonly Entry[]): number {
    const { now, keepMs } = this.#options;
    const ends = entries.flatMap(({ endedMs }) => endedMs ?? []);
    const nextMs = Math.min(...ends, now()) + keepMs - now();
    return Math.max(1, Math.ceil(Math.max(nextMs, sweepMs) / 1000));
  }

  #refusal(): JournalRefusal {
    return new JournalRefusal(
      'failed',
      "The journal cannot be written, for the reason in the server's log; durable jobs are accepted again after a restart of the server.",
    );
  }

  #fail(error: unknown): void {
    if (this.#isFailed) return;
    this.#isFailed = true;
    this.#options.onFailed(error);
  }

  #armSweeper(): void {
    if (this.#isClosed) return;
    this.#sweeper = this.#clock.after(sweepMs, () => {
      void this.#sweep().finally(() => this.#armSweeper());
    });
  }

  async #sweep(): Promise<void> {
    const { now, keepMs } = this.#options;
    const isOver = ({ endedMs }: Entry): boolean => endedMs !== undefined && endedMs + keepMs <= now();
    for (const entry of [...this.#entries.values()].filter(isOver)) await this.#forget(entry, false);
    if (this.#isClosed) return;
    try {
      this.#store.hideFiles();
    } catch (error) {
      this.#fail(error);
    }
  }

  async #readAll(folder: string): Promise<void> {
    await this.#readMeta(folder);
    let current: Entry | undefined;
    const damaged = new Map<string, string>();
    const unknown = new Map<string, string>();
    for await (const { key, value, numBytes } of this.#store.range('j/')) {
      const jobKey = key.slice(0, KEY_LENGTH);
      this.#nextNumber = Math.max(this.#nextNumber, Number(jobKey.slice(2, -1)) + 1);
      if (unknown.has(jobKey)) continue;
      try {
        if (!isKnown(key)) throw new Error(`its record ${key} is of an unknown kind`);
        if (key.endsWith('r')) {
          current = entryOf(jobKey, unpackRecord(whole(value)), numBytes);
          const name = nameOf(current);
          const before = this.#entries.get(name);
          // A version that could not read it has begun another one.
          if (before !== undefined) damaged.set(before.key, 'a later job has its id');
          this.#entries.set(name, current);
        } else if (current?.key !== jobKey) {
          throw new DamagedJob('its request record is missing');
        } else if (key.endsWith('z')) current.endedMs = unpackEnd(whole(value)).endedMs;
        if (current !== undefined) current.numBytes += numBytes;
      } catch (error) {
        (error instanceof DamagedJob ? damaged : unknown).set(jobKey, messageOf(error));
      }
    }
    for (const [name, { key }] of this.#entries)
      if (damaged.has(key) || unknown.has(key)) this.#entries.delete(name);
    for (const [key, reason] of unknown) this.#options.onUnknown(key, reason);
    for (const [key, reason] of damaged) {
      if (unknown.has(key)) continue;
      this.#options.onDamaged(key, reason);
      await this.#store.remove(key, false);
    }
    for (const entry of this.#entries.values())
      if (entry.endedMs !== undefined) entry.reservedBytes = entry.numBytes;
    await this.#sweep();
  }

  async #readMeta(folder: string): Promise<void> {
    const found = await this.#store.get('meta');
    if (found === undefined) {
      this.#secret = Uint8Array.from(randomBytes(SECRET_BYTES));
      const value = Buffer.concat([Buffer.of(FORMAT), this.#secret]);
      await this.#store.write([{ type: 'put', key: 'meta', value }], true);
      return;
    }
    const advice =
      'move the folder away to start with an empty journal, which loses the unfinished jobs in it';
    if (found === null || found.length !== 1 + SECRET_BYTES)
      throw new JournalError(`The journal in ${folder} is damaged (its record "meta"): ${advice}.`);
    if (found[0] !== FORMAT)
      throw new JournalError(
        `The journal in ${folder} has format ${found[0]}, but this gateway reads format ${FORMAT}: let the gateway that wrote it finish the jobs, or ${advice}.`,
      );
    this.#secret = Uint8Array.from(found.subarray(1));
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

function whole(value: Uint8Array | null | undefined): Uint8Array {
  if (value === undefined) throw new DamagedJob('one of its records is missing');
  if (value === null) throw new DamagedJob('one of its records is damaged');
  return value;
}
