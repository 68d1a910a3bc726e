import { auditResults } from '../runner/audits.ts';
import { type KvDiskFigures, NO_KV_DISK } from '../runner/kv-disk/messages.ts';
import type { RunnerStatus } from '../runner/runner.ts';
import {
  type Family,
  families,
  type HistogramSeries,
  MetricFamilies,
  type Sample,
} from './metric-families.ts';
import { type ApiTimes, apiTimes, type CallerUsage, ModelMetrics } from './model-metrics.ts';
import { LOAD_METRICS, statusMetrics } from './status-metrics.ts';

/** The state of the journal; all zeros without a journal. */
export interface JournalFigures {
  readonly numJobs: number;
  readonly numBytes: number;
  readonly numRunning: number;
  readonly numParked: number;
  /** Jobs of an earlier process, refused by their runner or parked that were continued since this process began. */
  readonly numResumed: number;
  readonly isFailed: boolean;
}

const NO_JOURNAL: JournalFigures = {
  ...{ numJobs: 0, numBytes: 0, numRunning: 0, numParked: 0, numResumed: 0, isFailed: false },
};

const journalMetrics = families<JournalFigures>('gauge', {
  runnel_journal_jobs: ['Jobs in the journal', ({ numJobs }) => numJobs],
  runnel_journal_bytes: ['Bytes of the jobs in the journal', ({ numBytes }) => numBytes],
  runnel_journal_failed: [
    '1 while the journal cannot be opened, and once it cannot be written',
    ({ isFailed }) => (isFailed ? 1 : 0),
  ],
  runnel_durable_jobs_open: ['Durable jobs that have not ended', ({ numRunning }) => numRunning],
  runnel_durable_jobs_parked: ['Durable jobs that are parked', ({ numParked }) => numParked],
  runnel_durable_jobs_resumed: [
    'Durable jobs that were continued after the end of a gateway, a refusal of their runner or a parking',
    ({ numResumed }) => numResumed,
  ],
});

/** Files and batches beside the journal; all zeros without one. */
export interface BatchFigures {
  readonly numFiles: number;
  /** Of files and of the results of batches. */
  readonly numBytes: number;
  readonly numOpen: number;
  /** Lines of these that have no result. */
  readonly numLinesLeft: number;
}

const NO_BATCHES: BatchFigures = { numFiles: 0, numBytes: 0, numOpen: 0, numLinesLeft: 0 };

const batchMetrics = families<BatchFigures>('gauge', {
  runnel_files: ['Files of clients and of batches', ({ numFiles }) => numFiles],
  runnel_files_bytes: ['Bytes of files and of the results of batches', ({ numBytes }) => numBytes],
  runnel_batches_open: ['Batches that have not ended', ({ numOpen }) => numOpen],
  runnel_batch_lines_left: [
    'Lines of batches that have no result, once they are checked',
    ({ numLinesLeft }) => numLinesLeft,
  ],
});

/** Spans of traces, as far as they went to a collector; all zeros without one. */
interface TraceFigures {
  readonly numExported: number;
  readonly numDropped: number;
}

const traceMetrics = families<TraceFigures>('counter', {
  runnel_trace_spans_exported_total: ['Spans that the collector has taken', ({ numExported }) => numExported],
  runnel_trace_spans_dropped_total: [
    'Spans that the collector did not take, or that came while too many waited for it',
    ({ numDropped }) => numDropped,
  ],
});

const kvDiskMetrics = [
  ...families<KvDiskFigures>('gauge', {
    runnel_kv_disk_blocks: ['Blocks of KV caches in the file of --kv-disk', ({ numBlocks }) => numBlocks],
    runnel_kv_disk_used_bytes: ['Bytes of these blocks', ({ usedBytes }) => usedBytes],
  }),
  ...families<KvDiskFigures>('counter', {
    runnel_kv_disk_saved_blocks_total: ['Blocks that were written to the file', ({ numSaved }) => numSaved],
    runnel_kv_disk_loaded_blocks_total: [
      'Blocks that were read from it for runners',
      ({ numLoaded }) => numLoaded,
    ],
    runnel_kv_disk_dropped_blocks_total: [
      'Blocks of the file that were not as they were written, or that a runner wrote which is not trusted any more',
      ({ numDropped }) => numDropped,
    ],
  }),
];

const byCaller = (what: keyof CallerUsage) => (model: ModelMetrics) =>
  [...model.usage].map(([caller, used]) => ({ labels: { caller }, value: used[what] }));

const requestMetrics = families<ModelMetrics>('counter', {
  worker_requests_total: [
    'Requests that ended, by outcome',
    ({ outcomes }) => [...outcomes].map(([outcome, value]) => ({ labels: { outcome }, value })),
  ],
  runnel_runner_crashes_total: [
    'Runners that crashed or exited unexpectedly, by reason',
    ({ crashes }) => [...crashes].map(([reason, value]) => ({ labels: { reason }, value })),
  ],
  runnel_audits_total: [
    'Answers that were to be computed again, by result',
    // Zeros, too: what begins with its first audit shows no increase to whoever waits for a difference.
    ({ audits }) => auditResults.map((result) => ({ labels: { result }, value: audits.get(result) ?? 0 })),
  ],
  runnel_requests_parked_total: [
    'Requests that were parked in the middle of their answers for more urgent ones',
    ({ numParked }) => numParked,
  ],
  worker_tokens_generated_total: ['Tokens generated and taken by a consumer', ({ numTokens }) => numTokens],
  runnel_prompt_tokens_total: ['Tokens of prompts that were admitted', (model) => model.numPromptTokens],
  runnel_caller_prompt_tokens_total: [
    'Tokens of prompts that were admitted, by caller',
    byCaller('promptTokens'),
  ],
  runnel_caller_cached_tokens_total: [
    'Tokens of prompts that were found in the KV cache, by caller',
    byCaller('cachedTokens'),
  ],
  runnel_caller_generated_tokens_total: ['Tokens generated, by caller', byCaller('generatedTokens')],
});

