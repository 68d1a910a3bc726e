import { spellingsOf } from '../generation/spellings.ts';
import type { ThinkingLimitFacts } from '../generation/thinking-limit.ts';
import type { Thinking } from '../generation/thinking-parser.ts';
import type { Model } from '../models/model.ts';
import { type ModelRegistry, UnknownModelError } from '../models/model-registry.ts';
import {
  type GenerateRequest,
  GenerationError,
  type Runner,
  type RunnerInfo,
  type ThinkingLimit,
} from '../runner/runner.ts';
import { type Clock, systemClock } from '../system/clock.ts';
import type { Log } from '../telemetry/log.ts';
import { DurableJob, type DurableJobEvents } from './durable-job.ts';
import type { Journal, JournalEntry, JournalStats } from './journal.ts';
import { JournalRefusal, JournalUnavailable } from './journal-error.ts';
import { emptyContent, type JobKind, type JobRecord } from './records.ts';

/** Jobs that outlive their clients' connections and this process: those that run here, and those that the journal keeps. */

/** Time between attempts to resume a job of an earlier process while its model takes no requests. */
const resumeRetryMs = 500;
/** Time between attempts to open a journal that the disk refuses to open. */
export const reopenMs = 10_000;

export interface DurableJobsOptions {
  readonly models: ModelRegistry;
  readonly log: Log;
  /** Same as JournalBounds.keepMs. */
  readonly keepMs: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly clock?: Clock;
}

/** What a new job needs. */
export interface JobBegin {
  readonly record: Omit<JobRecord, 'createdMs' | 'modelFile' | 'numericsId' | 'request' | 'thinkingLimit'>;
  readonly request: GenerateRequest;
  /** How its answer thinks. Required if the request limits the thinking. */
  readonly thinking?: Thinking | undefined;
  readonly model: Model;
  readonly info: RunnerInfo;
  readonly runner: Runner;
  /** Called when the job has ended. */
  readonly onEnd?: (job: DurableJob) => void;
}

export class DurableJobs {
  /** Undefined until it is open. */
  #journal: Journal | undefined;
  readonly #options: DurableJobsOptions;
  readonly #clock: Clock;
  /** Jobs that run or whose end is not written yet, by their keys. */
  readonly #running = new Map<string, DurableJob>();
  readonly #onEnd = new Map<DurableJob, (job: DurableJob) => void>();
  readonly #events: DurableJobEvents;
  /** For each job that waits to be tried again, and the journal: a function that ends its wait. */
  readonly #waiting = new Set<() => void>();
  readonly #stopping = new AbortController();
  #numResumed = 0;

