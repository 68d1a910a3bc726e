/**
 * The file in which computed blocks of KV caches outlive the gateway (--kv-disk), as the gateway sees it: a process of its own keeps
 * it, and each pool of runners tells that process where its memory lies. If the process ends, runners compute what they cannot find,
 * and another one is started after a while.
 */
import { fstatSync } from 'node:fs';
import { type Clock, settlesWithin, systemClock, type Timer } from '../../system/clock.ts';
import type { KvMemory } from '../process/kv-memory.ts';
import { type KeeperLink, startKeeper } from './keeper-link.ts';
import {
  type FromKeeper,
  type KvDiskFigures,
  NO_KV_DISK,
  type SharedMemory,
  type ToKeeper,
} from './messages.ts';

/** How long a request waits for its blocks. Then its runner computes them. */
export const maxLoadMs = 10_000;
/** How long the end of a pool waits until its blocks are in the file. */
export const maxFlushMs = 30_000;
/** From the end of the keeper's process to the start of the next one. It doubles, up to the longest, until one opens the file. */
export const restartMs = 10_000;
export const maxRestartMs = 600_000;

export interface KvDiskEvent {
  readonly level: 'info' | 'warn' | 'error';
  readonly event: 'kv_disk_opened' | 'kv_disk_waiting' | 'kv_disk_failed';
  readonly [key: string]: unknown;
}

export interface KvDiskOptions {
  readonly path: string;
  readonly fileBytes: number;
  /** The file with the operator's secret, made if it is not there. */
  readonly secretPath: string;
  readonly log: (event: KvDiskEvent) => void;
  /** Stand in for the real world in tests. */
  readonly clock?: Clock;
  readonly start?: typeof startKeeper;
}

/** Blocks of a text on their way to a runner. */
export interface Loading {
  /**
   * Resolves when the blocks can be read, with the places whose caches have the text's beginning; undefined: there are none to read.
   * Never rejects.
   */
  readonly done: Promise<readonly number[] | undefined>;
  /** The runner has them, or needs them no more. */
  release(): void;
}

export class KvDisk {
  readonly #options: KvDiskOptions;
  readonly #clock: Clock;
  readonly #pools = new Map<number, KvPool>();
  readonly #waiting = new Map<number, (message: FromKeeper | undefined) => void>();
  #link: KeeperLink | undefined;
  #isOpen = false;
  /** A place was distrusted while there was no keeper. */
  #hasDistrusted = false;
  #restart: Timer | undefined;
  #restartMs = restartMs;
  /** What the keeper said before its end. */
  #failure: string | undefined;
  #isClosed = false;
  #lastPool = 0;
  #lastNumber = 0;
  #figures = NO_KV_DISK;
  /** What keepers before this one have counted. */
  #before = NO_KV_DISK;

  constructor(options: KvDiskOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#start();
  }

  /** Counters over all processes so far, and what the file has now. */
  get figures(): KvDiskFigures {
    const { numSaved, numLoaded, numDropped } = this.#before;
    return {
      ...this.#figures,
      numSaved: numSaved + this.#figures.numSaved,
      numLoaded: numLoaded + this.#figures.numLoaded,
      numDropped: numDropped + this.#figures.numDropped,
    };
  }

  /** The file for the runners of another model. */
  pool(): KvPool {
    const number = ++this.#lastPool;
    const pool = new KvPool(number, {
      send: (message) => this.#send(message),
      ask: (message, timeoutMs) => this.#ask(message, timeoutMs),
      isOpen: () => this.#isOpen,
      nextNumber: () => ++this.#lastNumber,
      onClosed: () => this.#pools.delete(number),
    });
    this.#pools.set(number, pool);
    return pool;
  }