/** GET /metrics: all metrics of the gateway. What belongs to a model has the label `model`. */
export class Metrics {
  readonly #families = new MetricFamilies();
  readonly #models = new Map<string, ModelMetrics>();
  readonly #answers = new Map<string, Sample>();
  #journal: () => JournalFigures | undefined = () => undefined;
  #batches: () => BatchFigures | undefined = () => undefined;
  #traces: TraceFigures = { numExported: 0, numDropped: 0 };
  #kvDisk: { readonly figures: KvDiskFigures } = { figures: NO_KV_DISK };

  /** now: milliseconds that never go back. */
  constructor(now: () => number) {
    const startedMs = now();
    const add = <Of>(
      all: readonly Family<Of>[],
      samplesBy: (of: Family<Of>['samples']) => Sample[],
    ): void => {
      for (const family of all) this.#families.add(family, () => samplesBy(family.samples));
    };
    const uptimeSec = (): number => (now() - startedMs) / 1000;
    const uptime = { worker_uptime_seconds: ['Seconds since the gateway started', uptimeSec] } as const;
    const answers = {
      runnel_http_requests_total: [
        'Requests that were answered, by route and status',
        () => [...this.#answers.values()],
      ],
    } as const;
    add(families('gauge', uptime), (samples) => [...samples(this)]);
    add(requestMetrics, (samples) => this.#ofModels(samples));
    this.#addHistograms();
    add(statusMetrics, (samples) => this.#ofModels(({ status }) => samples(status())));
    add(journalMetrics, (samples) => [...samples(this.#journal() ?? NO_JOURNAL)]);
    add(batchMetrics, (samples) => [...samples(this.#batches() ?? NO_BATCHES)]);
    add(traceMetrics, (samples) => [...samples(this.#traces)]);
    add(kvDiskMetrics, (samples) => [...samples(this.#kvDisk.figures)]);
    add(families('counter', answers), (samples) => [...samples(this)]);
  }

  get contentType(): string {
    return this.#families.contentType;
  }

  text(): Promise<string> {
    return this.#families.text();
  }

  /** What balancers weigh. GET /health shows everybody as much. */
  loadText(): Promise<string> {
    return this.#families.text(LOAD_METRICS);
  }

  /** Adds the metrics of a model. name: the label of its samples. */
  add(name: string, status: () => RunnerStatus): ModelMetrics {
    const model = new ModelMetrics(status);
    this.#models.set(name, model);
    return model;
  }

  /** The model with this name is another one from now on. Its metrics begin anew, under the other's name. */
  replace(name: string, next: string): void {
    const model = this.#models.get(name);
    if (model === undefined || name === next) return;
    this.#models.delete(name);
    model.clear();
    this.#models.set(next, model);
  }

  remove(name: string): void {
    this.#models.delete(name);
  }

  /** Shows these figures of the journal, and of what lies beside it, from now on; undefined: there is none. */
  showJournal(journal: () => JournalFigures | undefined, batches: () => BatchFigures | undefined): void {
    this.#journal = journal;
    this.#batches = batches;
  }

  /** Shows these figures from now on, as they are then. */
  showTraces(traces: TraceFigures): void {
    this.#traces = traces;
  }

  /** Shows these figures from now on, as they are then. */
  showKvDisk(disk: { readonly figures: KvDiskFigures }): void {
    this.#kvDisk = disk;
  }

  /** Counts an answer. route: the pattern of the path, of which there are few; null if no route matched. */
  answered(route: string | null, status: number): void {
    const key = `${route} ${status}`;
    const value = (this.#answers.get(key)?.value ?? 0) + 1;
    this.#answers.set(key, { labels: { route: route ?? 'none', status }, value });
  }

  #addHistograms(): void {
    const add = (name: string, help: string, seriesOf: (model: ModelMetrics) => HistogramSeries[]): void =>
      this.#families.histogram(name, help, () => this.#ofModels(seriesOf));
    add('worker_inference_duration_ms', 'Milliseconds from admission to the end of a request', (model) => [
      { labels: {}, histogram: model.requestMs },
    ]);
    for (const [of, [name, help]] of Object.entries(apiTimes))
      add(name, help, ({ times }) =>
        [...times].map(([api, ofApi]) => ({ labels: { api }, histogram: ofApi[of as keyof ApiTimes] })),
      );
  }

  /** What all models have, with the label of each. */
  #ofModels<Labelled extends Pick<Sample, 'labels'>>(
    ofModel: (model: ModelMetrics) => readonly Labelled[],
  ): Labelled[] {
    return [...this.#models].flatMap(([model, metrics]) =>
      ofModel(metrics).map((each) => ({ ...each, labels: { ...each.labels, model } })),
    );
  }
}
