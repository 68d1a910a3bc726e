/**
 * What a file of blocks says of itself and of its blocks: a header page, and a ring of records, one for each block in the order in which
 * they were written. Header and records are signed with keys of this file, which come from the operator's secret. So whoever can write
 * to the file, but does not have the secret, can make blocks disappear and nothing else.
 */
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import type { BlockKey } from './block-keys.ts';

export const pageBytes = 4096;
export const recordBytes = 128;
export const secretBytes = 32;
/** The file has one record for so many of its bytes. Of smaller blocks it holds fewer bytes. */
const BYTES_PER_RECORD = 64 * 1024;

const MAGIC = 'RUNNELKV';
const VERSION = 1;
const ID_BYTES = 16;
const SIGNATURE_BYTES = 16;

/** Where the fields of a header lie. The signature follows, over all before it. */
const HEADER = { version: 8, fileBytes: 16, id: 24, end: 24 + ID_BYTES };

/** Where the fields of a record lie. The signature follows, over all before it. */
const RECORD = {
  ...{ number: 0, key: 8, hash: 40, checksum: 48, offset: 56, length: 64 },
  ...{ nonce: 68, tag: 80, end: 96 },
};
export const nonceBytes = RECORD.tag - RECORD.nonce;
export const tagBytes = RECORD.end - RECORD.tag;

/** The parts of a file of this size. */
export function partsOf(fileBytes: number) {
  const numRecords = Math.max(1, Math.floor(fileBytes / BYTES_PER_RECORD));
  const dataBegin = pageBytes + Math.ceil((numRecords * recordBytes) / pageBytes) * pageBytes;
  return { numRecords, dataBegin, dataBytes: fileBytes - dataBegin };
}

export interface BlockRecord {
  /** Blocks are numbered from 1 on in the order in which they were written. */
  readonly number: number;
  readonly key: BlockKey;
  readonly hash: bigint;
  readonly checksum: bigint;
  /** In the part of the file that has the blocks. */
  readonly offset: number;
  readonly length: number;
  readonly nonce: Buffer;
  readonly tag: Buffer;
}

/** The keys of a file: `encryption` for blocks, and one that signs. */
export class FileKeys {
  readonly encryption: Buffer;
  readonly #signing: Buffer;

  constructor(secret: Uint8Array, fileId: Uint8Array) {
    const derive = (use: string): Buffer =>
      Buffer.from(hkdfSync('sha256', secret, fileId, `runnel ${use}`, secretBytes));
    this.encryption = derive('blocks');
    this.#signing = derive('records');
  }

  sign(bytes: Uint8Array): Buffer {
    return createHmac('sha256', this.#signing).update(bytes).digest().subarray(0, SIGNATURE_BYTES);
  }

  isSigned(bytes: Buffer, end: number): boolean {
    return timingSafeEqual(this.sign(bytes.subarray(0, end)), bytes.subarray(end, end + SIGNATURE_BYTES));
  }
}

/** Whether the first page of a file is one that this code has written, with whatever secret. */
export function isOfBlocks(page: Buffer): boolean {
  return page.toString('latin1', 0, MAGIC.length) === MAGIC;
}

/** The header page of a new file, and its keys. */
export function newHeader(
  secret: Uint8Array,
  fileBytes: number,
): { readonly page: Buffer; readonly keys: FileKeys } {
  const page = Buffer.alloc(pageBytes);
  const id = randomBytes(ID_BYTES);
  const keys = new FileKeys(secret, id);
  page.write(MAGIC, 'latin1');
  page.writeUInt32LE(VERSION, HEADER.version);
  page.writeBigUInt64LE(BigInt(fileBytes), HEADER.fileBytes);
  page.set(id, HEADER.id);
  page.set(keys.sign(page.subarray(0, HEADER.end)), HEADER.end);
  return { page, keys };
}

/** The keys of a file with this header page; undefined if it is of another secret, size or version, or damaged. */
export function keysOf(page: Buffer, secret: Uint8Array, fileBytes: number): FileKeys | undefined {
  const keys = new FileKeys(secret, page.subarray(HEADER.id, HEADER.end));
  const isRight =
    isOfBlocks(page) &&
    page.readUInt32LE(HEADER.version) === VERSION &&
    page.readBigUInt64LE(HEADER.fileBytes) === BigInt(fileBytes) &&
    keys.isSigned(page, HEADER.end);
  return isRight ? keys : undefined;
}

export function writeRecord(record: BlockRecord, keys: FileKeys): Buffer {
  const bytes = Buffer.alloc(recordBytes);
  bytes.writeBigUInt64LE(BigInt(record.number), RECORD.number);
  bytes.write(record.key, RECORD.key, 'latin1');
  bytes.writeBigUInt64LE(record.hash, RECORD.hash);
  bytes.writeBigUInt64LE(record.checksum, RECORD.checksum);
  bytes.writeBigUInt64LE(BigInt(record.offset), RECORD.offset);
  bytes.writeUInt32LE(record.length, RECORD.length);
  bytes.set(record.nonce, RECORD.nonce);
  bytes.set(record.tag, RECORD.tag);
  bytes.set(keys.sign(bytes.subarray(0, RECORD.end)), RECORD.end);
  return bytes;
}

/** Undefined if there is none, or it is damaged or of an earlier file in this place. */
export function readRecord(bytes: Buffer, keys: FileKeys): BlockRecord | undefined {
  const number = bytes.readBigUInt64LE(RECORD.number);
  if (number === 0n || !keys.isSigned(bytes, RECORD.end)) return undefined;
  return {
    number: Number(number),
    key: bytes.toString('latin1', RECORD.key, RECORD.hash),
    hash: bytes.readBigUInt64LE(RECORD.hash),
    checksum: bytes.readBigUInt64LE(RECORD.checksum),
    offset: Number(bytes.readBigUInt64LE(RECORD.offset)),
    length: bytes.readUInt32LE(RECORD.length),
    nonce: Buffer.from(bytes.subarray(RECORD.nonce, RECORD.tag)),
    tag: Buffer.from(bytes.subarray(RECORD.tag, RECORD.end)),
  };
}
