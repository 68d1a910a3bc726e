import { FairQueue, type QueueItem, SharedLimit } from '../system/fair-shares.ts';
import type { BatchRecord } from './batch.ts';

interface Waiting extends QueueItem {
  readonly go: () => void;
}

interface Slots {
  readonly queue: FairQueue<Waiting>;
  readonly held: SharedLimit;
}

/**
 * The places of lines that are answered at once, of each model by itself: lines of a model that cannot be loaded, or that others keep
 * busy, take no place from those of another one. Callers take turns; of one caller's batches the oldest goes first. A caller whose
 * lines wait, for whatever reason, leaves the others their shares.
 */
export class LineSlots {
  readonly #numSlots: number;
  readonly #maxBatches: number;
  /** Of models that have lines. */
  readonly #byModel = new Map<string, Slots>();

  /** numSlots: of each model. maxBatches: the most that wait. */
  constructor(numSlots: number, maxBatches: number) {
    this.#numSlots = numSlots;
    this.#maxBatches = maxBatches;
  }

  /** Resolves with what gives the place back; with undefined if the signal aborts first. */
  take(
    { sharer, createdMs }: Pick<BatchRecord, 'sharer' | 'createdMs'>,
    model: string,
    signal: AbortSignal,
  ): Promise<(() => void) | undefined> {
    if (signal.aborted) return Promise.resolve(undefined);
    const { queue, held } = this.#of(model);
    return new Promise((resolve) => {
      const leave = (): void => {
        queue.delete(waiting);
        this.#give(model);
        resolve(undefined);
      };
      const go = (): void => {
        signal.removeEventListener('abort', leave);
        held.hold(sharer, 1);
        resolve(() => {
          held.release(sharer, 1);
          this.#give(model);
        });
      };
      const waiting = { caller: sharer, priority: 0, cost: 1, go };
      queue.add(waiting, createdMs);
      signal.addEventListener('abort', leave, { once: true });
      this.#give(model);
    });
  }

  #of(model: string): Slots {
    const found = this.#byModel.get(model);
    if (found !== undefined) return found;
    const slots = { queue: new FairQueue<Waiting>(this.#maxBatches), held: new SharedLimit(this.#numSlots) };
    this.#byModel.set(model, slots);
    return slots;
  }

  #give(model: string): void {
    const { queue, held } = this.#of(model);
    const fits = ({ caller }: Waiting): boolean => held.hasRoom(caller, 1);
    for (let next = queue.take({ fits }); next !== undefined; next = queue.take({ fits })) next.go();
    if (queue.size === 0 && held.total === 0) this.#byModel.delete(model);
  }
}