  constructor(options: DurableJobsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#events = {
      now: options.now,
      onNews: (job) => this.#journal?.touch(job),
      onEnd: (job) => {
        this.#onEnd.get(job)?.(job);
        this.#onEnd.delete(job);
      },
      onEndKept: ({ entry }) => this.#running.delete(entry.key),
    };
  }

  get stats(): JournalStats & { readonly numRunning: number; readonly numResumed: number } {
    const numRunning = [...this.#running.values()].filter(({ endedMs }) => endedMs === undefined).length;
    const stats = this.#journal?.stats ?? { numJobs: 0, numBytes: 0, isFailed: true };
    return { ...stats, numRunning, numResumed: this.#numResumed };
  }

  /**
   * Opens the journal and resumes its jobs. If the disk refuses, that is tried again, and jobs are refused until it succeeds.
   * Throws what else `open` throws.
   */
  async begin(open: () => Promise<Journal>): Promise<void> {
    try {
      await this.#take(await open());
    } catch (error) {
      if (!(error instanceof JournalUnavailable)) throw error;
      const msg = `${error.message} Durable requests get 503 until it can be opened, which is tried every ${reopenMs / 1000} s.`;
      this.#options.log.error({ event: 'journal_unavailable', msg });
      void this.#beginLater(open);
    }
  }

  async #beginLater(open: () => Promise<Journal>): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#wait(reopenMs);
      if (signal.aborted) return;
      try {
        return await this.#take(await open());
      } catch (error) {
        if (error instanceof JournalUnavailable) continue;
        const msg = error instanceof Error ? error.message : String(error);
        this.#options.log.error({ event: 'journal_failed', msg });
        return;
      }
    }
  }

  async #take(journal: Journal): Promise<void> {
    if (this.#stopping.signal.aborted) return journal.close();
    this.#journal = journal;
    await this.#resumeAll(journal);
  }

  #opened(): Journal {
    if (this.#journal !== undefined) return this.#journal;
    const message =
      "The journal cannot be opened now, for the reason in the server's log; send the request again later.";
    throw new JournalRefusal('unavailable', message, reopenMs / 1000);
  }

  /**
   * Begins a job once its record is on the disk. Throws JobExistsError, JournalRefusal or the runner's GenerationError; the
   * journal then keeps nothing of the job.
   */
  async start({ record, request, thinking, model, info, runner, onEnd }: JobBegin): Promise<DurableJob> {
    runner.assertCapacity([request]);
    const { vocabulary, begun: _none, thinkingLimit, ...asked } = request;
    const whole: JobRecord = {
      ...record,
      createdMs: this.#options.now(),
      modelFile: model.file,
      numericsId: info.numericsId,
      request: asked,
      ...(thinkingLimit === undefined ? {} : { thinkingLimit: factsOf(thinkingLimit, thinking) }),
    };
    const journal = this.#opened();
    const entry = await journal.admit(whole);
    const job = new DurableJob(entry, whole, emptyContent(asked), undefined, this.#events);
    try {
      job.begin({ runner, tokenizer: model.tokenizer, vocabulary });
    } catch (error) {
      await journal.forget(entry);
      throw error;
    }
    this.#running.set(entry.key, job);
    if (onEnd !== undefined) this.#onEnd.set(job, onEnd);
    return job;
  }

  find(kind: JobKind, caller: string, id: string): JournalEntry | undefined {
    return this.#opened().find(kind, caller, id);
  }

  /** Returns the job, either the running one or one read from the journal. Throws if the journal's data cannot be read. */
  async open(entry: JournalEntry): Promise<DurableJob> {
    const running = this.#running.get(entry.key);
    if (running !== undefined) return running;
    const { record, content, endedMs } = await this.#opened().read(entry);
    // The job may have been resumed during the read.
    return this.#running.get(entry.key) ?? new DurableJob(entry, record, content, endedMs, this.#events);
  }

  /** Ends the job with this error if it runs. Resolves when the end is written. */
  async cancel(entry: JournalEntry, error: GenerationError): Promise<void> {
    this.#running.get(entry.key)?.fail(error);
    await this.#opened().flush();
  }

  /** Ends the job if it runs, and deletes it from the journal. */
  async forget(entry: JournalEntry, error: GenerationError): Promise<void> {
    this.#running.get(entry.key)?.fail(error);
    this.#running.delete(entry.key);
    await this.#opened().forget(entry);
  }

  /** Resumes the jobs of an earlier process, each as soon as its model takes requests. */
  async #resumeAll(journal: Journal): Promise<void> {
    const { unfinished } = journal;
    const { log } = this.#options;
    const jobs: DurableJob[] = [];
    for (const entry of unfinished) {
      try {
        const { record, content } = await journal.read(entry);
        const job = new DurableJob(entry, record, content, undefined, this.#events);
        this.#running.set(entry.key, job);
        jobs.push(job);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        const msg = `The job ${shortened(entry.id)} cannot be read from the journal (${reason}) and is removed.`;
        log.error({ event: 'journal_entry_damaged', key: entry.key, job_id: entry.id, msg });
        await journal.forget(entry);
      }
    }
    for (const job of jobs) void this.#resume(job);
  }

  /** Called when a model takes requests again: jobs that wait are tried at once. */
  onServed(): void {
    for (const tryNow of [...this.#waiting]) tryNow();
  }

  /** Leaves unfinished jobs to the next process. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.onServed();
    for (const job of this.#running.values()) job.suspend();
    await this.#journal?.close();
  }

  async #resume(job: DurableJob): Promise<void> {
    const { keepMs, log, now } = this.#options;
    const { createdMs, id } = job.record;
    while (!job.isOver) {
      if (createdMs + keepMs <= now()) return this.#lose(job, givenUp(keepMs));
      try {
        if (await this.#begin(job)) {
          this.#numResumed += 1;
          log.info({ event: 'durable_resumed', job_id: shortened(id), tokens: job.log.length });
          return;
        }
      } catch (error) {
        const failure = error instanceof GenerationError ? error : unforeseen(error);
        if (!this.#mayPass(failure, job)) return this.#lose(job, failure);
      }
      await this.#wait(resumeRetryMs);
    }
  }

  #lose(job: DurableJob, failure: GenerationError): void {
    this.#options.log.error({
      event: 'durable_lost',
      job_id: shortened(job.record.id),
      msg: failure.message,
    });
    job.fail(failure);
  }

  /** Whether the error may go away by itself. No wait for a model is the job's last one, but its own deadline is. */
  #mayPass({ code, retriable }: GenerationError, { record }: DurableJob): boolean {
    const { deadlineMs = Number.POSITIVE_INFINITY } = record.request;
    return retriable && MAY_PASS.includes(code) && this.#options.now() < deadlineMs;
  }

  /** Returns false if the model takes no requests now, or if the job is over. */
  async #begin(job: DurableJob): Promise<boolean> {
    const { model: name, request } = job.record;
    const { signal } = this.#stopping;
    const { deadlineMs } = request;
    const { served, release } = await this.#options.models.acquire(name, { deadlineMs, signal });
    try {
      const { model, runner } = served;
      const { info, state } = runner.status();
      if (model === undefined || info === undefined || state !== 'ready') return false;
      requireSame('model', request.modelIdentity, info.modelIdentity);
      requireSame('numerics of the runner', job.numericsId, info.numericsId);
      const vocabulary = request.grammar === undefined ? undefined : await spellingsOf(model.tokenizer);
      // It may have been cancelled or suspended during the waits.
      if (job.isOver) return false;
      job.begin({ runner, tokenizer: model.tokenizer, vocabulary });
      return true;
    } finally {
      release();
    }
  }

  #wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const go = (): void => {
        timer.cancel();
        this.#waiting.delete(go);
        resolve();
      };
      const timer = this.#clock.after(delayMs, go);
      this.#waiting.add(go);
      if (this.#stopping.signal.aborted) go();
    });
  }
}

