import type { Idempotency } from '../journal/records.ts';
import type { DurableJob } from './durable-job.ts';

/**
 * accepted: it waits for its model, its prompt is rendered, its record is written. waiting: it may be begun. parked: it holds
 * nothing of a runner, and is not begun before somebody resumes it. left: another process is to continue it.
 */
export type JobState = 'accepted' | 'waiting' | 'running' | 'parked' | 'ended' | 'left';

/** Who has a job, and by which id. */
export interface JobName {
  /** As in callersOf(). A caller cannot find the jobs of others. */
  readonly caller: string;
  readonly id: string;
}

/**
 * A call that its client can name, from its acceptance on: accepted → waiting → running → ended. A durable one whose runner
 * refuses it for now waits again; one that waits or runs may be parked, and waits again once it is resumed. Whatever waits for
 * something on its behalf ends by `signal`, or by `turn`.
 */
export class Job implements JobName {
  readonly caller: string;
  readonly id: string;
  readonly isDurable: boolean;
  readonly idempotency: Idempotency | undefined;
  /** Resolves when the journal has it, or when it is over without that. */
  readonly settled: Promise<void>;
  readonly #over = new AbortController();
  #turn = new AbortController();
  #state: JobState = 'accepted';
  #durable: DurableJob | undefined;
  #settle: () => void = () => {};

  constructor({ caller, id }: JobName, durable?: { readonly idempotency?: Idempotency | undefined }) {
    this.caller = caller;
    this.id = id;
    this.isDurable = durable !== undefined;
    this.idempotency = durable?.idempotency;
    this.settled = new Promise((resolve) => (this.#settle = resolve));
  }

  get state(): JobState {
    return this.#state;
  }

  get isOver(): boolean {
    return this.#over.signal.aborted;
  }

  /** Aborted when it is over. The reason is the error that ended it, if one did. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** Aborted when it is parked, resumed or over: what was under way is void then, even if the job has the same state again. */
  get turn(): AbortSignal {
    return this.#turn.signal;
  }

  /** What the journal keeps of it. */
  get durable(): DurableJob | undefined {
    return this.#durable;
  }

  keptAs(durable: DurableJob): void {
    this.#durable = durable;
    this.#settle();
  }

  wait(): void {
    if (!this.isOver) this.#state = 'waiting';
  }

  /** Throws what ended it if it is over: it must not be begun then. */
  run(): void {
    this.signal.throwIfAborted();
    if (this.#state !== 'waiting') throw new Error(`The job is ${this.#state}, so it cannot be begun.`);
    this.#state = 'running';
  }

  /** Returns false if it neither waits nor runs. */
  park(): boolean {
    return (this.#state === 'waiting' || this.#state === 'running') && this.#nextTurn('parked');
  }

  /** Returns false if it is not parked. */
  resume(): boolean {
    return this.#state === 'parked' && this.#nextTurn('waiting');
  }

  #nextTurn(state: JobState): true {
    this.#state = state;
    const ended = this.#turn;
    this.#turn = new AbortController();
    ended.abort();
    return true;
  }

  /** Returns false if it was over. */
  end(error?: unknown): boolean {
    return this.#goTo('ended', error);
  }

  /** The same, but another process continues it. */
  leave(reason?: unknown): boolean {
    return this.#goTo('left', reason);
  }

  #goTo(state: JobState, error?: unknown): boolean {
    if (this.isOver) return false;
    this.#state = state;
    this.#turn.abort();
    this.#over.abort(error);
    return true;
  }

  /** It is over, and no journal has it. */
  drop(): void {
    this.end();
    this.#settle();
  }
}
