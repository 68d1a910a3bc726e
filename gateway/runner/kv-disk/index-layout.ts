/**
 * The bytes of a KV cache that outlives its runner, as runner/engine/kv_index.h lays them out: a header page, an entry for each block,
 * and from a multiple of 2 MiB on the blocks. Header and entries have seals, checksums of all that they say.
 */

/** XXH64 of the bytes with this seed. */
export type Hash64 = (bytes: Uint8Array, seed: bigint) => bigint;

/** What all entries of an index have in common. */
export interface IndexShape {
  /** All that the bytes of a block depend on besides its salt and ids; a character is a byte. */
  readonly contents: string;
  /** Tokens in a block. */
  readonly blockSize: number;
  readonly blockBytes: number;
  readonly numBlocks: number;
}

export interface IndexHeader {
  readonly shape: IndexShape;
  /** Random; it keys the seals of the entries. */
  readonly epoch: bigint;
}

/** What an entry says of its block. The numbers are those of BlockPool (runner/engine/block_pool.h). */
export interface IndexEntry {
  /** Of layers. */
  readonly group: number;
  readonly hash: bigint;
  readonly content: bigint;
  /** 0: the block is the first of a text. */
  readonly previousContent: bigint;
  /** Of the block's bytes. */
  readonly checksum: bigint;
  readonly salt: Uint8Array;
  /** 32-bit numbers, little-endian. */
  readonly ids: Uint8Array;
}

export const headerBytes = 4096;
export const maxContentsBytes = 1024;
export const maxSaltBytes = 32;
export const sealBytes = 8;

/** "RNLKV" and the version of the layout. */
const VERSION = 0x02_56_4b_4c_4e_52n;
const HUGE_PAGE_BYTES = 2 ** 21;
const ENTRY_ALIGNMENT = 64;
const MIN_BLOCK_SIZE = 8;
const MAX_BLOCK_SIZE = 256;
/** A runner writes its index itself, and could say of it what it likes. What is read of it at once has these bounds. */
const MAX_INDEX_BYTES = 2 ** 28;
const MAX_BLOCK_BYTES = 2 ** 28;

/** Where the fields of a header lie. The seal covers all from the version to the end of the contents. */
const HEADER = {
  version: 8,
  epoch: 16,
  blockBytes: 24,
  blockSize: 32,
  numBlocks: 36,
  length: 40,
  contents: 48,
};
const HEADER_END = HEADER.contents + maxContentsBytes;

/** Where the fields of an entry lie. The seal covers all from the hash to the end of the entry. */
const ENTRY = {
  ...{ usedAt: 8, hash: 16, content: 24, previousContent: 32, checksum: 40 },
  ...{ saltBytes: 48, group: 52, salt: 56, ids: 56 + maxSaltBytes },
};

export function entryBytesOf(blockSize: number): number {
  return Math.ceil((ENTRY.ids + blockSize * 4) / ENTRY_ALIGNMENT) * ENTRY_ALIGNMENT;
}

/** Where the entry of a block begins. */
export function entryOffset({ blockSize }: IndexShape, id: number): number {
  return headerBytes + id * entryBytesOf(blockSize);
}

