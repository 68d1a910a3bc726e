import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ClassicLevel } from 'classic-level';
import { causeOf, errorCodeOf, messageOf } from '../errors/thrown.ts';
import { JournalError } from './journal-error.ts';

/**
 * Stores values by key in a folder. LevelDB appends each write to a log and hands it to the kernel before it reports success,
 * so a killed process loses none. Synced writes also survive a crash of the machine. Only this user can read the folder.
 */

export type Write =
  | { readonly type: 'put'; readonly key: string; readonly value: Uint8Array }
  | { readonly type: 'del'; readonly key: string };

/** value: null if it was damaged. */
export interface Stored {
  readonly key: string;
  readonly value: Uint8Array | null;
  readonly numBytes: number;
}

/** The length of the digest in front of each value, made of key and value. LevelDB does not check everything that it reads. */
export const SEAL_BYTES = 8;

/** Files of LevelDB in the folder. The log is begun anew when the folder is opened. */
const LOCK = 'LOCK';
const LEVELDB_LOG = 'LOG';

/** Sorts behind every key that begins with the prefix in front of it. */
const LAST = '\uffff';

/** What a journal needs of its store. */
export type Store = Pick<
  JournalStore,
  'write' | 'range' | 'get' | 'remove' | 'hideFiles' | 'close' | 'numDroppedBytes'
>;

export class JournalStore {
  readonly #db: ClassicLevel<string, Uint8Array>;
  readonly #folder: string;
  /** The file that LevelDB has locked. It is open, so no other file gets its number. */
  readonly #lockInode: bigint;
  /** What LevelDB could not read when it was opened, and dropped. */
  readonly numDroppedBytes: number;

  private constructor(db: ClassicLevel<string, Uint8Array>, folder: string) {
    this.#db = db;
    this.#folder = folder;
    this.#lockInode = statSync(join(folder, LOCK), { bigint: true }).ino;
    this.numDroppedBytes = droppedBytesIn(readFileSync(join(folder, LEVELDB_LOG), 'utf8'));
  }

  /** Creates the folder if it does not exist. Throws JournalError if it cannot be used. */
  static async open(folder: string): Promise<JournalStore> {
    makePrivate(folder);
    // Native code, loaded only by gateways that keep a journal.
    const { ClassicLevel: Level } = await import('classic-level');
    const db = new Level<string, Uint8Array>(folder, { keyEncoding: 'utf8', valueEncoding: 'view' });
    try {
      await db.open();
    } catch (error) {
      throw openingError(folder, error);
    }
    try {
      const store = new JournalStore(db, folder);
      store.hideFiles();
      return store;
    } catch (error) {
      await db.close();
      throw error;
    }
  }

  /** Makes the files private. LevelDB creates them with the process's umask; until then the private folder protects them. */
  hideFiles(): void {
    for (const name of readdirSync(this.#folder)) {
      try {
        chmodSync(join(this.#folder, name), 0o600);
      } catch (error) {
        // LevelDB may have removed the file meanwhile.
        if (errorCodeOf(error) !== 'ENOENT') throw error;
      }
    }
  }

  /**
   * Throws if the lock file has been removed or replaced: another gateway may have opened the folder, and two that write make
   * nonsense of it.
   */
  #assertLocked(): void {
    const lock = statSync(join(this.#folder, LOCK), { bigint: true, throwIfNoEntry: false });
    if (lock?.ino === this.#lockInode) return;
    const what = lock === undefined ? 'removed' : 'replaced';
    throw new JournalError(
      `its file ${LOCK} was ${what}, so another gateway may use the folder: start this gateway again, and leave that file alone`,
    );
  }

  /** Writes all of them or none. isSynced: they are on the disk itself when it resolves. Returns the number of bytes added. */
  async write(writes: readonly Write[], isSynced = false): Promise<number> {
    this.#assertLocked();
    let numBytes = 0;
    const operations = writes.map((write) => {
      if (write.type === 'del') return write;
      const value = sealed(write.key, write.value);
      numBytes += write.key.length + value.length;
      return { ...write, value };
    });
    await this.#db.batch(operations, { sync: isSynced });
    return numBytes;
  }

  /** Yields the entries whose keys begin with the prefix, in the order of the keys. */
  async *range(prefix: string): AsyncGenerator<Stored> {
    for await (const [key, value] of this.#db.iterator({ gte: prefix, lt: prefix + LAST }))
      yield { key, value: unsealed(key, value), numBytes: key.length + value.length };
  }

  async get(key: string): Promise<Uint8Array | null | undefined> {
    const value = await this.#db.get(key);
    return value === undefined ? undefined : unsealed(key, value);
  }

  /** Removes the entries whose keys begin with the prefix. isSynced: as for write(). */
  async remove(prefix: string, isSynced: boolean): Promise<void> {
    const keys = await this.#db.keys({ gte: prefix, lt: prefix + LAST }).all();
    await this.write(
      keys.map((key) => ({ type: 'del', key })),
      isSynced,
    );
  }

  close(): Promise<void> {
    return this.#db.close();
  }
}

function droppedBytesIn(log: string): number {
  return [...log.matchAll(/: dropping (\d+) bytes;/g)].reduce((sum, [, bytes]) => sum + Number(bytes), 0);
}

function makePrivate(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { mode } = statSync(folder);
  if ((mode & 0o077) === 0) return;
  const seen = (mode & 0o777).toString(8);
  throw new JournalError(
    `The journal's folder ${folder} is open to other users (mode ${seen}), but it holds prompts and answers: run \`chmod 700 ${folder}\`.`,
  );
}

function openingError(folder: string, error: unknown): JournalError {
  const cause = causeOf(error);
  const reason = messageOf(cause);
  if (errorCodeOf(cause) === 'LEVEL_LOCKED')
    return new JournalError(
      `The journal in ${folder} is used by another gateway: give each gateway its own folder (--journal-dir).`,
      { cause: error },
    );
  return new JournalError(
    `The journal in ${folder} cannot be read (${reason}): move the folder away to start with an empty journal, which loses the unfinished jobs in it.`,
    { cause: error },
  );
}

function sealOf(key: string, payload: Uint8Array): Buffer {
  return createHash('sha256').update(`${key}\0`).update(payload).digest().subarray(0, SEAL_BYTES);
}

function sealed(key: string, payload: Uint8Array): Uint8Array {
  return Buffer.concat([sealOf(key, payload), payload]);
}

function unsealed(key: string, value: Uint8Array): Uint8Array | null {
  const payload = value.subarray(SEAL_BYTES);
  return sealOf(key, payload).equals(value.subarray(0, SEAL_BYTES)) ? payload : null;
}
