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
import type { Caller } from '../system/caller.ts';
import type { Metrics, RequestMeter } from '../telemetry/metrics.ts';

/** Counts and times every request on its way to a runner. All APIs use this one place. */
export class MeteredRunner implements Runner {
  readonly #runner: Runner;
  readonly #metrics: Metrics;

  constructor(runner: Runner, metrics: Metrics) {
    this.#runner = runner;
    this.#metrics = metrics;
  }

  status(): RunnerStatus {
    return this.#runner.status();
  }

  assertAcceptsRequests(caller?: Caller): void {
    this.#counting(1, () => this.#runner.assertAcceptsRequests(caller));
  }

  assertCapacity(requests: readonly GenerateRequest[]): void {
    this.#counting(requests.length, () => this.#runner.assertCapacity(requests));
  }

  generate(request: GenerateRequest, sink: TokenSink): GenerationHandle {
    const generation = new MeteredGeneration(sink);
    const handle = this.#counting(1, () => this.#runner.generate(request, generation));
    return generation.start(handle, this.#metrics.admitted(request.promptIds.length, request.api));
  }

  /** Runs `take`. If it throws, each of the requests is counted as refused. */
  #counting<Taken>(numRequests: number, take: () => Taken): Taken {
    try {
      return take();
    } catch (error) {
      const outcome = error instanceof GenerationError ? outcomeOf(error) : 'internal_error';
      for (let i = 0; i < numRequests; i++) this.#metrics.refused(outcome);
      throw error;
    }
  }
}

class MeteredGeneration implements TokenSink, GenerationHandle {
  readonly #sink: TokenSink;
  #handle: GenerationHandle | undefined;
  #meter: RequestMeter | undefined;

  constructor(sink: TokenSink) {
    this.#sink = sink;
  }

  start(handle: GenerationHandle, meter: RequestMeter): this {
    this.#handle = handle;
    this.#meter = meter;
    return this;
  }

  onTokens(batch: TokenBatch): void {
    if (batch.first !== undefined) this.#meter?.first(batch.first);
    this.#meter?.tokens(batch.tokenIds.length, batch.isResumed);
    if (batch.finish !== undefined) this.#meter?.end(outcomeOfLast(batch));
    this.#sink.onTokens(batch);
  }

  onError(error: GenerationError): void {
    this.#meter?.end(outcomeOf(error));
    this.#sink.onError(error);
  }

  cancel(reason: CancelReason = 'cancelled'): void {
    this.#meter?.end(reason === 'enough' ? 'stop_sequence' : 'cancelled');
    this.#handle?.cancel(reason);
  }

  pause(): void {
    this.#handle?.pause();
  }

  resume(): void {
    this.#handle?.resume();
  }
}

function outcomeOfLast({ finish, embedding }: TokenBatch): string {
  if (embedding !== undefined) return 'embedded';
  return finish === 'stop_id' ? 'eos' : 'max_tokens';
}

function outcomeOf({ code }: GenerationError): string {
  return code.toLowerCase();
}
