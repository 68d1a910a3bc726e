/**
 * Blocks of KV caches in a file of fixed size, encrypted, so that a later process finds them. The blocks lie one after the other in a
 * ring: a new one takes the place of those that were written first. One that was used goes to the front again unless it is near it, so
 * those that nobody uses leave first.
 *
 *   header page | records, to a multiple of 4096 | blocks, each from a multiple of 4096 on
 *
 * A block is written before its record. Nothing is synced: a block whose bytes are not those that its record was signed for, because a
 * crash of the machine lost one of them or a newer block lies there, does not decrypt, and counts as not there.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { writeAll } from '../../system/write-all.ts';
import type { BlockKey } from './block-keys.ts';
import {
  type BlockRecord,
  type FileKeys,
  isOfBlocks,
  keysOf,
  newHeader,
  nonceBytes,
  pageBytes,
  partsOf,
  readRecord,
  recordBytes,
  tagBytes,
  writeRecord,
} from './file-records.ts';

/** What is kept of a block. hash and checksum: see IndexEntry. */
export interface Block {
  readonly hash: bigint;
  readonly checksum: bigint;
  readonly bytes: Buffer;
}

/** A file that cannot be used. The message is a sentence that names it. */
export class KvDiskError extends Error {
  override readonly name = 'KvDiskError';
}

/** Whoever wrote the blocks. */
export type Origin = number;
export const EARLIER: Origin = 0;

interface Kept extends BlockRecord {
  readonly origin: Origin;
}

const CIPHER = 'aes-256-gcm';
/** The file is filled with zeros, and its records are read, by so many bytes at a time. */
const CHUNK_BYTES = 4 * 2 ** 20;
/** A block that is used when more than this share of the ring or of the records was written since goes to the front again. */
const FAR_SHARE = 0.5;

export class BlockFile {
  readonly #fd: number;
  readonly #keys: FileKeys;
  readonly #numRecords: number;
  readonly #dataBegin: number;
  readonly #dataBytes: number;
  readonly #kept = new Map<BlockKey, Kept>();
  /** By their numbers, the oldest first; those before numLeft have left the ring, and others are not kept any more either. */
  readonly #oldest: Kept[] = [];
  #numLeft = 0;
  #lastNumber = 0;
  /** Where the next block begins, in the ring. */
  #front = 0;
  #usedBytes = 0;

  private constructor(fd: number, keys: FileKeys, fileBytes: number) {
    this.#fd = fd;
    this.#keys = keys;
    const { numRecords, dataBegin, dataBytes } = partsOf(fileBytes);
    this.#numRecords = numRecords;
    this.#dataBegin = dataBegin;
    this.#dataBytes = dataBytes;
  }

