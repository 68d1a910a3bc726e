/**
 * Work on the event loop that takes longer than streams may be kept waiting. It is cut into steps; a few milliseconds of them
 * are done in each turn of the loop, and everything else has its turn in between. Of requests' work one is under way at a
 * time, for the sake of memory, and the shortest that waits is next: who sends little does not wait for all who send much.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Yields often: between two yields lies about a millisecond at most. What it yields is nothing, or what it waits for, such as
 * a thread: that never rejects. If nobody wants its result any more it is ended by return(), so that it can call off what it
 * has begun elsewhere.
 */
export type Task<Result> = Generator<Promise<void> | undefined, Result, undefined>;

export const cooperativeLimits = {
  /** Of one turn. Streams are held up for so long, and for what the longest step takes. */
  sliceMs: 5,
  /** Of one turn, for work that waits for nobody and is in no hurry. */
  unhurriedSliceMs: 2,
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
  /** Does a slice of it: done, or what the next one waits for, if it does. Never throws. */
  advance(): typeof done | Promise<void> | undefined;
}

const done = Symbol('done');

export class CooperativeScheduler {
  readonly #waiting: Work[] = [];
  #current: Work | undefined;

  /**
   * length: of what is worked on. Rejects with what the steps throw, with OverloadedError, or with the signal's reason if
   * nobody wants the result any more.
   */
  async run<Result>(length: number, steps: Task<Result>, signal?: AbortSignal): Promise<Result> {
    let waitsFor: Promise<void> | undefined;
    if (length <= cooperativeLimits.shortLength) {
      const next = slice(steps, Number.POSITIVE_INFINITY);
      if (next.done) return next.value;
      waitsFor = next.value;
    }
    if (this.#waiting.length >= cooperativeLimits.waiting) {
      end(steps);
      throw new OverloadedError(
        `${this.#waiting.length} large requests already wait to be read; send this one again later.`,
      );
    }
    return new Promise((resolve, reject) => {
      const advance = (): ReturnType<Work['advance']> => {
        try {
          signal?.throwIfAborted();
          const next = waitsFor === undefined ? slice(steps) : { done: false as const, value: waitsFor };
          waitsFor = undefined;
          if (!next.done) return next.value && untilAborted(next.value, signal);
          resolve(next.value);
        } catch (error) {
          end(steps);
          reject(error);
        }
        return done;
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
    const state = this.#current?.advance();
    if (state === done) this.#takeNext();
    else if (state === undefined) setImmediate(() => this.#turn());
    else void state.then(() => this.#turn());
  }
}

/** There is one event loop. */
export const cooperativeScheduler = new CooperativeScheduler();

/** Work that waits for nobody: a slice in each turn of the loop, from now on. */
export async function inSlices<Result>(steps: Task<Result>): Promise<Result> {
  for (;;) {
    const next = slice(steps, cooperativeLimits.unhurriedSliceMs);
    if (next.done) return next.value;
    await (next.value ?? nextTurn());
  }
}

/** What is done in one turn of the loop: less, if it waits for something. */
function slice<Result>(
  steps: Task<Result>,
  sliceMs: number = cooperativeLimits.sliceMs,
): IteratorResult<Promise<void> | undefined, Result> {
  const endMs = performance.now() + sliceMs;
  let next = steps.next();
  while (!next.done && next.value === undefined && performance.now() < endMs) next = steps.next();
  return next;
}

/** Resolves with what is waited for, or when nobody waits for it any more. */
async function untilAborted(waited: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return waited;
  let onAbort = (): void => {};
  const aborted = new Promise<void>((resolve) => {
    onAbort = resolve;
  });
  signal.addEventListener('abort', onAbort, { once: true });
  await Promise.race([waited, aborted]);
  signal.removeEventListener('abort', onAbort);
}

/** Nobody wants the result. */
function end(steps: Task<unknown>): void {
  steps.return(undefined);
}

/** All of it, now. For what waits for nothing. */
export function finish<Result>(steps: Task<Result>): Result {
  const next = slice(steps, Number.POSITIVE_INFINITY);
  if (next.done) return next.value;
  throw new Error('A task was to be finished at once, but waits for something.');
}

/** Work that cannot be cut, but can wait for its turn. */
// biome-ignore lint/correctness/useYield: it is one step.
export function* inOneStep<Result>(work: () => Result): Task<Result> {
  return work();
}
