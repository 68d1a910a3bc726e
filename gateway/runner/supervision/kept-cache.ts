/**
 * The KV cache of one place, in memory that outlives the runners there (docs/reliability.md, "What a death costs"). The next
 * runner in the place goes on with what the dead one has computed. The gateway only holds the descriptor.
 */
import type { Timer } from '../../system/clock.ts';
import { closeMemory, type MakeKvMemory, makeKvMemory } from '../process/kv-memory.ts';
import { passing, type RunnerCommand } from '../process/process.ts';
import type { Death } from './exit-policy.ts';

/** A runner that takes longer from its first sign of death to its end may have written to the memory meanwhile. */
export const maxDyingMs = 5000;

export class KeptCache {
  readonly #onDropped: (reason: string) => void;
  readonly #make: MakeKvMemory;
  /** undefined: the memory is not made yet, or could not be made. */
  #descriptor: number | undefined;
  /** The runner program that made the memory, or that could not. */
  #maker: string | undefined;
  #making: Promise<void> | undefined;
  /** A runner has used the memory since it was made. */
  #isUsed = false;
  /** The last runner began with what another one had computed. */
  #tookOver = false;
  #isClosed = false;

  /** onDropped: what was computed in this place is not used any more, for this reason. */
  constructor(onDropped: (reason: string) => void, make: MakeKvMemory = makeKvMemory) {
    this.#onDropped = onDropped;
    this.#make = make;
  }

  /** If memory for this command must be made first, calls `start` when it is made; otherwise returns undefined. */
  wait({ keepsKv = false, file }: RunnerCommand, start: () => void): Timer | undefined {
    if (!keepsKv || this.#maker === file) return undefined;
    this.#making ??= this.#makeBy(file);
    let isCancelled = false;
    void this.#making.then(() => {
      if (!isCancelled) start();
    });
    return { cancel: () => (isCancelled = true) };
  }

  async #makeBy(runner: string): Promise<void> {
    this.#free();
    try {
      this.#descriptor = await this.#make(runner);
    } catch (error) {
      this.#onDropped(error instanceof Error ? error.message : String(error));
    }
    this.#maker = runner;
    this.#making = undefined;
    if (this.#isClosed) this.#free();
  }

  /** The command of the next runner. */
  passTo(command: RunnerCommand): RunnerCommand {
    if (!command.keepsKv || this.#descriptor === undefined) return command;
    this.#tookOver = this.#isUsed;
    this.#isUsed = true;
    return passing(command, 'kv-fd', this.#descriptor);
  }

  /** The runner is dead. dyingMs: since the first sign of it. */
  onDied(death: Death, dyingMs: number): void {
    const reason = whyDistrusted(death, dyingMs, this.#tookOver);
    if (reason !== undefined) this.distrust(reason);
  }

  /** The next runner gets new memory. */
  distrust(reason: string): void {
    if (!this.#isUsed) return;
    this.#free();
    this.#onDropped(reason);
  }

  /** Frees the memory, once no runner has it any more. */
  close(): void {
    this.#isClosed = true;
    this.#free();
  }

  #free(): void {
    if (this.#descriptor !== undefined) closeMemory(this.#descriptor);
    this.#descriptor = undefined;
    this.#maker = undefined;
    this.#isUsed = false;
    this.#tookOver = false;
  }
}

/**
 * Why the next runner does not go on with what this one has computed; undefined: it does. Checksums find bytes that were damaged,
 * not wrong ones that were written with their checksum. tookOver: this one went on with another's.
 */
export function whyDistrusted(death: Death, dyingMs: number, tookOver: boolean): string | undefined {
  const { exit, verdict, isOutOfMemory, hasTokens } = death;
  if (exit.signal === 'SIGSYS' || verdict?.kind === 'violation') return 'The runner did what none may do.';
  // The death of the runner does not free the memory, and the kernel would kill the gateway next.
  if (exit.signal === 'SIGKILL' && verdict === undefined && isOutOfMemory) return 'Memory ran out.';
  if (exit.code === 75) return 'The runner could not use it.';
  if (dyingMs > maxDyingMs) return 'The runner took too long to end.';
  // What it took over may be what has killed both.
  if (tookOver && !hasTokens) return 'The runner ended before it had a new token, like the one before it.';
  return undefined;
}
