import { Gauge, Registry } from 'prom-client';

/** The state of the journal; all zeros without a journal. */
export interface JournalFigures {
  readonly numJobs: number;
  readonly numBytes: number;
  readonly numRunning: number;
  /** Jobs of an earlier process, or that their runner refused, that were continued since this process began. */
  readonly numResumed: number;
  readonly isFailed: boolean;
}

const NOTHING: JournalFigures = { numJobs: 0, numBytes: 0, numRunning: 0, numResumed: 0, isFailed: false };

/** The metrics of durable jobs in GET /metrics. */
export class JournalMetrics {
  readonly #registry = new Registry();

  constructor(figures: () => JournalFigures | undefined) {
    const gauge = (name: string, help: string, figureOf: (figures: JournalFigures) => number): void => {
      new Gauge({
        name,
        help,
        registers: [this.#registry],
        collect() {
          this.set(figureOf(figures() ?? NOTHING));
        },
      });
    };
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

  text(): Promise<string> {
    return this.#registry.metrics();
  }
}