/** Where a block begins. */
export function blockOffset(shape: IndexShape, id: number): number {
  const indexBytes = entryOffset(shape, shape.numBlocks);
  return Math.ceil(indexBytes / HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES + id * shape.blockBytes;
}

/** Undefined if the bytes are no header with a right seal, or of a cache that does not fit into so many bytes. */
export function readHeader(bytes: Buffer, memoryBytes: number, hash: Hash64): IndexHeader | undefined {
  if (bytes.readBigUInt64LE(0) !== sealOf(hash, bytes.subarray(HEADER.version, HEADER_END), 0n))
    return undefined;
  const epoch = bytes.readBigUInt64LE(HEADER.epoch);
  const length = bytes.readUInt32LE(HEADER.length);
  const shape = {
    contents: bytes.toString('latin1', HEADER.contents, HEADER.contents + length),
    blockSize: bytes.readUInt32LE(HEADER.blockSize),
    blockBytes: Number(bytes.readBigUInt64LE(HEADER.blockBytes)),
    numBlocks: bytes.readUInt32LE(HEADER.numBlocks),
  };
  const isUsable =
    bytes.readBigUInt64LE(HEADER.version) === VERSION &&
    epoch !== 0n &&
    length <= maxContentsBytes &&
    shape.numBlocks > 0 &&
    shape.blockSize >= MIN_BLOCK_SIZE &&
    shape.blockSize <= MAX_BLOCK_SIZE &&
    shape.blockBytes > 0 &&
    shape.blockBytes <= MAX_BLOCK_BYTES &&
    entryOffset(shape, shape.numBlocks) <= MAX_INDEX_BYTES &&
    blockOffset(shape, shape.numBlocks) <= memoryBytes;
  return isUsable ? { shape, epoch } : undefined;
}

export function writeHeader({ shape, epoch }: IndexHeader, hash: Hash64): Buffer {
  const bytes = Buffer.alloc(headerBytes);
  bytes.writeBigUInt64LE(VERSION, HEADER.version);
  bytes.writeBigUInt64LE(epoch, HEADER.epoch);
  bytes.writeBigUInt64LE(BigInt(shape.blockBytes), HEADER.blockBytes);
  bytes.writeUInt32LE(shape.blockSize, HEADER.blockSize);
  bytes.writeUInt32LE(shape.numBlocks, HEADER.numBlocks);
  bytes.writeUInt32LE(shape.contents.length, HEADER.length);
  bytes.write(shape.contents, HEADER.contents, 'latin1');
  bytes.writeBigUInt64LE(sealOf(hash, bytes.subarray(HEADER.version, HEADER_END), 0n), 0);
  return bytes;
}

/** bytes: of the whole entry of block `id`. Undefined if its seal is wrong. */
export function readEntry(
  bytes: Buffer,
  id: number,
  epoch: bigint,
  blockSize: number,
  hash: Hash64,
): IndexEntry | undefined {
  const seal = bytes.readBigUInt64LE(0);
  const saltBytes = bytes.readUInt32LE(ENTRY.saltBytes);
  if (seal === 0n || seal !== sealOfEntry(bytes, id, epoch, hash) || saltBytes > maxSaltBytes)
    return undefined;
  return {
    group: bytes.readUInt32LE(ENTRY.group),
    hash: bytes.readBigUInt64LE(ENTRY.hash),
    content: bytes.readBigUInt64LE(ENTRY.content),
    previousContent: bytes.readBigUInt64LE(ENTRY.previousContent),
    checksum: bytes.readBigUInt64LE(ENTRY.checksum),
    salt: bytes.subarray(ENTRY.salt, ENTRY.salt + saltBytes),
    ids: bytes.subarray(ENTRY.ids, ENTRY.ids + blockSize * 4),
  };
}

/** A number that changes whenever a sequence takes the block or gives it back. */
export function readUsedAt(entry: Buffer): bigint {
  return entry.readBigUInt64LE(ENTRY.usedAt);
}

/** The entry of block `id`, with its seal. */
export function writeEntry(
  entry: IndexEntry,
  id: number,
  epoch: bigint,
  blockSize: number,
  hash: Hash64,
): Buffer {
  const bytes = Buffer.alloc(entryBytesOf(blockSize));
  bytes.writeBigUInt64LE(entry.hash, ENTRY.hash);
  bytes.writeBigUInt64LE(entry.content, ENTRY.content);
  bytes.writeBigUInt64LE(entry.previousContent, ENTRY.previousContent);
  bytes.writeBigUInt64LE(entry.checksum, ENTRY.checksum);
  bytes.writeUInt32LE(entry.salt.length, ENTRY.saltBytes);
  bytes.writeUInt32LE(entry.group, ENTRY.group);
  bytes.set(entry.salt, ENTRY.salt);
  bytes.set(entry.ids, ENTRY.ids);
  bytes.writeBigUInt64LE(sealOfEntry(bytes, id, epoch, hash), 0);
  return bytes;
}

function sealOfEntry(bytes: Buffer, id: number, epoch: bigint, hash: Hash64): bigint {
  return sealOf(hash, bytes.subarray(ENTRY.hash), BigInt.asUintN(64, epoch + BigInt(id)));
}

/** 0 means that nothing is there. */
function sealOf(hash: Hash64, bytes: Uint8Array, seed: bigint): bigint {
  return hash(bytes, seed) || 1n;
}
