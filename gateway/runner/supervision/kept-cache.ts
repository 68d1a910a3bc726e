/**
 * The KV caches of a pool's places, each in memory that outlives the runners there (docs/reliability.md, "What a death costs"). The
 * next runner in a place goes on with what the dead one has computed. The runners of other places read it, to go on with streams that
 * come from there. The gateway only holds the descriptors.
 */
import { messageOf } from '../../errors/thrown.ts';
import type { Timer } from '../../system/clock.ts';
import { closeMemory, type KvMemory, type MakeKvMemory, makeKvMemory } from '../process/kv-memory.ts';
import { passing, type RunnerCommand } from '../process/process.ts';
import type { Death } from './exit-policy.ts';

/** A runner that takes longer from its first sign of death to its end may have written to the memory meanwhile. */
export const maxDyingMs = 5000;

export interface KeptCacheEvents {
  /** What was computed in this place is not used any more, for this reason. */
  onDropped(place: number, reason: string): void;
  /** The memory of this place is there, and nothing was computed in it yet. */
  onMade?(place: number, memory: KvMemory): void;
  /** The memory of this place is about to be closed. mayBeWrong: what was computed in it. */
  onFreed?(place: number, mayBeWrong: boolean): void;
  /** The runner in this place is to let go of the memory that it knows by this descriptor. */
  onReleased(place: number, descriptor: number): void;
}

/** The KV cache of one place. */
export class KeptCache {
  readonly #place: number;
  readonly #all: readonly KeptCache[];
  readonly #events: KeptCacheEvents;
  readonly #make: MakeKvMemory;
  /** undefined: the memory is not made yet, or could not be made. */
  #memory: KvMemory | undefined;
  /** The runner program that made the memory, or that could not. */
  #maker: string | undefined;
  #making: Promise<void> | undefined;
  /** The system is freeing memory that was used here. */
  #freeing: Promise<unknown> | undefined;
  /** RunnerCommand.kvKey of the last runner that has used the memory; undefined: none has since it was made. */
  #usedBy: string | undefined;
  /** The last runner began with what another one had computed. */
  #tookOver = false;
  #isClosed = false;
  /** The memory of other places that the last runner was given, and the descriptors by which it knows it. */
  readonly #given = new Map<KvMemory, number>();

  private constructor(place: number, all: readonly KeptCache[], events: KeptCacheEvents, make: MakeKvMemory) {
    this.#place = place;
    this.#all = all;
    this.#events = events;
    this.#make = make;
  }

  /** Those of so many places. The last one may belong to no runner: it is then for what others put there for runners to read. */
  static ofPlaces(
    numPlaces: number,
    events: KeptCacheEvents,
    make: MakeKvMemory = makeKvMemory,
  ): readonly KeptCache[] {
    const all: KeptCache[] = [];
    for (let place = 0; place < numPlaces; place += 1) all.push(new KeptCache(place, all, events, make));
    return all;
  }

