/**
 * Takes the blocks that runners have computed into the file, and gives those of a text back to the runner that is to go on with it. It
 * alone knows the file and its secret: runners read and write only memory, and what they read there has been decrypted by then.
 */
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, systemClock } from '../../system/clock.ts';
import { type BlockFile, EARLIER, type Origin } from './block-file.ts';
import type { BlockKey } from './block-keys.ts';
import type { Hash64 } from './index-layout.ts';
import type { FromKeeper, KvDiskFigures, SharedMemory, ToKeeper } from './messages.ts';
import { PlaceMemory } from './place-memory.ts';
import { type StagedBlock, StagingMemory } from './staging-memory.ts';
import { type Text, TextBlocks } from './text-blocks.ts';

/** The most keys of blocks that may be wrong. The oldest leave first. */
const maxDistrusted = 2 ** 20;
/** How long a load waits until the blocks of others have been read. Then it goes without what is left. */
export const maxRoomWaitMs = 2000;

interface Place {
  readonly memory: PlaceMemory;
  readonly origin: Origin;
  /** An earlier keeper has saved what lay there. */
  readonly isOlder: boolean;
}

interface Pool {
  staging: StagingMemory | undefined;
  readonly places: Map<number, Place>;
  /** Of the model; empty: it is not known yet. */
  identity: string;
}

/** places: see FromKeeper. */
interface Loaded {
  readonly numBlocks: number;
  readonly places: readonly number[];
}

const NOTHING: Loaded = { numBlocks: 0, places: [] };

export class Keeper {
  readonly #file: BlockFile;
  readonly #hash: Hash64;
  readonly #tell: (message: FromKeeper) => void;
  readonly #clock: Clock;
  readonly #pools = new Map<number, Pool>();
  /** Loads that are under way, and those that hold blocks in the memory of a pool. */
  readonly #loads = new Set<number>();
  readonly #onRoom = new Set<() => void>();
  /** One thing at a time is done with the file. Loads come before what is saved. */
  #loading: Promise<void> = Promise.resolve();
  #saving: Promise<void> = Promise.resolve();
  readonly #toSave = new Set<Pool>();
  /** Blocks that may be wrong. They are neither saved nor given again, since other caches may have read them. */
  readonly #distrusted = new Set<BlockKey>();
  #lastOrigin: Origin = 0;
  #numSaved = 0;
  #numLoaded = 0;
  #numDropped = 0;

  constructor(
    file: BlockFile,
    hash: Hash64,
    tell: (message: FromKeeper) => void,
    clock: Clock = systemClock,
  ) {
    this.#clock = clock;
    this.#file = file;
    this.#hash = hash;
    this.#tell = tell;
  }

  get figures(): KvDiskFigures {
    const { numBlocks, usedBytes } = this.#file;
    return {
      ...{ numBlocks, usedBytes },
      ...{ numSaved: this.#numSaved, numLoaded: this.#numLoaded, numDropped: this.#numDropped },
    };
  }

  /** Throws the system's errors of the file. */
  async handle(message: Exclude<ToKeeper, { type: 'open' }>): Promise<void> {
    switch (message.type) {
      case 'staging':
        this.#openStaging(this.#poolOf(message.pool), message.memory);
        return;
      case 'place':
        this.#openPlace(this.#poolOf(message.pool), message);
        return;
      case 'no_place':
        this.#closePlace(this.#poolOf(message.pool), message.place, message.isDistrusted);
        return;
      case 'distrust':
        this.#forget(this.#file.keysFrom(EARLIER));
        return;
      case 'no_pool':
        this.#closePool(message.pool);
        return;
      case 'model':
        this.#poolOf(message.pool).identity = message.identity;
        return;
      case 'save':
        await this.#save(this.#poolOf(message.pool));
        return;
      case 'flush':
        await this.#save(this.#poolOf(message.pool));
        this.#tell({ type: 'saved', number: message.number });
        return;
      case 'load':
        await this.#load(message.number, this.#poolOf(message.pool), message);
        return;
      case 'release':
        this.#release(message.number, this.#poolOf(message.pool));
    }
  }

  /** Saves what all runners have computed. */
  async saveAll(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => this.#save(pool)));
  }

  #poolOf(number: number): Pool {
    const known = this.#pools.get(number);
    if (known !== undefined) return known;
    const pool = { staging: undefined, places: new Map(), identity: '' };
    this.#pools.set(number, pool);
    return pool;
  }