  /** The keeper saves what is left and ends. Settles when it has. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#restart?.cancel();
    await this.#link?.end();
  }

  #send(message: ToKeeper): void {
    if (this.#link !== undefined) this.#link.send(message);
    else this.#hasDistrusted ||= message.type === 'no_place' && message.isDistrusted;
  }

  #start(): void {
    const { path, fileBytes, secretPath, start = startKeeper } = this.#options;
    this.#failure = undefined;
    const link = start({
      onMessage: (message) => this.#onMessage(message),
      onEnd: (reason) => this.#onEnd(reason),
    });
    this.#link = link;
    link.send({ type: 'open', path, fileBytes, secretPath });
    if (this.#hasDistrusted) link.send({ type: 'distrust' });
    for (const pool of this.#pools.values()) pool.introduce();
  }

  #onMessage(message: FromKeeper): void {
    const { log, path: file } = this.#options;
    switch (message.type) {
      case 'waiting':
        log({ level: 'warn', event: 'kv_disk_waiting', file, owner_pid: message.ownerPid });
        return;
      case 'opened':
        this.#isOpen = true;
        this.#hasDistrusted = false;
        this.#restartMs = restartMs;
        this.#figures = message.figures;
        log({
          level: 'info',
          event: 'kv_disk_opened',
          ...{ file, blocks: message.figures.numBlocks, bytes: message.figures.usedBytes },
        });
        return;
      case 'figures':
        this.#figures = message.figures;
        return;
      case 'failed':
        this.#failure = message.reason;
        return;
      case 'loaded':
      case 'saved':
        this.#waiting.get(message.number)?.(message);
    }
  }

  #onEnd(reason: string): void {
    this.#link = undefined;
    this.#isOpen = false;
    this.#before = { ...this.figures, numBlocks: 0, usedBytes: 0 };
    this.#figures = NO_KV_DISK;
    for (const answer of [...this.#waiting.values()]) answer(undefined);
    if (this.#isClosed) return;
    const { log, path: file } = this.#options;
    log({ level: 'error', event: 'kv_disk_failed', file, reason: this.#failure ?? reason });
    this.#restart = this.#clock.after(this.#restartMs, () => this.#start());
    this.#restartMs = Math.min(this.#restartMs * 2, maxRestartMs);
  }

  /** Undefined if there is no answer in time. */
  async #ask(
    message: Extract<ToKeeper, { number: number }>,
    timeoutMs: number,
  ): Promise<FromKeeper | undefined> {
    const { number } = message;
    let answer: FromKeeper | undefined;
    const answered = new Promise<void>((resolve) => {
      this.#waiting.set(number, (received) => {
        answer = received;
        resolve();
      });
    });
    this.#link?.send(message);
    await settlesWithin(answered, timeoutMs, this.#clock);
    this.#waiting.delete(number);
    return answer;
  }
}

interface PoolEvents {
  send(message: ToKeeper): void;
  ask(message: Extract<ToKeeper, { number: number }>, timeoutMs: number): Promise<FromKeeper | undefined>;
  isOpen(): boolean;
  nextNumber(): number;
  onClosed(): void;
}

/** The file as the runners of one model use it. */
export class KvPool {
  readonly #number: number;
  readonly #events: PoolEvents;
  #staging: KvMemory | undefined;
  readonly #places = new Map<number, KvMemory>();
  #identity: string | undefined;

  constructor(number: number, events: PoolEvents) {
    this.#number = number;
    this.#events = events;
  }

  /** A new keeper learns where the memory of this pool lies. */
  introduce(): void {
    this.setStaging(this.#staging);
    if (this.#identity !== undefined) this.setModel(this.#identity);
    for (const [place, memory] of this.#places) this.#tellPlace(place, memory, true);
  }

  /** The memory that runners read blocks of the file from; undefined: it is about to be closed. */
  setStaging(memory: KvMemory | undefined): void {
    this.#staging = memory;
    this.#events.send({ type: 'staging', pool: this.#number, memory: memory && shared(memory.own) });
  }

  setPlace(place: number, memory: KvMemory): void {
    this.#places.set(place, memory);
    this.#tellPlace(place, memory, false);
  }

  #tellPlace(place: number, memory: KvMemory, isOlder: boolean): void {
    this.#events.send({
      ...{ type: 'place', pool: this.#number, place },
      ...{ memory: shared(memory.reader), isOlder },
    });
  }

  /** isDistrusted: what runners have computed there may be wrong, and is forgotten. */
  dropPlace(place: number, isDistrusted: boolean): void {
    if (this.#places.delete(place))
      this.#events.send({ type: 'no_place', pool: this.#number, place, isDistrusted });
  }

  /** A runner of the model with this identity is ready. */
  setModel(identity: string): void {
    this.#identity = identity;
    this.#events.send({ type: 'model', pool: this.#number, identity });
  }

  /** Runners have computed something. */
  onComputed(): void {
    if (this.#events.isOpen()) this.#events.send({ type: 'save', pool: this.#number });
  }

  /** Looks for blocks of the text. Undefined if the file is not open. */
  load(ids: readonly number[], salt: Uint8Array): Loading | undefined {
    if (!this.#events.isOpen()) return undefined;
    const pool = this.#number;
    const number = this.#events.nextNumber();
    const answer = this.#events.ask(
      { type: 'load', number, pool, ids: Uint32Array.from(ids), salt },
      maxLoadMs,
    );
    return {
      done: answer.then((loaded) =>
        loaded?.type === 'loaded' && loaded.numBlocks > 0 ? loaded.places : undefined,
      ),
      release: () => this.#events.send({ type: 'release', number, pool }),
    };
  }

  /** Resolves with true when what was computed is in the file, or with false: it is not open, or maxFlushMs have passed. */
  async flush(): Promise<boolean> {
    if (!this.#events.isOpen()) return false;
    const number = this.#events.nextNumber();
    const answer = await this.#events.ask({ type: 'flush', number, pool: this.#number }, maxFlushMs);
    return answer !== undefined;
  }

  close(): void {
    this.#events.send({ type: 'no_pool', pool: this.#number });
    this.#events.onClosed();
  }
}

function shared(descriptor: number): SharedMemory {
  const { ino: inode, size } = fstatSync(descriptor, { bigint: true });
  return { path: `/proc/${process.pid}/fd/${descriptor}`, inode, bytes: Number(size) };
}
