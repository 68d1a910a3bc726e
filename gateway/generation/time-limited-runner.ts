import {
  type CancelReason,
  type GenerateRequest,
  GenerationError,
  type GenerationHandle,
  type Runner,
  type RunnerStatus,
  type TokenBatch,
  type TokenSink,
} from '../runner/runner.ts';
import { Alarms } from '../system/alarms.ts';
import type { Caller } from '../system/caller.ts';
import { type Clock, systemClock } from '../system/clock.ts';

/**
 * A runner that ends each answer at the request's deadline or at the server's limit, whichever comes first. An answer that is
 * not finished by then is cancelled and ends with TIMEOUT.
 */
export class TimeLimitedRunner implements Runner {
  readonly #runner: Runner;
  readonly #limitMs: number;
  readonly #now: () => number;
  readonly #clock: Clock;
  readonly #deadlines: Alarms<LimitedGeneration>;

  /** now: milliseconds since 1970, like GenerateRequest.deadlineMs. */
  constructor(runner: Runner, limitMs: number, now: () => number, clock: Clock = systemClock) {
    this.#runner = runner;
    this.#limitMs = limitMs;
    this.#now = now;
    this.#clock = clock;
    this.#deadlines = new Alarms(clock, (generation) => generation.onTimeUp());
  }

  status(): RunnerStatus {
    return this.#runner.status();
  }

  assertAcceptsRequests(caller?: Caller): void {
    this.#runner.assertAcceptsRequests(caller);
  }

  assertCapacity(requests: readonly GenerateRequest[]): void {
    this.#runner.assertCapacity(requests);
  }

  generate(request: GenerateRequest, sink: TokenSink): GenerationHandle {
    const deadlineLeftMs = (request.deadlineMs ?? Number.POSITIVE_INFINITY) - this.#now();
    const message =
      deadlineLeftMs < this.#limitMs
        ? "The request's deadline passed before the answer was finished."
        : `The answer was not finished within ${this.#limitMs / 1000} s, the server's limit.`;
    if (deadlineLeftMs <= 0) throw timeout(message);
    const generation = new LimitedGeneration(sink, message, this.#deadlines);
    const untilMs = this.#clock.now() + Math.min(deadlineLeftMs, this.#limitMs);
    generation.start(this.#runner.generate(request, generation), untilMs);
    return generation;
  }
}

function timeout(message: string): GenerationError {
  return new GenerationError('TIMEOUT', message, { retriable: true });
}

class LimitedGeneration implements TokenSink, GenerationHandle {
  readonly #sink: TokenSink;
  readonly #message: string;
  readonly #deadlines: Alarms<LimitedGeneration>;
  #handle: GenerationHandle | undefined;

  constructor(sink: TokenSink, message: string, deadlines: Alarms<LimitedGeneration>) {
    this.#sink = sink;
    this.#message = message;
    this.#deadlines = deadlines;
  }

  /** untilMs: a time of the clock that Alarms uses. */
  start(handle: GenerationHandle, untilMs: number): void {
    this.#handle = handle;
    this.#deadlines.set(this, untilMs);
  }

  onTimeUp(): void {
    this.#handle?.cancel();
    this.#sink.onError(timeout(this.#message));
  }

  onTokens(batch: TokenBatch): void {
    if (batch.finish !== undefined) this.#deadlines.delete(this);
    this.#sink.onTokens(batch);
  }

  onError(error: GenerationError): void {
    this.#deadlines.delete(this);
    this.#sink.onError(error);
  }

  cancel(reason?: CancelReason): void {
    this.#deadlines.delete(this);
    this.#handle?.cancel(reason);
  }

  pause(): void {
    this.#handle?.pause();
  }

  resume(): void {
    this.#handle?.resume();
  }
}

/**
 * A view of the runner for the requests of one client that accepts half an answer. Once one of the requests has a token, the
 * time limit ends each of them with the finish "time_limit" in place of an error. Before that it is still a TIMEOUT.
 */
export function endingAtTimeLimit(runner: Runner): Pick<Runner, 'generate' | 'assertCapacity'> {
  let hasBegun = false;
  const sinkFor = ({ topLogprobs }: GenerateRequest, sink: TokenSink): TokenSink => {
    let numTokens = 0;
    return {
      onTokens: (batch) => {
        numTokens = batch.firstIndex + batch.tokenIds.length;
        hasBegun ||= numTokens > 0;
        sink.onTokens(batch);
      },
      onError: (error) => {
        if (error.code !== 'TIMEOUT' || !hasBegun) return sink.onError(error);
        const logprobs = topLogprobs === undefined ? {} : { logprobs: [] };
        sink.onTokens({ firstIndex: numTokens, tokenIds: [], ...logprobs, finish: 'time_limit' });
      },
    };
  };
  return {
    assertCapacity: (requests) => runner.assertCapacity(requests),
    generate: (request, sink) => runner.generate(request, sinkFor(request, sink)),
  };
}