  #openStaging(pool: Pool, memory: SharedMemory | undefined): void {
    pool.staging?.close();
    pool.staging = undefined;
    if (memory === undefined) return;
    const opened = openMemory(memory, constants.O_RDWR);
    if (opened !== undefined) pool.staging = new StagingMemory(opened, memory.bytes, this.#hash);
  }

  #openPlace(pool: Pool, { place, memory, isOlder = false }: Extract<ToKeeper, { type: 'place' }>): void {
    this.#closePlace(pool, place, false);
    const opened = openMemory(memory, constants.O_RDONLY);
    if (opened === undefined) return;
    this.#lastOrigin += 1;
    pool.places.set(place, {
      memory: new PlaceMemory(opened, memory.bytes, this.#hash),
      origin: this.#lastOrigin,
      isOlder,
    });
  }

  #closePlace({ places }: Pool, number: number, isDistrusted: boolean): void {
    const place = places.get(number);
    if (place === undefined) return;
    places.delete(number);
    if (isDistrusted) this.#distrust(place);
    place.memory.close();
  }

  /** What came from there, and what lies there, which others may have read. */
  #distrust({ memory, origin, isOlder }: Place): void {
    memory.scan();
    this.#forget(new Set([...memory.keys, ...this.#file.keysFrom(origin)]));
    if (isOlder) this.#forget(this.#file.keysFrom(EARLIER));
  }

  #forget(keys: Iterable<BlockKey>): void {
    this.#numDropped += this.#file.forget(keys);
    for (const key of keys) {
      this.#distrusted.add(key);
      for (const { staging } of this.#pools.values()) staging?.forget(key);
    }
    for (const key of this.#distrusted) {
      if (this.#distrusted.size <= maxDistrusted) break;
      this.#distrusted.delete(key);
    }
  }

  #closePool(number: number): void {
    const pool = this.#pools.get(number);
    if (pool === undefined) return;
    this.#pools.delete(number);
    pool.staging?.close();
    pool.staging = undefined;
    for (const place of [...pool.places.keys()]) this.#closePlace(pool, place, false);
  }

  /** What comes while the pool waits for its turn is saved in that turn. */
  #save(pool: Pool): Promise<void> {
    if (this.#toSave.has(pool)) return this.#saving;
    this.#toSave.add(pool);
    this.#saving = this.#saving.then(async () => {
      this.#toSave.delete(pool);
      for (const [place, kept] of pool.places) await this.#saveNew(pool, place, kept);
    });
    return this.#saving;
  }

  async #saveNew(pool: Pool, place: number, kept: Place): Promise<void> {
    const { memory, origin } = kept;
    const isOpen = (): boolean => pool.places.get(place) === kept;
    if (!isOpen()) return;
    const found = memory.scan();
    if (!isOf(memory, pool.identity)) return;
    for (const block of found) {
      if (this.#distrusted.has(block.key) || !this.#file.needs(block.key)) continue;
      // Loads and messages go on between two blocks.
      await nextTurn();
      await this.#loading;
      if (!isOpen()) return;
      const bytes = memory.read(block);
      if (bytes === undefined) continue;
      this.#file.write(block.key, { hash: block.hash, checksum: block.checksum, bytes }, origin);
      this.#numSaved += 1;
    }
  }

  #load(number: number, pool: Pool, text: Text): Promise<void> {
    this.#loads.add(number);
    const loaded = this.#loading.then(async () => {
      const { numBlocks, places } = await this.#stage(number, pool, text);
      this.#numLoaded += numBlocks;
      this.#tell({ type: 'loaded', number, numBlocks, places });
    });
    this.#loading = loaded.catch(() => {});
    return loaded;
  }

  /** Puts the blocks of the text that the file has and no runner into the memory of the pool. */
  async #stage(holder: number, pool: Pool, text: Text): Promise<Loaded> {
    const { staging } = pool;
    const isWanted = (): boolean => this.#loads.has(holder) && pool.staging === staging;
    // It may have been released before its turn.
    if (!isWanted()) return NOTHING;
    const shape = [...pool.places.values()].find(({ memory }) => isOf(memory, pool.identity))?.memory.shape;
    if (shape === undefined || staging === undefined) return NOTHING;
    const blocks = new TextBlocks(shape, text);
    const best = bestPlace(pool, blocks);
    staging.fit(shape);
    const end = this.#endWithin(staging.capacity, best.numBlocks, blocks, pool);
    if (end <= best.numBlocks) return NOTHING;
    const put = async (group: number, index: number, needsBytes: boolean): Promise<boolean> => {
      const key = blocks.key(group, index);
      if (staging.hold(holder, key, needsBytes)) return true;
      const hasRoom = await this.#waitForRoom(staging, needsBytes, isWanted);
      const block = hasRoom && isWanted() ? this.#blockOf(key, pool, needsBytes) : undefined;
      if (block === undefined) return false;
      const first = blocks.key(0, index);
      const previous = index === 0 ? undefined : blocks.key(0, index - 1);
      staging.put(holder, {
        ...block,
        group,
        key,
        first,
        previous,
        salt: text.salt,
        ids: blocks.idsOf(index),
      });
      return true;
    };
    // A runner follows the text from its first block on, whatever it has itself.
    for (let index = 0; index < best.numBlocks; index += 1) if (!(await put(0, index, false))) return NOTHING;
    let numLoaded = 0;
    for (const { group, index } of blocks.needed(best.numBlocks, end)) {
      // Messages are handled between two blocks.
      await nextTurn();
      if (!isWanted()) return NOTHING;
      if (!(await put(group, index, true))) break;
      numLoaded += 1;
    }
    return { numBlocks: numLoaded, places: best.place === undefined ? [] : [best.place] };
  }

  /** The end of the longest part of the text that runners and file have together, and whose blocks after `begin` have room. */
  #endWithin(capacity: number, begin: number, blocks: TextBlocks, { places }: Pool): number {
    const isKnown = (key: BlockKey): boolean =>
      !this.#distrusted.has(key) &&
      (this.#file.has(key) || [...places.values()].some(({ memory }) => memory.find(key) !== undefined));
    let end = blocks.longest(isKnown);
    for (let numMore = 1; end > begin && numMore > 0; ) {
      numMore = blocks.needed(begin, end).length - capacity;
      if (numMore > 0) end = blocks.longest(isKnown, end - Math.ceil(numMore / blocks.numGroups));
    }
    return end;
  }

  /** What is put of a block; undefined if it is nowhere any more. */
  #blockOf(
    key: BlockKey,
    { places }: Pool,
    needsBytes: boolean,
  ): Pick<StagedBlock, 'hash' | 'checksum' | 'bytes'> | undefined {
    const isThere = needsBytes && this.#file.has(key);
    const kept = isThere ? this.#file.read(key) : undefined;
    if (kept !== undefined) return kept;
    if (isThere) this.#numDropped += 1;
    for (const { memory } of places.values()) {
      const found = memory.find(key);
      if (found === undefined) continue;
      const { hash, checksum } = found;
      const bytes = needsBytes ? memory.read(found) : undefined;
      if (bytes !== undefined || !needsBytes) return { hash, checksum, bytes };
    }
    return undefined;
  }

  async #waitForRoom(staging: StagingMemory, needsBytes: boolean, isWanted: () => boolean): Promise<boolean> {
    const untilMs = this.#clock.now() + maxRoomWaitMs;
    while (isWanted() && !staging.hasRoom(needsBytes)) {
      const leftMs = untilMs - this.#clock.now();
      if (leftMs <= 0) return false;
      await this.#roomWithin(leftMs);
    }
    return true;
  }

  /** Until something is released. */
  #roomWithin(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        timer.cancel();
        this.#onRoom.delete(done);
        resolve();
      };
      const timer = this.#clock.after(timeoutMs, done);
      this.#onRoom.add(done);
    });
  }

  #release(holder: number, pool: Pool): void {
    this.#loads.delete(holder);
    pool.staging?.release(holder);
    for (const done of [...this.#onRoom]) done();
  }
}

/** Whether the cache says that it is of this model (kv_index_shape in runner/commands/loaded_model.cc). */
function isOf(memory: PlaceMemory, identity: string): boolean {
  return identity !== '' && (memory.shape?.contents.includes(` ${identity} `) ?? false);
}

/** The place whose cache has the most blocks of the text from the first one on, and how many; undefined: none has any. */
function bestPlace({ places }: Pool, blocks: TextBlocks) {
  let best: { readonly place: number | undefined; readonly numBlocks: number } = {
    place: undefined,
    numBlocks: 0,
  };
  for (const [place, { memory }] of places) {
    const numBlocks = blocks.longest((key) => memory.find(key) !== undefined);
    if (numBlocks > best.numBlocks) best = { place, numBlocks };
  }
  return best;
}

/** Undefined if the gateway has closed the memory by now. */
function openMemory({ path, inode }: SharedMemory, flags: number): number | undefined {
  let opened: number;
  try {
    opened = openSync(path, flags);
  } catch {
    return undefined;
  }
  if (fstatSync(opened, { bigint: true }).ino === inode) return opened;
  closeSync(opened);
  return undefined;
}
