/**
 * The memory in which the runners of a place keep their KV cache, as the keeper of the file reads it. A runner may be writing to it
 * meanwhile. An entry is taken for true if its seal is right, and what was read beside it if the seal is still there afterwards: a
 * runner removes the seal before it writes to the block.
 */
import { closeSync, readSync } from 'node:fs';
import { type BlockKey, keyAfter, keyBeforeFirst, keyBeside } from './block-keys.ts';
import {
  blockOffset,
  entryBytesOf,
  entryOffset,
  type Hash64,
  headerBytes,
  type IndexEntry,
  type IndexHeader,
  type IndexShape,
  readEntry,
  readHeader,
  readUsedAt,
  sealBytes,
} from './index-layout.ts';

/** A block that a runner has filled. */
export interface PlaceBlock {
  readonly id: number;
  readonly seal: bigint;
  readonly usedAt: bigint;
  readonly group: number;
  readonly content: bigint;
  readonly key: BlockKey;
  readonly hash: bigint;
  readonly checksum: bigint;
}

export class PlaceMemory {
  readonly #fd: number;
  readonly #memoryBytes: number;
  readonly #hash: Hash64;
  readonly #page = Buffer.alloc(headerBytes);
  readonly #seal = Buffer.alloc(sealBytes);
  #header: IndexHeader | undefined;
  #entries = Buffer.alloc(0);
  /** What each block has; undefined: nothing, or nothing that is known. */
  #blocks: (PlaceBlock | undefined)[] = [];
  readonly #byKey = new Map<BlockKey, PlaceBlock>();
  /** Of the first group. */
  readonly #byContent = new Map<bigint, PlaceBlock>();

  /** Takes over the descriptor of memory of this size. */
  constructor(descriptor: number, memoryBytes: number, hash: Hash64) {
    this.#fd = descriptor;
    this.#memoryBytes = memoryBytes;
    this.#hash = hash;
  }

  /** Undefined before a runner has begun a cache there. */
  get shape(): IndexShape | undefined {
    if (this.#header === undefined) this.#lookAtHeader();
    return this.#header?.shape;
  }

  /** Looks at all entries. Returns the blocks that are new or were used since the last look, each after the one that it continues. */
  scan(): readonly PlaceBlock[] {
    this.#lookAtHeader();
    if (this.#header === undefined) return [];
    const { shape, epoch } = this.#header;
    const entryBytes = entryBytesOf(shape.blockSize);
    if (readSync(this.#fd, this.#entries, 0, this.#entries.length, headerBytes) < this.#entries.length)
      return [];
    const changed: { readonly id: number; readonly seal: bigint; readonly bytes: Buffer }[] = [];
    const found: PlaceBlock[] = [];
    for (let id = 0; id < shape.numBlocks; id += 1) {
      const bytes = this.#entries.subarray(id * entryBytes, (id + 1) * entryBytes);
      const seal = bytes.readBigUInt64LE(0);
      const known = this.#blocks[id];
      if (known?.seal === seal) {
        const usedAt = readUsedAt(bytes);
        if (known.usedAt !== usedAt) found.push(this.#know({ ...known, usedAt }));
        continue;
      }
      if (known !== undefined) this.#drop(known);
      if (seal !== 0n) changed.push({ id, seal, bytes });
    }
    const entries = changed.flatMap(({ id, seal, bytes }) => {
      const entry = readEntry(bytes, id, epoch, shape.blockSize, this.#hash);
      return entry === undefined ? [] : [{ id, seal, usedAt: readUsedAt(bytes), ...entry }];
    });
    // A runner numbers contents in the order in which it computes them, and a block of another group belongs to one of the first.
    entries.sort((one, other) => one.group - other.group || (one.content < other.content ? -1 : 1));
    for (const { id, seal, usedAt, ...entry } of entries) {
      const key = this.#keyOf(shape.contents, entry);
      if (key === undefined) continue;
      const { group, content, hash, checksum } = entry;
      found.push(this.#know({ id, seal, usedAt, group, content, key, hash, checksum }));
    }
    return found;
  }

  /** The block with this key, if it is still there. */
  find(key: BlockKey): PlaceBlock | undefined {
    const block = this.#byKey.get(key);
    return block !== undefined && this.#isThere(block) ? block : undefined;
  }

  /** Of the blocks that were there at the last look. */
  get keys(): Iterable<BlockKey> {
    return this.#byKey.keys();
  }

  /** The bytes of a block; undefined if a runner has begun to reuse it. */
  read(block: PlaceBlock): Buffer | undefined {
    if (this.#header === undefined) return undefined;
    const { shape } = this.#header;
    const bytes = Buffer.allocUnsafe(shape.blockBytes);
    const numBytes = readSync(this.#fd, bytes, 0, bytes.length, blockOffset(shape, block.id));
    return numBytes === bytes.length && this.#isThere(block) ? bytes : undefined;
  }

  close(): void {
    closeSync(this.#fd);
  }

  #lookAtHeader(): void {
    readSync(this.#fd, this.#page, 0, headerBytes, 0);
    const header = readHeader(this.#page, this.#memoryBytes, this.#hash);
    if (header?.epoch === this.#header?.epoch) return;
    this.#header = header;
    this.#blocks = [];
    this.#byKey.clear();
    this.#byContent.clear();
    this.#entries = Buffer.alloc(
      header === undefined ? 0 : header.shape.numBlocks * entryBytesOf(header.shape.blockSize),
    );
  }

  #keyOf(contents: string, { group, content, previousContent, salt, ids }: IndexEntry): BlockKey | undefined {
    if (group > 0) {
      const first = this.#keyOfContent(content);
      return first && keyBeside(first, group);
    }
    const before =
      previousContent === 0n ? keyBeforeFirst(contents, salt) : this.#keyOfContent(previousContent);
    return before && keyAfter(before, ids);
  }

  /**
   * The key of the block of the first group with this content. The number means that content only if the block that has it is there
   * after the entry that names it was read: a runner gives a number again once the runner before it is dead and the block is gone.
   */
  #keyOfContent(content: bigint): BlockKey | undefined {
    const block = this.#byContent.get(content);
    return block !== undefined && this.#isThere(block) ? block.key : undefined;
  }

  #isThere({ id, seal }: PlaceBlock): boolean {
    if (this.#header === undefined) return false;
    const numBytes = readSync(this.#fd, this.#seal, 0, sealBytes, entryOffset(this.#header.shape, id));
    return numBytes === sealBytes && this.#seal.readBigUInt64LE(0) === seal;
  }

  #know(block: PlaceBlock): PlaceBlock {
    this.#blocks[block.id] = block;
    this.#byKey.set(block.key, block);
    if (block.group === 0) this.#byContent.set(block.content, block);
    return block;
  }

  #drop(block: PlaceBlock): void {
    this.#blocks[block.id] = undefined;
    if (this.#byKey.get(block.key) === block) this.#byKey.delete(block.key);
    if (this.#byContent.get(block.content) === block) this.#byContent.delete(block.content);
  }
}
