/**
 * Memory in which runners find blocks of the file, as if another runner had computed them: they read it as they read each other's
 * caches (--kv-from). It has an entry for each block of a text from the first one on, since a runner follows the text. Of blocks that
 * the runner has already there are only entries, without bytes.
 */
import { randomBytes } from 'node:crypto';
import { closeSync } from 'node:fs';
import { writeAll } from '../../system/write-all.ts';
import { type BlockKey, contentOf } from './block-keys.ts';
import {
  blockOffset,
  entryOffset,
  type Hash64,
  type IndexEntry,
  type IndexHeader,
  type IndexShape,
  sealBytes,
  writeEntry,
  writeHeader,
} from './index-layout.ts';
import { stagedShare } from './messages.ts';

/** A block of a text. */
export interface StagedBlock extends Pick<IndexEntry, 'group' | 'hash' | 'checksum' | 'salt' | 'ids'> {
  readonly key: BlockKey;
  /** Of the block of the first group with the same content. */
  readonly first: BlockKey;
  /** Of the block of the first group before it; undefined: it is the first of the text. */
  readonly previous: BlockKey | undefined;
  /** Undefined if the runner has them. */
  readonly bytes: Buffer | undefined;
}

interface Slot {
  readonly key: BlockKey;
  readonly id: number;
  readonly hasBytes: boolean;
  numHolders: number;
}

/** Of one kind: with bytes or without. */
class Slots {
  readonly #free: number[] = [];
  /** Without holders; the one that was given back first comes first. */
  readonly #idle = new Set<Slot>();

  constructor(first: number, count: number) {
    for (let id = first + count - 1; id >= first; id -= 1) this.#free.push(id);
  }

  get hasRoom(): boolean {
    return this.#free.length + this.#idle.size > 0;
  }

  /** Takes an id. There must be room. onEvicted: for the slot that had it. */
  take(onEvicted: (slot: Slot) => void): number {
    const id = this.#free.pop();
    if (id !== undefined) return id;
    const [oldest] = this.#idle;
    if (oldest === undefined) throw new Error('There is no room for another block.');
    this.#idle.delete(oldest);
    onEvicted(oldest);
    return oldest.id;
  }

  hold(slot: Slot): void {
    slot.numHolders += 1;
    this.#idle.delete(slot);
  }

  release(slot: Slot): void {
    slot.numHolders -= 1;
    if (slot.numHolders === 0) this.#idle.add(slot);
  }
}

export class StagingMemory {
  readonly #fd: number;
  readonly #memoryBytes: number;
  readonly #hash: Hash64;
  #header: IndexHeader | undefined;
  #numWithBytes = 0;
  #withBytes = new Slots(0, 0);
  #without = new Slots(0, 0);
  readonly #slots = new Map<BlockKey, Slot>();
  readonly #held = new Map<number, Slot[]>();

  /** Takes over the descriptor of memory of this size. */
  constructor(descriptor: number, memoryBytes: number, hash: Hash64) {
    this.#fd = descriptor;
    this.#memoryBytes = memoryBytes;
    this.#hash = hash;
  }

  /** Begins anew if the caches of the runners, of this shape, are of something else than before. */
  fit(cache: IndexShape): void {
    const shape = stagingShape(cache, this.#memoryBytes);
    if (JSON.stringify(shape) === JSON.stringify(this.#header?.shape)) return;
    const header = { shape, epoch: randomBytes(sealBytes).readBigUInt64LE(0) || 1n };
    this.#write(0, Buffer.alloc(sealBytes));
    for (const { id } of this.#slots.values()) this.#removeSeal(id);
    this.#write(0, writeHeader(header, this.#hash));
    this.#header = header;
    this.#slots.clear();
    this.#held.clear();
    this.#numWithBytes = numStaged(cache);
    this.#withBytes = new Slots(0, this.#numWithBytes);
    this.#without = new Slots(this.#numWithBytes, shape.numBlocks - this.#numWithBytes);
  }

  /** How many blocks with bytes there can be. */
  get capacity(): number {
    return this.#numWithBytes;
  }

  hasRoom(hasBytes: boolean): boolean {
    return this.#slotsOf(hasBytes).hasRoom;
  }

  /** Whether the block is there. Then it stays until this holder releases it. */
  hold(holder: number, key: BlockKey, needsBytes: boolean): boolean {
    const slot = this.#slots.get(key);
    if (slot === undefined || (needsBytes && !slot.hasBytes)) return false;
    this.#slotsOf(slot.hasBytes).hold(slot);
    const held = this.#held.get(holder) ?? [];
    held.push(slot);
    this.#held.set(holder, held);
    return true;
  }

  /** Puts a block there that is not, and holds it. There must be room. */
  put(holder: number, block: StagedBlock): void {
    this.#fill(block);
    this.hold(holder, block.key, false);
  }

  release(holder: number): void {
    for (const slot of this.#held.get(holder) ?? []) this.#slotsOf(slot.hasBytes).release(slot);
    this.#held.delete(holder);
  }

  /** Takes a block away, also from those that hold it. */
  forget(key: BlockKey): void {
    const slot = this.#slots.get(key);
    if (slot !== undefined) this.#evict(slot);
  }

  close(): void {
    closeSync(this.#fd);
  }

  #slotsOf(hasBytes: boolean): Slots {
    return hasBytes ? this.#withBytes : this.#without;
  }

  #fill({ key, first, previous, bytes, ...facts }: StagedBlock): void {
    if (this.#header === undefined) throw new Error('The staging memory has no shape yet.');
    const { shape, epoch } = this.#header;
    const hasBytes = bytes !== undefined;
    const id = this.#slotsOf(hasBytes).take((evicted) => this.#evict(evicted));
    const entry = {
      ...facts,
      content: contentOf(first),
      previousContent: previous === undefined ? 0n : contentOf(previous),
    };
    const written = writeEntry(entry, id, epoch, shape.blockSize, this.#hash);
    if (bytes !== undefined) this.#write(blockOffset(shape, id), bytes);
    const offset = entryOffset(shape, id);
    this.#write(offset + sealBytes, written.subarray(sealBytes));
    this.#write(offset, written.subarray(0, sealBytes));
    const before = this.#slots.get(key);
    // Whoever holds the entry without bytes finds the one that has them just as well.
    if (before !== undefined) this.#removeSeal(before.id);
    this.#slots.set(key, { key, id, hasBytes, numHolders: 0 });
  }

  #evict(slot: Slot): void {
    this.#removeSeal(slot.id);
    if (this.#slots.get(slot.key) === slot) this.#slots.delete(slot.key);
  }

  #removeSeal(id: number): void {
    if (this.#header !== undefined) this.#write(entryOffset(this.#header.shape, id), Buffer.alloc(sealBytes));
  }

  #write(position: number, bytes: Uint8Array): void {
    writeAll(this.#fd, bytes, position);
  }
}

function numStaged({ numBlocks }: IndexShape): number {
  return Math.max(1, Math.floor(numBlocks * stagedShare));
}

/**
 * Room for the longest text that the caches hold, and for the blocks with bytes; less if the memory would be too small. Memory that
 * is not written to takes no pages.
 */
function stagingShape(cache: IndexShape, memoryBytes: number): IndexShape {
  const withBytes = numStaged(cache);
  let numBlocks = withBytes + cache.numBlocks;
  while (numBlocks > withBytes && blockOffset({ ...cache, numBlocks }, numBlocks) > memoryBytes)
    numBlocks = Math.max(withBytes, Math.floor(numBlocks * 0.9));
  return { ...cache, numBlocks };
}
