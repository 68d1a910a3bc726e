import {
  type GenerateRequest,
  GenerationError,
  type Runner,
  type RunnerStatus,
  type TokenBatch,
} from '../runner/runner.ts';
import type { Metrics, RequestMeter } from '../telemetry/metrics.ts';

/** Counts and times every request on its way to a runner: the one place all APIs pass. */
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

  assertAcceptsRequests(): void {
    this.#counting(1, () => this.#runner.assertAcceptsRequests());
  }

  assertCapacity(requests: readonly GenerateRequest[]): void {
    this.#counting(requests.length, () => this.#runner.assertCapacity(requests));
  }

  generate(request: GenerateRequest, signal: AbortSignal): AsyncIterable<TokenBatch> {
    const batches = this.#counting(1, () => this.#runner.generate(request, signal));
    const meter = this.#metrics.admitted(request.promptIds.length);
    // A consumer that left need not come back to the loop below.
    const onAbort = (): void => meter.end('cancelled');
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    return read(batches, meter, () => signal.removeEventListener('abort', onAbort));
  }

  /** What the runner does not take is so many refusals. */
  #counting<Taken>(numRequests: number, take: () => Taken): Taken {
    try {
      return take();
    } catch (error) {
      for (let i = 0; i < numRequests; i++) this.#metrics.refused(outcomeOf(error));
      throw error;
    }
  }
}

async function* read(
  batches: AsyncIterable<TokenBatch>,
  meter: RequestMeter,
  onEnd: () => void,
): AsyncGenerator<TokenBatch, void, undefined> {
  try {
    for await (const batch of batches) {
      if (batch.first !== undefined) meter.first(batch.first);
      meter.tokens(batch.tokenIds.length);
      if (batch.finish !== undefined) meter.end(batch.finish === 'stop_id' ? 'eos' : 'max_tokens');
      yield batch;
    }
  } catch (error) {
    meter.end(outcomeOf(error));
    throw error;
  } finally {
    // Left early without being cancelled: the text met a stop string.
    meter.end('stop_sequence');
    onEnd();
  }
}

function outcomeOf(error: unknown): string {
  return error instanceof GenerationError ? error.code.toLowerCase() : 'internal_error';
}
