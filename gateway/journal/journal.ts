import { randomBytes } from 'node:crypto';
import { type Clock, systemClock, type Timer } from '../system/clock.ts';
import { JobExistsError, JournalError, JournalRefusal } from './journal-error.ts';
import {
  type EndRecord,
  emptyContent,
  type JobKind,
  type JobRecord,
  packRecord,
  unpackEnd,
  unpackPiece,
  unpackRecord,
} from './records.ts';
import { JournalStore, SEAL_BYTES, type Write } from './store.ts';
import type { TokenLogContent } from './token-log.ts';

/**
 * The jobs that are kept, in a folder: what was asked is synced to the disk before its first token is computed; what comes is
 * written behind, all jobs together. A token that was sent and not written is computed again, and is the same one.
 */

/** From a token to its write at most, and one write at a time. */
export const commitMs = 50;
/** How often it is looked for jobs whose time is over. */
export const sweepMs = 10_000;
/** Of how what is kept looks: another one is refused. */
const FORMAT = 1;
const SECRET_BYTES = 32;

/** What a token may take: a piece of its own, with its key and seal. */
const BYTES_PER_TOKEN = 64;
/** More with log-probabilities: of the token, and of each likely one. */
const BYTES_PER_LOGPROB = 20;

export interface JournalBounds {
  readonly maxJobs: number;
  /** Of all jobs together: of those that run, what they may come to. */
  readonly maxBytes: number;
  /** After its end a job is kept so long; one that has not ended is given up so long after its beginning. */
  readonly keepMs: number;
}

export interface JournalOptions extends JournalBounds {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly clock?: Clock;
  /** Once: nothing can be written any more. */
  readonly onFailed: (error: unknown) => void;
  /** What was found of a job cannot be read. key: where it lies. */
  readonly onDamaged: (key: string, reason: string) => void;
}

/** A job that is kept, as far as it is known without reading it. */
export interface JournalEntry {
  readonly key: string;
  readonly kind: JobKind;
  readonly caller: string;
  readonly id: string;
  readonly createdMs: number;
  /** Milliseconds since 1970; undefined: it has not ended. */
  readonly endedMs: number | undefined;
}

interface Entry extends JournalEntry {
  endedMs: number | undefined;
  numBytes: number;
  /** What it may come to; no more than numBytes once it has ended. */
  reservedBytes: number;
}

/** What is to be written of a job. */
export interface Journalled {
  readonly entry: JournalEntry;
  /** Since the call before. end: set once, with the last. */
  takeWrites(): { readonly writes: Write[]; readonly end: EndRecord | undefined };
  /** Its end is on disk. */
  onEndKept(): void;
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
}

export class Journal {
  readonly #store: JournalStore;
  readonly #options: JournalOptions;
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();
  readonly #dirty = new Set<Journalled>();
  /** Of those that are to be forgotten when nobody writes of them. */
  #writing: Promise<void> | undefined;
  #timer: Timer | undefined;
  #sweeper: Timer | undefined;
  #nextNumber = 1;
  #isFailed = false;
  #isClosed = false;
  /** What stands for keys of clients in it; the same for as long as the folder is. */
  #secret: Uint8Array = new Uint8Array();

