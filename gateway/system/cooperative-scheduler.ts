/**
 * Runs work on the event loop that takes longer than streams may wait. Work is cut into steps: each turn of the loop does a few
 * milliseconds of them, and everything else runs in between. To save memory, only one request's work is under way at a time.
 * The shortest waiting work is next, so that small requests do not wait for all large ones.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * A generator that yields at least about once a millisecond. It yields undefined, or a promise that it waits for, such as that
 * of a thread; the promise must not reject. If the result is not needed any more, return() ends the task, so that it can call
 * off work that it has begun elsewhere.
 */
export type Task<Result> = Generator<Promise<void> | undefined, Result, undefined>;

export const cooperativeLimits = {
  /** Milliseconds of work in one turn. Streams wait this long, plus the time of the longest step. */
  sliceMs: 5,
  /** Milliseconds in one turn for work without hurry, which does not queue. */
  unhurriedSliceMs: 2,
  /** Work on at most this many characters or bytes is done at once, without a turn of its own. */
  shortLength: 8192,
  /** The most works that may wait for their turn. */
  waiting: 256,
} as const;

/** Too much work is already waiting. Sending the request again may help. */
export class OverloadedError extends Error {
  override readonly name = 'OverloadedError';
}

interface Work {
  readonly length: number;
  /** Does one slice of the work. Returns `done`, or what the next slice waits for, if anything. Never throws. */
  advance(): typeof done | Promise<void> | undefined;
}

const done = Symbol('done');

export class CooperativeScheduler {
  readonly #waiting: Work[] = [];
  #current: Work | undefined;

  /**
   * Runs a task and returns its result. length: the size of the text or bytes that it works on. Rejects with the task's error,
   * with OverloadedError, or with the signal's reason as an Error if the result is not needed any more.
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
          if (signal?.aborted === true) throw errorOf(signal);
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

/** There is one event loop, so there is one scheduler. */
export const cooperativeScheduler = new CooperativeScheduler();

/** Runs a task without queueing: it gets a slice in each turn of the loop from now on. */
export async function inSlices<Result>(steps: Task<Result>): Promise<Result> {
  for (;;) {
    const next = slice(steps, cooperativeLimits.unhurriedSliceMs);
    if (next.done) return next.value;
    await (next.value ?? nextTurn());
  }
}

/** Runs steps for at most sliceMs, or until the task waits for something. */
function slice<Result>(
  steps: Task<Result>,
  sliceMs: number = cooperativeLimits.sliceMs,
): IteratorResult<Promise<void> | undefined, Result> {
  const endMs = performance.now() + sliceMs;
  let next = steps.next();
  while (!next.done && next.value === undefined && performance.now() < endMs) next = steps.next();
  return next;
}

/** The HTTP server aborts a request with a text, but applications only handle what is an Error. */
function errorOf({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}

/** Resolves with the promise, or when the signal aborts. */
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

/** Ends a task whose result is not needed any more. */
function end(steps: Task<unknown>): void {
  steps.return(undefined);
}

/** Runs a task to its end at once. The task must not wait for anything. */
export function finish<Result>(steps: Task<Result>): Result {
  const next = slice(steps, Number.POSITIVE_INFINITY);
  if (next.done) return next.value;
  throw new Error('A task was to be finished at once, but waits for something.');
}

/** Work that cannot be cut into steps but can wait for its turn. */
// biome-ignore lint/correctness/useYield: it is one step.
export function* inOneStep<Result>(work: () => Result): Task<Result> {
  return work();
}
