import type { RunnerStatus } from '../runner/runner.ts';
import { type HistogramSeries, MetricFamilies, type Sample } from './metric-families.ts';
import { type ApiTimes, type CallerUsage, ModelMetrics } from './model-metrics.ts';
import { statusMetrics } from './status-metrics.ts';

/** The state of the journal; all zeros without a journal. */
export interface JournalFigures {
  readonly numJobs: number;
  readonly numBytes: number;
  readonly numRunning: number;
  /** Jobs of an earlier process, or that their runner refused, that were continued since this process began. */
  readonly numResumed: number;
  readonly isFailed: boolean;
}

const NO_JOURNAL: JournalFigures = { numJobs: 0, numBytes: 0, numRunning: 0, numResumed: 0, isFailed: false };

/** The histograms of a model's requests by their API: names, and descriptions. */
const API_TIMES: Readonly<Record<keyof ApiTimes, readonly [name: string, help: string]>> = {
  request: ['runnel_e2e_request_latency_seconds', 'Seconds from admission to the end of a request'],
  firstToken: ['runnel_time_to_first_token_seconds', 'Seconds from admission to the first token'],
  queue: [
    'runnel_request_queue_time_seconds',
    'Seconds from admission to the first computation for a request',
  ],
  prefill: [
    'runnel_request_prefill_time_seconds',
    "Seconds from the first computation for a request to its first token, by the runner's clock",
  ],
  runnerFirstToken: [
    'runnel_runner_time_to_first_token_seconds',
    'Seconds from admission to the first token as the runner measures it, without the time of the pipe',
  ],
  interToken: [
    'runnel_inter_token_latency_seconds',
    'Seconds between tokens of one answer; of tokens that came together, their mean',
  ],
  pause: [
    'runnel_resume_pause_seconds',
    'Seconds between two tokens of one answer when another runner continued it',
  ],
};

/** GET /metrics: all metrics of the gateway. What belongs to a model has the label `model`. */
export class Metrics {
  readonly #families = new MetricFamilies();
  readonly #models = new Map<string, ModelMetrics>();
  /** Answers by route and status, as JSON. */
  readonly #answers = new Map<string, Sample>();
  #journal: () => JournalFigures | undefined = () => undefined;

  /** now: milliseconds that never go back. */
  constructor(now: () => number) {
    const startedMs = now();
    this.#families.gauge('worker_uptime_seconds', 'Seconds since the gateway started', () => [
      { labels: {}, value: (now() - startedMs) / 1000 },
    ]);
    this.#addRequests();
    for (const { name, help, type, samples } of statusMetrics)
      this.#families[type](name, help, () => this.#ofModels((model) => samples(model.status())));
    this.#addJournal();
    this.#families.counter(
      'runnel_http_requests_total',
      'Requests that were answered, by route and status',
      () => [...this.#answers.values()],
    );
  }

  get contentType(): string {
    return this.#families.contentType;
  }

  text(): Promise<string> {
    return this.#families.text();
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

  /** Removes the model's metrics. */
  remove(name: string): void {
    this.#models.delete(name);
  }

  /** Shows these figures of the journal from now on; undefined: there is none. */
  showJournal(figures: () => JournalFigures | undefined): void {
    this.#journal = figures;
  }

  /** Counts an answer. route: the pattern of the path, of which there are few; null if no route matched. */
  answered(route: string | null, status: number): void {
    const key = `${route} ${status}`;
    const value = (this.#answers.get(key)?.value ?? 0) + 1;
    this.#answers.set(key, { labels: { route: route ?? 'none', status }, value });
  }

  #addRequests(): void {
    const counter = (name: string, help: string, samples: (model: ModelMetrics) => readonly Sample[]): void =>
      this.#families.counter(name, help, () => this.#ofModels(samples));
    counter('worker_requests_total', 'Requests that ended, by outcome', ({ outcomes }) =>
      [...outcomes].map(([outcome, value]) => ({ labels: { outcome }, value })),
    );
    const crashes = 'Runners that crashed or exited unexpectedly, by reason';
    counter('runnel_runner_crashes_total', crashes, (model) =>
      [...model.crashes].map(([reason, value]) => ({ labels: { reason }, value })),
    );
    counter('worker_tokens_generated_total', 'Tokens generated and taken by a consumer', ({ numTokens }) => [
      { labels: {}, value: numTokens },
    ]);
    const promptTokens = 'Tokens of prompts that were admitted';
    counter('runnel_prompt_tokens_total', promptTokens, ({ numPromptTokens }) => [
      { labels: {}, value: numPromptTokens },
    ]);
    const ofCallers = (name: string, help: string, what: keyof CallerUsage): void =>
      counter(name, help, ({ usage }) =>
        [...usage].map(([caller, used]) => ({ labels: { caller }, value: used[what] })),
      );
    ofCallers(
      'runnel_caller_prompt_tokens_total',
      'Tokens of prompts that were admitted, by caller',
      'promptTokens',
    );
    ofCallers(
      'runnel_caller_cached_tokens_total',
      'Tokens of prompts that were found in the KV cache, by caller',
      'cachedTokens',
    );
    ofCallers('runnel_caller_generated_tokens_total', 'Tokens generated, by caller', 'generatedTokens');
    this.#families.histogram(
      'worker_inference_duration_ms',
      'Milliseconds from admission to the end of a request',
      () => this.#series(({ requestMs }) => [{ labels: {}, histogram: requestMs }]),
    );
    for (const [of, [name, help]] of Object.entries(API_TIMES)) {
      const histograms = ({ times }: ModelMetrics): HistogramSeries[] =>
        [...times].map(([api, ofApi]) => ({ labels: { api }, histogram: ofApi[of as keyof ApiTimes] }));
      this.#families.histogram(name, help, () => this.#series(histograms));
    }
  }

  #addJournal(): void {
    const gauge = (name: string, help: string, figureOf: (figures: JournalFigures) => number): void =>
      this.#families.gauge(name, help, () => [
        { labels: {}, value: figureOf(this.#journal() ?? NO_JOURNAL) },
      ]);
    gauge('runnel_journal_jobs', 'Jobs in the journal', ({ numJobs }) => numJobs);
    gauge('runnel_journal_bytes', 'Bytes of the jobs in the journal', ({ numBytes }) => numBytes);
    gauge(
      'runnel_journal_failed',
      '1 while the journal cannot be opened, and once it cannot be written',
      ({ isFailed }) => (isFailed ? 1 : 0),
    );
    gauge('runnel_durable_jobs_open', 'Durable jobs that have not ended', ({ numRunning }) => numRunning);
    gauge(
      'runnel_durable_jobs_resumed',
      'Durable jobs that were continued after the end of a gateway or a refusal of their runner',
      ({ numResumed }) => numResumed,
    );
  }

  /** The samples of all models, with the label of each. */
  #ofModels(samplesOf: (model: ModelMetrics) => readonly Sample[]): Sample[] {
    return [...this.#models].flatMap(([model, metrics]) =>
      samplesOf(metrics).map(({ labels, value }) => ({ labels: { ...labels, model }, value })),
    );
  }

  #series(seriesOf: (model: ModelMetrics) => readonly HistogramSeries[]): HistogramSeries[] {
    return [...this.#models].flatMap(([model, metrics]) =>
      seriesOf(metrics).map(({ labels, histogram }) => ({ labels: { ...labels, model }, histogram })),
    );
  }
}