function factsOf({ maxTokens, endIds }: ThinkingLimit, thinking: Thinking | undefined): ThinkingLimitFacts {
  if (thinking === undefined) throw new Error('a limit of thinking needs an answer that thinks');
  const { isOpen, format } = thinking;
  return { maxTokens, endIds, thinking: { isOpen, format: { begin: format.begin, end: format.end } } };
}

/** TIMEOUT: of the longest wait for a model. */
const MAY_PASS: readonly GenerationError['code'][] = ['NOT_READY', 'QUEUE_FULL', 'TIMEOUT'];

/**
 * Throws if another model, or a runner with other numerics, would compute the rest: clients may have tokens that the journal
 * lacks, and these would not be computed again alike.
 */
function requireSame(what: 'model' | 'numerics of the runner', before: string, now: string): void {
  if (before === now) return;
  const message = `The ${what} changed after this job began, from ${before} to ${now}, so the job cannot be continued; send the request again.`;
  throw new GenerationError('INFERENCE_FAILED', message, { retriable: true });
}

function givenUp(keepMs: number): GenerationError {
  const message = `The job was not finished within ${keepMs / 1000} s, the time for which jobs are kept (--journal-keep-sec).`;
  return new GenerationError('TIMEOUT', message, { retriable: true });
}

function unforeseen(error: unknown): GenerationError {
  const message =
    error instanceof UnknownModelError
      ? `The model of this job is not served any more: ${error.message}`
      : 'Internal error in the gateway; its log has the details.';
  return new GenerationError('INFERENCE_FAILED', message, { retriable: false, cause: error });
}

/** A job id is chosen by the client and may be too long for a line of the log. */
function shortened(id: string): string {
  return id.slice(0, 128);
}
