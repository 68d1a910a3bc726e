/**
 * Work on the event loop that takes longer than streams may be kept waiting. It is cut into steps; a few milliseconds of them
 * are done in each turn of the loop, and everything else has its turn in between. Of requests' work one is under way at a
 * time, for the sake of memory, and the shortest that waits is next: who sends little does not wait for all who send much.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Yields often: between two yields lies about a millisecond at most. */
export type Task<Result> = Generator<undefined, Result, undefined>;

export const cooperativeLimits = {
  /** Of one turn. Streams are held up for so long, and for what the longest step takes. */
  sliceMs: 5,
  /** Characters or bytes that are worked on at once, without a turn of their own. */
  shortLength: 8192,
  /** Works that may wait for their turn. */
  waiting: 256,
} as const;

/** Too much waits already; sending the request again may help. */
export class OverloadedError extends Error {
  override readonly name = 'OverloadedError';
}

interface Work {
  readonly length: number;
  /** Does a slice of it; whether that was the last. Never throws. */
  advance(): boolean;
}

export class CooperativeScheduler {
  readonly #waiting: Work[] = [];
  #current: Work | undefined;

  /**
   * length: of what is worked on. Rejects with what the steps throw, with OverloadedError, or with the signal's reason if
   * nobody wants the result any more.
   */
  async run<Result>(length: number, steps: Task<Result>, signal?: AbortSignal): Promise<Result> {
    if (length <= cooperativeLimits.shortLength) return finish(steps);
    if (this.#waiting.length >= cooperativeLimits.waiting) {
      throw new OverloadedError(
        `${this.#waiting.length} large requests already wait to be read; send this one again later.`,
      );
    }
    return new Promise((resolve, reject) => {
      const advance = (): boolean => {
        try {
          signal?.throwIfAborted();
          const next = slice(steps);
          if (next.done) resolve(next.value);
          return next.done === true;
        } catch (error) {
          reject(error);
          return true;
        }
      };
      this.#waiting.push({ length, advance });
      if (this.#current === undefined) this.#takeNext();
    });
  }

  #takeNext(): void {
    const shortest = Math.min(...this.#waiting.map(({ length }) => length));
    const index = this.#waiting.findIndex(({ length }) => length === shortest);
    this.#current = this.#waiting.splice(index, 1)[0];
    if (this.#current !== undefined) setImmediate(() => this.#turn());
  }

  #turn(): void {
    if (this.#current?.advance()) this.#takeNext();
    else setImmediate(() => this.#turn());
  }
}

/** There is one event loop. */
export const cooperativeScheduler = new CooperativeScheduler();

/** Work that waits for nobody: a slice in each turn of the loop, from now on. */
export async function inSlices<Result>(steps: Task<Result>): Promise<Result> {
  for (let next = slice(steps); ; next = slice(steps)) {
    if (next.done) return next.value;
    await nextTurn();
  }
}

/** What is done in one turn of the loop. */
function slice<Result>(steps: Task<Result>): IteratorResult<undefined, Result> {
  const endMs = performance.now() + cooperativeLimits.sliceMs;
  let next = steps.next();
  while (!next.done && performance.now() < endMs) next = steps.next();
  return next;
}

/** All of it, now. */
export function finish<Result>(steps: Task<Result>): Result {
  for (;;) {
    const next = steps.next();
    if (next.done) return next.value;
  }
}

/** Work that cannot be cut, but can wait for its turn. */
// biome-ignore lint/correctness/useYield: it is one step.
export function* inOneStep<Result>(work: () => Result): Task<Result> {
  return work();
}
