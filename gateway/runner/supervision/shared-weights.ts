/**
 * The weights of a model as its first runner has packed them: a sealed file in memory (docs/protocol.md, "Shared weights"), which
 * outlives that runner. The gateway only holds its descriptor, and passes it to the runners that are started after it.
 */
import { closeSync, constants, openSync, readlinkSync } from 'node:fs';
import { messageOf } from '../../errors/thrown.ts';
import type { Timer } from '../../system/clock.ts';
import { closeMemory } from '../process/kv-memory.ts';
import { passing, type RunnerCommand } from '../process/process.ts';
import type { Death } from './exit-policy.ts';

/** How a runner comes to its weights: packs them for itself, packs them for all, or maps what another one has packed. */
export type WeightsSource = 'private' | 'packed' | 'shared';

/** What a runner has to do with the weights, from its start to its death. */
export interface WeightsLease {
  readonly command: RunnerCommand;
  readonly source: WeightsSource;
}

/** Why weights are packed anew, as a sentence. */
type OnDropped = (reason: string) => void;

interface Held {
  readonly key: string;
  readonly descriptor: number;
}

export class SharedWeights {
  readonly #onDropped: OnDropped;
  #held: Held | undefined;
  /** The system is freeing weights that were held. */
  #freeing: Promise<void> | undefined;
  #packer: WeightsLease | undefined;
  readonly #leases = new Set<WeightsLease>();
  readonly #waiting = new Set<() => void>();

  constructor(onDropped: OnDropped) {
    this.#onDropped = onDropped;
  }

  /**
   * If another runner is packing the weights of this command, calls `start` when it is done or dead, which its own limits bound.
   * If other weights are being freed, calls it then, since the runner plans with what is free. Otherwise returns undefined.
   */
  wait({ weightsKey: key }: RunnerCommand, start: () => void): Timer | undefined {
    // The model file or its settings have changed, or another kind of runner takes over.
    if (this.#held !== undefined && this.#held.key !== key) void this.close();
    const isBeingPacked = this.#packer !== undefined && this.#packer.command.weightsKey === key;
    if (!isBeingPacked && this.#freeing === undefined) return undefined;
    const waiting = () => start();
    this.#waiting.add(waiting);
    return { cancel: () => this.#waiting.delete(waiting) };
  }

  /** The command with which the runner is started now. Only if wait() returns undefined. */
  lend(command: RunnerCommand): WeightsLease {
    const lease = this.#leaseOf(command);
    this.#leases.add(lease);
    if (lease.source === 'packed') this.#packer = lease;
    return lease;
  }

  #leaseOf(command: RunnerCommand): WeightsLease {
    if (command.weightsKey === undefined || this.#packer !== undefined) return { command, source: 'private' };
    if (this.#held !== undefined)
      return { command: passing(command, 'weights-fd', this.#held.descriptor), source: 'shared' };
    return { command: { ...command, args: [...command.args, '--share-weights'] }, source: 'packed' };
  }

  /** The runner is ready. descriptor: its descriptor of the weights that it has packed; undefined: it could not share them. */
  onReady(lease: WeightsLease, pid: number | undefined, descriptor: number | undefined): void {
    if (this.#packer !== lease) return;
    const { weightsKey: key } = lease.command;
    if (key !== undefined && pid !== undefined && descriptor !== undefined) {
      const opened = openWeights(pid, descriptor);
      if (typeof opened === 'string') this.#onDropped(opened);
      else this.#held = { key, descriptor: opened };
    }
    this.#endPacking();
  }

  /** The runner is dead. */
  onDied(lease: WeightsLease, { exit, readyForMs, isOutOfMemory }: Death): void {
    this.#leases.delete(lease);
    if (this.#packer === lease) this.#endPacking();
    if (this.#held === undefined) return;
    const isInUse = [...this.#leases].some(({ source }) => source !== 'private');
    // A start without a process has not seen the weights, and the gateway's own signals say nothing of them.
    const hasEndedItself =
      exit.spawnError === undefined && exit.signal !== 'SIGTERM' && exit.signal !== 'SIGKILL';
    // Memory is short, or something else of the system: the next runner in this place would pack the weights a second time.
    if (exit.code === 71 && isInUse) return;
    if (lease.source === 'shared' && readyForMs === undefined && hasEndedItself)
      this.#drop('A runner that was given the packed weights ended before it was ready.');
    else if (isOutOfMemory && !isInUse)
      // The file's pages are charged to nobody that the kernel could kill for them but the gateway.
      this.#drop('The kernel killed the runner for lack of memory.');
  }

  /** Frees the memory, unless runners have it mapped. Called when no runner is started soon. */
  closeUnlessUsed(): void {
    if (this.#leases.size === 0) void this.close();
  }

  /** Runners that have the weights keep them. Settles when the memory is free, unless they do. */
  async close(): Promise<void> {
    if (this.#held !== undefined) {
      this.#freeing = closeMemory(this.#held.descriptor).then(() => {
        this.#freeing = undefined;
        this.#startWaiting();
      });
      this.#held = undefined;
    }
    await this.#freeing;
  }

  #drop(reason: string): void {
    void this.close();
    this.#onDropped(reason);
  }

  #endPacking(): void {
    this.#packer = undefined;
    this.#startWaiting();
  }

  #startWaiting(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const start of waiting) start();
  }
}

/** A descriptor of a living process's file in memory, or a sentence. The runner may lie: the number may name anything it has open. */
function openWeights(pid: number, descriptor: number): number | string {
  const what = `Descriptor ${descriptor} of runner ${pid}, which is to hold its weights,`;
  let opened: number;
  try {
    opened = openSync(`/proc/${pid}/fd/${descriptor}`, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    return `${what} cannot be opened: ${messageOf(error)}`;
  }
  if (readlinkSync(`/proc/self/fd/${opened}`).startsWith('/memfd:')) return opened;
  closeSync(opened);
  return `${what} is no file in memory.`;
}
