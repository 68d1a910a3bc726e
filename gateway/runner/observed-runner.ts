import { ANONYMOUS, type Caller, isInBackground } from '../system/caller.ts';
import { type Clock, DeadlineTimer, systemClock } from '../system/clock.ts';
import {
  AnswerTimes,
  type CancelReason,
  type GenerateRequest,
  GenerationError,
  type GenerationHandle,
  type Runner,
  type RunnerStatus,
  type TokenBatch,
  type TokenSink,
} from './runner.ts';

/**
 * Sees the requests to a runner. The observers of a runner are called in their order, and before the consumer of the answer.
 * They must not throw, except from onAsked.
 */
export interface RequestObserver {
  /** A request has come. Throws GenerationError if the runner must not get it. */
  onAsked?(request: GenerateRequest): void;
  /** The runner, or an observer, has refused a request. */
  onRefused?(outcome: string): void;
  onAdmitted?(observed: ObservedRequest): void;
  /** These two are as TokenSink's. The first one may come before onAdmitted(). */
  onTaken?(observed: ObservedRequest): void;
  onLost?(observed: ObservedRequest): void;
  onTokens?(observed: ObservedRequest, batch: TokenBatch): void;
  /** Called once: the answer has ended, or its consumer wants no more of it. */
  onEnd?(observed: ObservedRequest, outcome: string): void;
}

export class ObservedRunner implements Runner {
  readonly #runner: Runner;
  readonly #observers: readonly RequestObserver[];
  readonly #now: () => number;

  /** now: milliseconds that never go back. */
  constructor(runner: Runner, observers: readonly RequestObserver[], now: () => number) {
    this.#runner = runner;
    this.#observers = observers;
    this.#now = now;
  }

  status(): RunnerStatus {
    return this.#runner.status();
  }

  assertAcceptsRequests(caller?: Caller): void {
    this.#refusing(1, () => this.#runner.assertAcceptsRequests(caller));
  }

  assertCapacity(requests: readonly GenerateRequest[]): void {
    this.#refusing(requests.length, () => this.#runner.assertCapacity(requests));
  }

  generate(request: GenerateRequest, sink: TokenSink): ObservedRequest {
    const observed = new ObservedRequest(request, sink, this.#observers, this.#now);
    this.#refusing(1, () => {
      for (const observer of this.#observers) observer.onAsked?.(request);
      observed.start(this.#runner);
    });
    for (const observer of this.#observers) observer.onAdmitted?.(observed);
    return observed;
  }

  /** Runs `ask`. If it throws, each of the requests is refused. */
  #refusing(numRequests: number, ask: () => void): void {
    try {
      ask();
    } catch (error) {
      const outcome = outcomeOf(error);
      for (let i = 0; i < numRequests; i++)
        for (const observer of this.#observers) observer.onRefused?.(outcome);
      throw error;
    }
  }
}

/** One request to a runner and its answer so far. It stands between the runner and the consumer. */
export class ObservedRequest implements TokenSink, GenerationHandle {
  readonly request: GenerateRequest;
  readonly times: AnswerTimes;
  readonly #sink: TokenSink;
  readonly #observers: readonly RequestObserver[];
  readonly #now: () => number;
  #handle: GenerationHandle | undefined;
  #isOpen = true;

  constructor(
    request: GenerateRequest,
    sink: TokenSink,
    observers: readonly RequestObserver[],
    now: () => number,
  ) {
    this.request = request;
    this.times = new AnswerTimes(now());
    this.#sink = sink;
    this.#observers = observers;
    this.#now = now;
  }

  start(runner: Pick<Runner, 'generate'>): void {
    this.#handle = runner.generate(this.request, this);
  }

  onTokens(batch: TokenBatch): void {
    this.times.onTokens(batch, this.#now());
    for (const observer of this.#observers) observer.onTokens?.(this, batch);
    if (batch.finish !== undefined) this.#end(outcomeOfLast(batch));
    this.#sink.onTokens(batch);
  }

  onTaken(): void {
    if (this.#isOpen) for (const observer of this.#observers) observer.onTaken?.(this);
  }

  onLost(): void {
    if (this.#isOpen) for (const observer of this.#observers) observer.onLost?.(this);
  }

  onError(error: GenerationError): void {
    this.#end(outcomeOf(error));
    this.#sink.onError(error);
  }

  /** Ends the answer with this error, and cancels the request on its runner. */
  fail(error: GenerationError): void {
    this.#handle?.cancel();
    this.onError(error);
  }

  cancel(reason: CancelReason = 'cancelled'): void {
    this.#end(reason === 'enough' ? 'stop_sequence' : reason);
    this.#handle?.cancel(reason);
  }

  pause(): void {
    this.#handle?.pause();
  }

  resume(): void {
    this.#handle?.resume();
  }

  #end(outcome: string): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.times.endMs = this.#now();
    for (const observer of this.#observers) observer.onEnd?.(this, outcome);
  }
}

function outcomeOfLast({ finish, embedding }: TokenBatch): string {
  if (embedding !== undefined) return 'embedded';
  return finish === 'stop_id' ? 'eos' : 'max_tokens';
}

function outcomeOf(error: unknown): string {
  return error instanceof GenerationError ? error.code.toLowerCase() : 'internal_error';
}

const DEADLINE_PASSED = "The request's deadline passed before the answer was finished.";

/**
 * Ends each answer at the request's deadline or at the server's limit, whichever comes first. An answer that is not finished by
 * then is cancelled and ends with TIMEOUT.
 */
export class TimeLimit implements RequestObserver {
  readonly #limitMs: number;
  readonly #now: () => number;
  readonly #clock: Clock;
  /** Each open request is in one of the two. */
  readonly #deadlines: DeadlineTimer<ObservedRequest>;
  readonly #limits: DeadlineTimer<ObservedRequest>;

  /** now: milliseconds since 1970, like GenerateRequest.deadlineMs. */
  constructor(limitMs: number, now: () => number, clock: Clock = systemClock) {
    this.#limitMs = limitMs;
    this.#now = now;
    this.#clock = clock;
    const limitReached = `The answer was not finished within ${limitMs / 1000} s, the server's limit.`;
    this.#deadlines = new DeadlineTimer(clock, (observed) => observed.fail(timeout(DEADLINE_PASSED)));
    this.#limits = new DeadlineTimer(clock, (observed) => observed.fail(timeout(limitReached)));
  }

  onAsked(request: GenerateRequest): void {
    if (this.#leftMs(request) <= 0) throw timeout(DEADLINE_PASSED);
  }

  onAdmitted(observed: ObservedRequest): void {
    const { request } = observed;
    const leftMs = this.#leftMs(request);
    const nowMs = this.#clock.now();
    if (leftMs < this.#limitMs) this.#deadlines.set(observed, nowMs + leftMs);
    // What waits for all others has no limit: its sender ends it.
    else if (!isInBackground(request.caller ?? ANONYMOUS)) this.#limits.set(observed, nowMs + this.#limitMs);
  }

  onEnd(observed: ObservedRequest): void {
    this.#deadlines.delete(observed);
    this.#limits.delete(observed);
  }

  #leftMs({ deadlineMs = Number.POSITIVE_INFINITY }: GenerateRequest): number {
    return deadlineMs - this.#now();
  }
}

function timeout(message: string): GenerationError {
  return new GenerationError('TIMEOUT', message, { retriable: true });
}