  /**
   * If memory for this command must be made first, calls `start` when it is made; otherwise returns undefined. The memory of all
   * places is made, since a runner cannot be given any later.
   */
  wait({ kvKey, file }: RunnerCommand, start: () => void): Timer | undefined {
    if (this.#usedBy !== kvKey)
      this.#drop({ reason: 'The next runner has other settings.', mayBeWrong: false });
    const making = kvKey === undefined ? [] : this.#all.flatMap((cache) => cache.#missing(file) ?? []);
    if (making.length === 0) return undefined;
    let isCancelled = false;
    void Promise.all(making).then(() => {
      if (!isCancelled) start();
    });
    return { cancel: () => (isCancelled = true) };
  }

  #missing(runner: string): Promise<void> | undefined {
    if (this.#maker === runner) return undefined;
    this.#making ??= this.#makeBy(runner);
    return this.#making;
  }

  async #makeBy(runner: string): Promise<void> {
    this.#free(false);
    // The next runner plans with what is free.
    if (this.#freeing !== undefined) await this.#freeing;
    try {
      this.#memory = await this.#make(runner);
      this.#events.onMade?.(this.#place, this.#memory);
    } catch (error) {
      // Nobody needs it any more, and the log has ended.
      if (!this.#isClosed) this.#events.onDropped(this.#place, messageOf(error));
    }
    this.#maker = runner;
    this.#making = undefined;
    if (this.#isClosed) this.#free(false);
  }

  /** The command of the next runner. Only if wait() returns undefined. */
  passTo(command: RunnerCommand): RunnerCommand {
    this.#given.clear();
    if (command.kvKey === undefined) return command;
    if (this.#memory === undefined) {
      // The start after this one tries again.
      this.#maker = undefined;
      return command;
    }
    this.#tookOver = this.#usedBy !== undefined;
    this.#usedBy = command.kvKey;
    let passed = passing(command, 'kv-fd', this.#memory.own);
    for (const cache of this.#all) {
      const memory = cache.#memory;
      if (memory === undefined || cache === this) continue;
      passed = passing(passed, 'kv-from', memory.reader);
      this.#given.set(memory, Number(passed.args.at(-1)));
    }
    return passed;
  }

  /** The descriptors by which the runner in this place knows the memory of these, as far as it has been given what is there now. */
  descriptorsOf(places: readonly number[]): number[] {
    const caches = places.flatMap((place) => this.#all[place] ?? []);
    return caches.flatMap((cache) => (cache.#memory && this.#given.get(cache.#memory)) ?? []);
  }

  /** The runner is dead. dyingMs: since the first sign of it. isPlanned: it was told to end, for another one. */
  onDied(death: Death, dyingMs: number, isPlanned = false): void {
    if (isPlanned && death.exit.code === 0) return;
    const distrust = whyDistrusted(death, dyingMs, this.#tookOver);
    if (distrust !== undefined) this.#drop(distrust);
  }

  /** Nobody reads the memory any more, and the next runner gets new memory. */
  #drop({ reason, mayBeWrong }: Distrust): void {
    if (this.#usedBy === undefined) return;
    this.#free(mayBeWrong);
    this.#events.onDropped(this.#place, reason);
  }

  /** Frees the memory, once no runner has it any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#free(false);
    await this.#freeing;
  }

  #free(mayBeWrong: boolean): void {
    const memory = this.#memory;
    this.#memory = undefined;
    this.#maker = undefined;
    this.#usedBy = undefined;
    this.#tookOver = false;
    if (memory === undefined) return;
    this.#events.onFreed?.(this.#place, mayBeWrong);
    for (const cache of this.#all) cache.#release(memory);
    this.#freeing = Promise.all([memory.own, memory.reader].map(closeMemory));
  }

  /** The pages of a memory are not freed while another runner has a descriptor. */
  #release(memory: KvMemory): void {
    const descriptor = this.#given.get(memory);
    if (descriptor === undefined) return;
    this.#given.delete(memory);
    this.#events.onReleased(this.#place, descriptor);
  }
}

/** Why nobody goes on with what was computed in a memory. */
export interface Distrust {
  /** A sentence. */
  readonly reason: string;
  /** What was computed there may be wrong. */
  readonly mayBeWrong: boolean;
}

/**
 * Why the next runner does not go on with what this one has computed; undefined: it does. Checksums find bytes that were damaged,
 * not wrong ones that were written with their checksum. tookOver: this one went on with another's.
 */
export function whyDistrusted(death: Death, dyingMs: number, tookOver: boolean): Distrust | undefined {
  const { exit, verdict, isOutOfMemory, hasTokens, readyForMs } = death;
  const wrong = (reason: string): Distrust => ({ reason, mayBeWrong: true });
  // No process has had it.
  if (exit.spawnError !== undefined) return undefined;
  if (exit.signal === 'SIGSYS' || verdict?.kind === 'violation')
    return wrong('The runner did what none may do.');
  // The death of the runner does not free the memory, and the kernel would kill the gateway next.
  const isKilled = exit.signal === 'SIGKILL' && verdict === undefined && isOutOfMemory;
  const isRefused = exit.code === 71 && readyForMs === undefined;
  if (isKilled || isRefused) return { reason: 'Memory ran out.', mayBeWrong: false };
  if (exit.code === 75) return { reason: 'The runner could not use it.', mayBeWrong: false };
  if (dyingMs > maxDyingMs) return wrong('The runner took too long to end.');
  // What it took over may be what has killed both.
  if (tookOver && !hasTokens)
    return wrong('The runner ended before it had a new token, like the one before it.');
  return undefined;
}
