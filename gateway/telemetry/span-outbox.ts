import { type ExportResult, ExportResultCode } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  BatchSpanProcessor,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { errorCodeOf } from '../errors/thrown.ts';
import { settlesWithin, systemClock } from '../system/clock.ts';

/** The most spans that wait for the collector or are on their way to it. Further ones are dropped. */
export const maxWaitingSpans = 2048;
const maxBatchSpans = 512;
const batchIntervalMs = 1000;
/** How long a batch is tried, all attempts together, and how long the last ones may take at the end. */
export const exportTimeoutMs = 5000;

/** Spans that have ended, on their way to the collector. Nobody waits for them. */
export class SpanOutbox implements SpanProcessor {
  readonly figures = { numExported: 0, numDropped: 0 };
  readonly #batches: BatchSpanProcessor;
  readonly #onFailure: (reason: string) => void;
  readonly #timeoutMs: number;
  #numWaiting = 0;
  #isFailing = false;

  /** url: where the collector takes traces. onFailure: called for the first batch that it does not take after one that it took. */
  constructor(url: string, onFailure: (reason: string) => void, timeoutMillis = exportTimeoutMs) {
    const exporter = new OTLPTraceExporter({ url, timeoutMillis });
    const counted: SpanExporter = {
      export: (spans, done) =>
        exporter.export(spans, (result) => {
          this.#count(spans.length, result);
          done(result);
        }),
      shutdown: () => exporter.shutdown(),
    };
    this.#onFailure = onFailure;
    this.#timeoutMs = timeoutMillis;
    this.#batches = new BatchSpanProcessor(counted, {
      maxQueueSize: maxWaitingSpans,
      maxExportBatchSize: maxBatchSpans,
      scheduledDelayMillis: batchIntervalMs,
      exportTimeoutMillis: timeoutMillis,
    });
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if (this.#numWaiting === maxWaitingSpans) {
      this.figures.numDropped += 1;
      return;
    }
    this.#numWaiting += 1;
    this.#batches.onEnd(span);
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush();
  }

  /** Exports the spans that wait, for no longer than a batch is tried. */
  async shutdown(): Promise<void> {
    const flushed = this.#batches.shutdown().catch(() => {});
    await settlesWithin(flushed, this.#timeoutMs, systemClock);
  }

  #count(numSpans: number, { code, error }: ExportResult): void {
    const isFailing = code !== ExportResultCode.SUCCESS;
    this.#numWaiting -= numSpans;
    this.figures[isFailing ? 'numDropped' : 'numExported'] += numSpans;
    if (isFailing && !this.#isFailing)
      this.#onFailure(error?.message || errorCodeOf(error) || 'unknown reason');
    this.#isFailing = isFailing;
  }
}