  private constructor(store: JournalStore, options: JournalOptions) {
    this.#store = store;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** JournalError where the folder cannot be used. */
  static async open(folder: string, options: JournalOptions): Promise<Journal> {
    const store = await JournalStore.open(folder);
    const journal = new Journal(store, options);
    try {
      await journal.#readAll(folder);
    } catch (error) {
      await store.close();
      throw error;
    }
    journal.#armSweeper();
    return journal;
  }

  get secret(): Uint8Array {
    return this.#secret;
  }

  get stats(): JournalStats {
    return {
      numJobs: this.#entries.size,
      numBytes: [...this.#entries.values()].reduce((sum, { numBytes }) => sum + numBytes, 0),
      isFailed: this.#isFailed,
    };
  }

  find(kind: JobKind, caller: string, id: string): JournalEntry | undefined {
    const entry = this.#entries.get(nameOf({ kind, caller, id }));
    // Until its record is written, there is nothing to find.
    return entry?.numBytes === 0 ? undefined : entry;
  }

  /** Those of an earlier process that have not ended, the oldest first. */
  get unfinished(): readonly JournalEntry[] {
    return [...this.#entries.values()].filter(({ endedMs }) => endedMs === undefined);
  }

  /** Keeps a job from now on: when it resolves, what was asked is on the disk. JobExistsError, JournalRefusal. */
  async admit(record: JobRecord): Promise<JournalEntry> {
    const name = nameOf(record);
    if (this.#isClosed)
      throw new JournalRefusal('failed', 'The server is stopping and takes no durable job.');
    if (this.#entries.has(name)) throw new JobExistsError(`There is a job ${record.id}.`);
    const packed = packRecord(record);
    const reservedBytes = mostBytes(record, packed.length);
    this.#assertRoom(reservedBytes);
    const { kind, caller, id, createdMs } = record;
    const key = keyOf(this.#nextNumber++);
    const entry: Entry = { key, kind, caller, id, createdMs, endedMs: undefined, numBytes: 0, reservedBytes };
    this.#entries.set(name, entry);
    try {
      const write: Write = { type: 'put', key: `${key}r`, value: packed };
      entry.numBytes += await this.#store.write([write], true);
    } catch (error) {
      this.#entries.delete(name);
      this.#fail(error);
      throw this.#refusal();
    }
    return entry;
  }

  /** Something is to be written of this job. Costs nothing more until the next write. */
  touch(job: Journalled): void {
    if (this.#isClosed) return;
    this.#dirty.add(job);
    if (this.#writing === undefined) this.#timer ??= this.#clock.after(commitMs, () => void this.flush());
  }

  /** Writes what is to be written now. */
  async flush(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    while (this.#writing !== undefined) await this.#writing;
    if (this.#dirty.size === 0) return;
    this.#writing = this.#commit().finally(() => {
      this.#writing = undefined;
      if (this.#dirty.size > 0 && !this.#isClosed)
        this.#timer ??= this.#clock.after(commitMs, () => void this.flush());
    });
    await this.#writing;
  }

  /** All that is kept of a job. Throws where it is damaged. */
  async read({ key, endedMs }: JournalEntry): Promise<KeptJob> {
    await this.flush();
    const record = unpackRecord(whole(await this.#store.get(`${key}r`)));
    const content = emptyContent(record.request);
    for await (const { value } of this.#store.range(`${key}t`)) unpackPiece(whole(value), content);
    if (endedMs !== undefined) content.end = unpackEnd(whole(await this.#store.get(`${key}z`))).end;
    return { record, content, endedMs };
  }

  async forget(entry: JournalEntry): Promise<void> {
    const name = nameOf(entry);
    if (this.#entries.get(name)?.key !== entry.key) return;
    this.#entries.delete(name);
    for (const job of this.#dirty) if (job.entry.key === entry.key) this.#dirty.delete(job);
    while (this.#writing !== undefined) await this.#writing;
    try {
      await this.#store.remove(entry.key);
    } catch (error) {
      this.#fail(error);
    }
  }

  async close(): Promise<void> {
    await this.flush();
    this.#isClosed = true;
    this.#sweeper?.cancel();
    this.#timer?.cancel();
    while (this.#writing !== undefined) await this.#writing;
    await this.#store.close();
  }

  async #commit(): Promise<void> {
    const writes: Write[] = [];
    const written: { readonly job: Journalled; readonly end: EndRecord | undefined; numBytes: number }[] = [];
    for (const job of this.#dirty) {
      const taken = job.takeWrites();
      const numBytes = taken.writes.reduce(
        (sum, write) => sum + write.key.length + (write.type === 'put' ? SEAL_BYTES + write.value.length : 0),
        0,
      );
      writes.push(...taken.writes);
      written.push({ job, end: taken.end, numBytes });
    }
    this.#dirty.clear();
    if (this.#isFailed) return;
    try {
      await this.#store.write(writes);
    } catch (error) {
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

  #assertRoom(numBytes: number): void {
    if (this.#isFailed) throw this.#refusal();
    const { maxJobs, maxBytes } = this.#options;
    const entries = [...this.#entries.values()];
    const reserved = entries.reduce((sum, entry) => sum + Math.max(entry.reservedBytes, entry.numBytes), 0);
    const full = (what: string): JournalRefusal =>
      new JournalRefusal('full', `The journal is full: ${what}.`, this.#nextForgottenSec(entries));
    if (entries.length >= maxJobs) throw full(`it has ${maxJobs} jobs, which is the limit`);
    if (reserved + numBytes > maxBytes)
      throw full(
        `of its ${maxBytes} bytes ${reserved} are taken or may be, and this job may come to ${numBytes}`,
      );
  }

  /** Until a job that has ended is forgotten. */
  #nextForgottenSec(entries: readonly Entry[]): number {
    const { now, keepMs } = this.#options;
    const ends = entries.flatMap(({ endedMs }) => endedMs ?? []);
    const nextMs = Math.min(...ends, now()) + keepMs - now();
    return Math.max(1, Math.ceil(Math.max(nextMs, sweepMs) / 1000));
  }

  #refusal(): JournalRefusal {
    return new JournalRefusal(
      'failed',
      'The journal cannot be written, as the log says; durable jobs are taken again when the server has been started anew.',
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
    for (const entry of [...this.#entries.values()].filter(isOver)) await this.forget(entry);
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
    for await (const { key, value, numBytes } of this.#store.range('j/')) {
      const jobKey = key.slice(0, KEY_LENGTH);
      this.#nextNumber = Math.max(this.#nextNumber, Number(jobKey.slice(2, -1)) + 1);
      try {
        if (key.endsWith('r')) {
          const record = unpackRecord(whole(value));
          const { kind, caller, id, createdMs } = record;
          const reservedBytes = mostBytes(record, numBytes);
          current = {
            key: jobKey,
            kind,
            caller,
            id,
            createdMs,
            endedMs: undefined,
            numBytes: 0,
            reservedBytes,
          };
          this.#entries.set(nameOf(current), current);
        } else if (current?.key !== jobKey) {
          throw new Error('nothing says what was asked');
        } else if (key.endsWith('z')) current.endedMs = unpackEnd(whole(value)).endedMs;
        if (current !== undefined) current.numBytes += numBytes;
      } catch (error) {
        damaged.set(jobKey, error instanceof Error ? error.message : String(error));
      }
    }
    for (const [key, reason] of damaged) {
      this.#options.onDamaged(key, reason);
      for (const [name, entry] of this.#entries) if (entry.key === key) this.#entries.delete(name);
      await this.#store.remove(key);
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
    const advice = 'move the folder away to start with an empty one, and what was open in it is lost';
    if (found === null || found.length !== 1 + SECRET_BYTES)
      throw new JournalError(`The journal in ${folder} is damaged at its beginning: ${advice}.`);
    if (found[0] !== FORMAT)
      throw new JournalError(
        `The journal in ${folder} is of format ${found[0]}, and this gateway knows ${FORMAT}: let the other one finish, or ${advice}.`,
      );
    this.#secret = Uint8Array.from(found.subarray(1));
  }
}

const NUMBER_DIGITS = 12;
/** Of what the keys of a job begin with: r is the record, t pieces, z the end. */
const KEY_LENGTH = 2 + NUMBER_DIGITS + 1;

function keyOf(number: number): string {
  return `j/${String(number).padStart(NUMBER_DIGITS, '0')}/`;
}

/** The key of a piece that begins at this token; they sort as numbers do. */
export function pieceKey({ key }: Pick<JournalEntry, 'key'>, from: number): string {
  return `${key}t${String(from).padStart(NUMBER_DIGITS, '0')}`;
}

export function endKey({ key }: Pick<JournalEntry, 'key'>): string {
  return `${key}z`;
}

/** A caller is a number of hexadecimal digits, or nothing: no two have one name. */
function nameOf({ kind, caller, id }: Pick<JournalEntry, 'kind' | 'caller' | 'id'>): string {
  return `${kind} ${caller} ${id}`;
}

/** What a job may come to. recordBytes: of the record of what was asked. */
function mostBytes({ request: { maxTokens, topLogprobs } }: JobRecord, recordBytes: number): number {
  const perToken = BYTES_PER_TOKEN + (topLogprobs === undefined ? 0 : BYTES_PER_LOGPROB * (1 + topLogprobs));
  return recordBytes + maxTokens * perToken;
}

function whole(value: Uint8Array | null | undefined): Uint8Array {
  if (value === undefined) throw new Error('a part of it is not there');
  if (value === null) throw new Error('a part of it is not as it was written');
  return value;
}
