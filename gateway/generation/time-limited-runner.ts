import {
  type GenerateRequest,
  GenerationError,
  type Runner,
  type RunnerStatus,
  type TokenBatch,
} from '../runner/runner.ts';

/**
 * A runner whose answers have a last moment: the request's deadline or the server's limit, whichever comes first. What
 * is not finished then is cancelled, and ends with TIMEOUT.
 */
export class TimeLimitedRunner implements Runner {
  readonly #runner: Runner;
  readonly #limitMs: number;
  readonly #now: () => number;

  /** now: milliseconds since 1970, as the deadlines are. */
  constructor(runner: Runner, limitMs: number, now: () => number) {
    this.#runner = runner;
    this.#limitMs = limitMs;
    this.#now = now;
  }

  status(): RunnerStatus {
    return this.#runner.status();
  }

  assertAcceptsRequests(): void {
    this.#runner.assertAcceptsRequests();
  }

  assertCapacity(requests: readonly GenerateRequest[]): void {
    this.#runner.assertCapacity(requests);
  }

  generate(request: GenerateRequest, signal: AbortSignal): AsyncIterable<TokenBatch> {
    const deadlineLeftMs = (request.deadlineMs ?? Number.POSITIVE_INFINITY) - this.#now();
    const isOwnDeadline = deadlineLeftMs < this.#limitMs;
    const elapsed = new GenerationError(
      'TIMEOUT',
      isOwnDeadline
        ? "The request's deadline passed before the answer was finished."
        : `The answer was not finished within ${this.#limitMs / 1000} s, the server's limit.`,
      { retriable: true },
    );
    if (deadlineLeftMs <= 0) throw elapsed;

    const timeUp = new AbortController();
    const batches = this.#runner.generate(request, AbortSignal.any([signal, timeUp.signal]));
    const timer = setTimeout(() => timeUp.abort(), Math.min(deadlineLeftMs, this.#limitMs));
    // A consumer that left need not come back to the loop below, and nobody who exits shall wait for its timer.
    const disarm = (): void => clearTimeout(timer);
    if (signal.aborted) disarm();
    else signal.addEventListener('abort', disarm, { once: true });
    const onEnd = (): void => {
      disarm();
      signal.removeEventListener('abort', disarm);
    };
    return read(batches, onEnd, () => (timeUp.signal.aborted ? elapsed : undefined));
  }
}

/**
 * The same runner for the requests of one client that takes half an answer: once one of them has a token, the time limit
 * ends each where it is, as a length would. Before that it is a TIMEOUT as ever.
 */
export function endingAtTimeLimit(runner: Runner): Pick<Runner, 'generate' | 'assertCapacity'> {
  let hasBegun = false;
  const onTokens = (): void => {
    hasBegun = true;
  };
  return {
    assertCapacity: (requests) => runner.assertCapacity(requests),
    generate: (request, signal) =>
      endedAtTimeLimit(runner.generate(request, signal), request, onTokens, () => hasBegun),
  };
}

async function* endedAtTimeLimit(
  batches: AsyncIterable<TokenBatch>,
  { topLogprobs }: GenerateRequest,
  onTokens: () => void,
  hasBegun: () => boolean,
): AsyncGenerator<TokenBatch, void, undefined> {
  let numTokens = 0;
  try {
    for await (const batch of batches) {
      numTokens = batch.firstIndex + batch.tokenIds.length;
      if (numTokens > 0) onTokens();
      yield batch;
    }
  } catch (error) {
    if (!(error instanceof GenerationError) || error.code !== 'TIMEOUT' || !hasBegun()) throw error;
    const logprobs = topLogprobs === undefined ? {} : { logprobs: [] };
    yield { firstIndex: numTokens, tokenIds: [], ...logprobs, finish: 'time_limit' };
  }
}

async function* read(
  batches: AsyncIterable<TokenBatch>,
  onEnd: () => void,
  elapsed: () => GenerationError | undefined,
): AsyncGenerator<TokenBatch, void, undefined> {
  try {
    yield* batches;
  } catch (error) {
    const isCancelled = error instanceof GenerationError && error.code === 'CANCELLED';
    throw (isCancelled ? elapsed() : undefined) ?? error;
  } finally {
    onEnd();
  }
}
