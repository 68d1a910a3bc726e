/**
 * The KV caches of a pool's places, in memory that outlives the runners there (docs/reliability.md, "What a death costs"). The
 * next runner in a place goes on with what the dead one has computed. The gateway only holds the descriptors.
 */
import type { Timer } from '../../system/clock.ts';
import { closeKvMemory, type MakeKvMemory, makeKvMemory } from '../process/kv-memory.ts';
import { passing, type RunnerCommand } from '../process/process.ts';
import type { Death } from './exit-policy.ts';

/** A runner that takes longer from its first sign of death to its end may have written to the memory meanwhile. */
export const maxDyingMs = 5000;

interface Place {
  /** A runner has used the memory since it was empty. */
  isUsed: boolean;
  /** The next runner begins with an empty cache. */
  isDistrusted: boolean;
  /** The last runner began with what another one had computed. */
  tookOver: boolean;
}

/** What a supervisor sees of the memory of its place. */
export type KeptCache = Pick<KeptCaches, 'wait'> & {
  /** The command of the next runner. */
  passTo(command: RunnerCommand): RunnerCommand;
  /** The runner is dead. dyingMs: since the first sign of it. */
  onDied(death: Death, dyingMs: number): void;
  /** The next runner begins with an empty cache. */
  distrust(reason: string): void;
};

export class KeptCaches {
  readonly #places: readonly Place[];
  readonly #onDropped: (place: number, reason: string) => void;
  readonly #make: MakeKvMemory;
  /** A descriptor for each place; none if the memory is not made yet, or could not be made. */
  #descriptors: readonly number[] = [];
  #making: Promise<void> | undefined;
  /** The runner program that made the memory, or that could not. */
  #maker: string | undefined;

  /** onDropped: what the runners of a place have computed is not used any more, for this reason. */
  constructor(
    numPlaces: number,
    onDropped: (place: number, reason: string) => void,
    make: MakeKvMemory = makeKvMemory,
  ) {
    this.#places = Array.from({ length: numPlaces }, () => ({ ...unused }));
    this.#onDropped = onDropped;
    this.#make = make;
  }

  place(index: number): KeptCache {
    return {
      wait: (command, start) => this.wait(command, start),
      passTo: (command) => this.#passTo(index, command),
      onDied: (death, dyingMs) => {
        const reason = whyDistrusted(death, dyingMs, this.#places[index]?.tookOver ?? false);
        if (reason !== undefined) this.#distrust(index, reason);
      },
      distrust: (reason) => this.#distrust(index, reason),
    };
  }

  /** If the memory for this command must be made first, calls `start` when it is made; otherwise returns undefined. */
  wait({ keepsKv = false, file }: RunnerCommand, start: () => void): Timer | undefined {
    if (!keepsKv || this.#maker === file) return undefined;
    this.#making ??= this.#makeFor(file);
    let isCancelled = false;
    void this.#making.then(() => {
      if (!isCancelled) start();
    });
    return { cancel: () => (isCancelled = true) };
  }

  async #makeFor(file: string): Promise<void> {
    this.close();
    try {
      this.#descriptors = await this.#make(file, this.#places.length);
    } catch (error) {
      this.#onDropped(0, error instanceof Error ? error.message : String(error));
    }
    this.#maker = file;
    this.#making = undefined;
  }

  #passTo(index: number, command: RunnerCommand): RunnerCommand {
    const place = this.#places[index];
    const descriptor = this.#descriptors[index];
    if (!command.keepsKv || place === undefined || descriptor === undefined) return command;
    const { isDistrusted, isUsed } = place;
    Object.assign(place, { isUsed: true, isDistrusted: false, tookOver: isUsed && !isDistrusted });
    const passed = passing(command, 'kv-fd', descriptor);
    return isDistrusted ? { ...passed, args: [...passed.args, '--clear-kv'] } : passed;
  }

  #distrust(index: number, reason: string): void {
    const place = this.#places[index];
    if (place === undefined || !place.isUsed || place.isDistrusted) return;
    place.isDistrusted = true;
    this.#onDropped(index, reason);
  }

  /** Frees the memory, once no runner has it any more. */
  close(): void {
    closeKvMemory(this.#descriptors);
    this.#descriptors = [];
    this.#maker = undefined;
    for (const place of this.#places) Object.assign(place, unused);
  }
}

const unused: Place = { isUsed: false, isDistrusted: false, tookOver: false };

/**
 * Why the next runner does not go on with what this one has computed; undefined: it does. Checksums find bytes that were damaged,
 * not wrong ones that were written with their checksum. tookOver: this one went on with another's.
 */
export function whyDistrusted(death: Death, dyingMs: number, tookOver: boolean): string | undefined {
  const { exit, verdict, isOutOfMemory, hasTokens } = death;
  if (exit.signal === 'SIGSYS' || verdict?.kind === 'violation') return 'The runner did what none may do.';
  if (exit.signal === 'SIGKILL' && verdict === undefined && isOutOfMemory) return 'Memory ran out.';
  if (exit.code === 75) return 'The runner could not use it.';
  if (dyingMs > maxDyingMs) return 'The runner took too long to end.';
  // What it took over may be what has killed both.
  if (tookOver && !hasTokens) return 'The runner ended before it had a new token, like the one before it.';
  return undefined;
}