  /**
   * Opens the file, or makes it, and takes all of its space on the disk. A file of another size or secret is begun anew. Throws
   * KvDiskError for a file that something else has written, and the system's errors.
   */
  static async open(path: string, fileBytes: number, secret: Uint8Array): Promise<BlockFile> {
    const fd = openFile(path);
    try {
      const page = Buffer.alloc(pageBytes);
      readSync(fd, page, 0, pageBytes, 0);
      let keys = keysOf(page, secret, fileBytes);
      const isNew = keys === undefined;
      if (keys === undefined) {
        const header = newHeader(secret, fileBytes);
        writeAll(fd, header.page, 0);
        keys = header.keys;
      }
      await fill(fd, fileBytes);
      const file = new BlockFile(fd, keys, fileBytes);
      if (!isNew) await file.#readRecords();
      return file;
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  get numBlocks(): number {
    return this.#kept.size;
  }

  /** Of the blocks. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  has(key: BlockKey): boolean {
    return this.#kept.has(key);
  }

  /** Whether a block that is in use should be written: it is not there, or among those that leave first. */
  needs(key: BlockKey): boolean {
    const kept = this.#kept.get(key);
    return kept === undefined || this.#isFarBack(kept);
  }

  /** Undefined if the block is not there, or not as it was written; then it is forgotten. */
  read(key: BlockKey): Block | undefined {
    const kept = this.#kept.get(key);
    if (kept === undefined) return undefined;
    const bytes = this.#decrypted(kept);
    if (bytes === undefined) {
      this.#forget(kept);
      return undefined;
    }
    const { hash, checksum } = kept;
    const block = { hash, checksum, bytes };
    if (this.#isFarBack(kept)) this.write(key, block, kept.origin);
    return block;
  }

  /** Does nothing with a block that does not fit into the file. Throws the system's errors. */
  write(key: BlockKey, { hash, checksum, bytes }: Block, origin: Origin): void {
    const length = bytes.length;
    if (inPages(length) > this.#dataBytes) return;
    const before = this.#kept.get(key);
    if (before !== undefined) this.#forget(before);
    const number = this.#lastNumber + 1;
    const offset = this.#front + inPages(length) > this.#dataBytes ? 0 : this.#front;
    this.#makeRoom(number, offset, inPages(length));
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv(CIPHER, this.#keys.encryption, nonce, { authTagLength: tagBytes });
    const encrypted = Buffer.concat([cipher.update(bytes), cipher.final()]);
    const record = { number, key, hash, checksum, offset, length, nonce, tag: cipher.getAuthTag() };
    writeAll(this.#fd, encrypted, this.#dataBegin + offset);
    writeAll(this.#fd, writeRecord(record, this.#keys), this.#recordOffset(number));
    this.#keep({ ...record, origin });
  }

  /** The blocks that came from there. */
  keysFrom(origin: Origin): BlockKey[] {
    return [...this.#kept.values()].filter((kept) => kept.origin === origin).map(({ key }) => key);
  }

  /** Forgets these blocks. Returns how many of them there were. */
  forget(keys: Iterable<BlockKey>): number {
    let numGone = 0;
    for (const key of keys) {
      const kept = this.#kept.get(key);
      if (kept === undefined) continue;
      this.#forget(kept);
      writeAll(this.#fd, Buffer.alloc(recordBytes), this.#recordOffset(kept.number));
      numGone += 1;
    }
    return numGone;
  }

  close(): void {
    closeSync(this.#fd);
  }

  /** Forgets what lies between the front and the end of the block of this number, and what has its record. */
  #makeRoom(number: number, offset: number, numBytes: number): void {
    const isWrapped = offset < this.#front;
    const isInTheWay = (other: Kept): boolean =>
      (other.offset < offset + numBytes &&
        (isWrapped || other.offset + inPages(other.length) > this.#front)) ||
      (isWrapped && other.offset >= this.#front) ||
      other.number <= number - this.#numRecords;
    let first = this.#oldest[this.#numLeft];
    while (first !== undefined && isInTheWay(first)) {
      if (this.#kept.get(first.key) === first) this.#forget(first);
      this.#numLeft += 1;
      first = this.#oldest[this.#numLeft];
    }
    // Now and then, so that a block costs no more than its own place.
    if (this.#numLeft * 2 <= this.#oldest.length) return;
    this.#oldest.splice(0, this.#numLeft);
    this.#numLeft = 0;
  }

  #keep(kept: Kept): void {
    this.#kept.set(kept.key, kept);
    this.#oldest.push(kept);
    this.#usedBytes += kept.length;
    this.#lastNumber = kept.number;
    this.#front = kept.offset + inPages(kept.length);
  }

  #forget({ key, length }: Kept): void {
    this.#kept.delete(key);
    this.#usedBytes -= length;
  }

  #isFarBack({ offset, number }: Kept): boolean {
    // Of the ring, since the block and with it.
    const numBytes = ((this.#front - offset - 1 + this.#dataBytes) % this.#dataBytes) + 1;
    const numRecords = this.#lastNumber - number + 1;
    return numBytes > this.#dataBytes * FAR_SHARE || numRecords > this.#numRecords * FAR_SHARE;
  }

  #recordOffset(number: number): number {
    return pageBytes + ((number - 1) % this.#numRecords) * recordBytes;
  }

  #decrypted({ offset, length, nonce, tag }: Kept): Buffer | undefined {
    const encrypted = Buffer.allocUnsafe(length);
    if (readSync(this.#fd, encrypted, 0, length, this.#dataBegin + offset) !== length) return undefined;
    const decipher = createDecipheriv(CIPHER, this.#keys.encryption, nonce, { authTagLength: tagBytes });
    decipher.setAuthTag(tag);
    const bytes = decipher.update(encrypted);
    try {
      decipher.final();
    } catch {
      return undefined;
    }
    return bytes;
  }

  /** In the order of their numbers, each takes its place as it did when it was written. */
  async #readRecords(): Promise<void> {
    const found: BlockRecord[] = [];
    const bytes = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, this.#numRecords * recordBytes));
    for (let first = 0; first < this.#numRecords; first += bytes.length / recordBytes) {
      const numBytes = readSync(this.#fd, bytes, 0, bytes.length, pageBytes + first * recordBytes);
      const count = Math.min(Math.floor(numBytes / recordBytes), this.#numRecords - first);
      for (let at = 0; at < count * recordBytes; at += recordBytes) {
        const record = readRecord(bytes.subarray(at, at + recordBytes), this.#keys);
        if (record !== undefined) found.push(record);
      }
      await nextTurn();
    }
    found.sort((one, other) => one.number - other.number);
    for (const record of found) {
      const before = this.#kept.get(record.key);
      if (before !== undefined) this.#forget(before);
      this.#makeRoom(record.number, record.offset, inPages(record.length));
      this.#keep({ ...record, origin: EARLIER });
    }
  }
}

/** Throws KvDiskError if the file cannot be one of blocks. There may be none yet. */
export function requireUsable(path: string): void {
  closeSync(openFile(path));
}

function openFile(path: string): number {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NONBLOCK;
  let fd: number;
  try {
    fd = openSync(path, flags, 0o600);
  } catch (error) {
    throw new KvDiskError(`The file ${path} cannot be opened: ${(error as Error).message}`, { cause: error });
  }
  const fault = faultOf(fd);
  if (fault === undefined) return fd;
  closeSync(fd);
  throw new KvDiskError(
    `The file ${path} cannot keep a KV cache: ${fault}. Name a file that is not there yet.`,
  );
}

function faultOf(fd: number): string | undefined {
  const facts = fstatSync(fd);
  if (!facts.isFile()) return 'it is no regular file';
  if (facts.size === 0) return undefined;
  const page = Buffer.alloc(pageBytes);
  readSync(fd, page, 0, pageBytes, 0);
  return isOfBlocks(page) ? undefined : `it has ${facts.size} bytes that something else wrote`;
}

/** Makes the file this large, by bytes that have a place on the disk. */
async function fill(fd: number, fileBytes: number): Promise<void> {
  let { size } = fstatSync(fd);
  if (size > fileBytes) ftruncateSync(fd, fileBytes);
  const zeros = Buffer.alloc(CHUNK_BYTES);
  for (; size < fileBytes; size += CHUNK_BYTES) {
    writeAll(fd, zeros.subarray(0, Math.min(CHUNK_BYTES, fileBytes - size)), size);
    await nextTurn();
  }
}

function inPages(numBytes: number): number {
  return Math.ceil(numBytes / pageBytes) * pageBytes;
}
