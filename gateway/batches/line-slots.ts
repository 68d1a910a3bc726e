import { FairQueue, type QueueItem } from '../system/fair-shares.ts';
import type { BatchRecord } from './batch.ts';

interface Waiting extends QueueItem {
  readonly go: () => void;
}

/** The places of lines that are answered at once. Callers take turns; of one caller's batches the oldest goes first. */
export class LineSlots {
  readonly #queue: FairQueue<Waiting>;
  #numFree: number;

  /** maxBatches: the most that wait. */
  constructor(numSlots: number, maxBatches: number) {
    this.#numFree = numSlots;
    this.#queue = new FairQueue(maxBatches);
  }

  /** Resolves with what gives the place back; with undefined if the signal aborts first. */
  take(
    { sharer, createdMs }: Pick<BatchRecord, 'sharer' | 'createdMs'>,
    signal: AbortSignal,
  ): Promise<(() => void) | undefined> {
    if (signal.aborted) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const leave = (): void => {
        this.#queue.delete(waiting);
        resolve(undefined);
      };
      const go = (): void => {
        signal.removeEventListener('abort', leave);
        resolve(() => this.#release());
      };
      const waiting = { caller: sharer, priority: 0, cost: 1, go };
      this.#queue.add(waiting, createdMs);
      signal.addEventListener('abort', leave, { once: true });
      this.#give();
    });
  }

  #release(): void {
    this.#numFree += 1;
    this.#give();
  }

  #give(): void {
    if (this.#numFree === 0) return;
    const next = this.#queue.take();
    if (next === undefined) return;
    this.#numFree -= 1;
    next.go();
  }
}
