import { spellingsOf } from '../generation/spellings.ts';
import type { Thinking, ThinkingLimitFacts } from '../generation/thinking-parser.ts';
import type { Model } from '../models/model.ts';
import { type ModelRegistry, UnknownModelError } from '../models/model-registry.ts';
import {
  type GenerateRequest,
  GenerationError,
  type Runner,
  type RunnerInfo,
  type ThinkingLimit,
} from '../runner/runner.ts';
import { Quarantine } from '../runner/supervision/quarantine.ts';
import { type Clock, systemClock } from '../system/clock.ts';
import type { Log } from '../telemetry/log.ts';
import { DurableJob, type DurableJobEvents } from './durable-job.ts';
import type { Journal, JournalEntry, JournalStats } from './journal.ts';
import { JournalRefusal, JournalUnavailable } from './journal-error.ts';
import { emptyContent, type JobKind, type JobRecord } from './records.ts';

/** Jobs that outlive their clients' connections and this process: those that run here, and those that the journal keeps. */

/** Time between attempts to start a job that waits. */
const resumeRetryMs = 500;
/** A job that was being computed when this many gateways died, and of which none added a token, is failed. */
export const maxDeaths = 2;
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
  /** Requests of jobs that have killed gateways. */
  readonly #quarantine: Quarantine;
  /** Jobs that were being computed when a gateway died, and have no token since. */
  readonly #suspects = new Set<DurableJob>();
  /** The one of them that runs. There is one at a time, or each would look like the cause of the next death. */
  #suspect: DurableJob | undefined;
  readonly #onEnd = new Map<DurableJob, (job: DurableJob) => void>();
  readonly #events: DurableJobEvents;
  /** For each job that waits to be tried again, and the journal: a function that ends its wait. */
  readonly #waiting = new Set<() => void>();
  /** Counts the calls of onServed(): a job that was being tried during one is tried again at once. */
  #numCalls = 0;
  readonly #stopping = new AbortController();
  #numResumed = 0;

  constructor(options: DurableJobsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#quarantine = new Quarantine(this.#clock.now);
    this.#events = {
      now: options.now,
      onNews: (job) => this.#journal?.touch(job),
      onRefused: (job, error) => this.#waitsAfter(error, job),
      onEnd: (job) => {
        this.#onEnd.get(job)?.(job);
        this.#onEnd.delete(job);
        this.#suspects.delete(job);
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
   * journal then keeps nothing of the job. An error that may pass makes the job wait.
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
    const kept = { record: whole, content: emptyContent(asked), endedMs: undefined, numDeaths: 0 };
    const job = new DurableJob(entry, kept, this.#events);
    try {
      job.begin({ runner, tokenizer: model.tokenizer, vocabulary });
    } catch (error) {
      if (!(error instanceof GenerationError) || !this.#waitsAfter(error, job)) {
        await journal.forget(entry);
        throw error;
      }
      job.noteStop();
    }
    this.#running.set(entry.key, job);
    if (onEnd !== undefined) this.#onEnd.set(job, onEnd);
    return job;
  }

  /** Throws for the request of a job that has killed gateways, whichever API it comes by. */
  assertNotQuarantined(request: GenerateRequest): void {
    if (this.#quarantine.has(request)) throw killedGateways();
  }

  find(kind: JobKind, caller: string, id: string): JournalEntry | undefined {
    return this.#opened().find(kind, caller, id);
  }

  findByKey(kind: JobKind, idempotencyKey: string): JournalEntry | undefined {
    return this.#opened().findByKey(kind, idempotencyKey);
  }

  /** Returns the job, either the running one or one read from the journal. Throws if the journal's data cannot be read. */
  async open(entry: JournalEntry): Promise<DurableJob> {
    const running = this.#running.get(entry.key);
    if (running !== undefined) return running;
    const kept = await this.#opened().read(entry);
    // The job may have been resumed during the read.
    return this.#running.get(entry.key) ?? new DurableJob(entry, kept, this.#events);
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
        const job = new DurableJob(entry, await journal.read(entry), this.#events);
        this.#running.set(entry.key, job);
        if (job.numDeaths > 0) this.#suspects.add(job);
        jobs.push(job);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        const msg = `The job ${shortened(entry.id)} cannot be read from the journal (${reason}) and is removed.`;
        log.error({ event: 'journal_entry_damaged', key: entry.key, job_id: entry.id, msg });
        await journal.forget(entry);
      }
    }
    for (const job of jobs) {
      if (job.numDeaths < maxDeaths) void this.#resume(job);
      else this.#putInQuarantine(job);
    }
  }

  #putInQuarantine(job: DurableJob): void {
    const { request, thinkingLimit: limit } = job.record;
    const isThinking = (): undefined => undefined;
    this.#quarantine.add({ ...request, ...(limit && { thinkingLimit: { ...limit, isThinking } }) });
    this.#lose(job, killedGateways());
  }

  /** Called when a model takes requests again: jobs that wait are tried at once. */
  onServed(): void {
    this.#numCalls += 1;
    for (const tryNow of [...this.#waiting]) tryNow();
  }

  /** Leaves unfinished jobs to the next process. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.onServed();
    for (const job of this.#running.values()) job.suspend();
    await this.#journal?.close();
  }

  /** Returns whether the job waits to be started again after this error. */
  #waitsAfter(error: GenerationError, job: DurableJob): boolean {
    if (!this.#mayPass(error, job, PASSES_WHILE_RUNNING)) return false;
    const { log } = this.#options;
    log.info({ event: 'durable_waiting', job_id: shortened(job.record.id), msg: error.message });
    void this.#resume(job);
    return true;
  }

  async #resume(job: DurableJob): Promise<void> {
    const { keepMs, log, now } = this.#options;
    const { createdMs, id } = job.record;
    while (!job.isOver) {
      if (createdMs + keepMs <= now()) return this.#lose(job, givenUp(keepMs));
      const numCalls = this.#numCalls;
      try {
        if (await this.#begin(job)) {
          this.#numResumed += 1;
          log.info({ event: 'durable_resumed', job_id: shortened(id), tokens: job.log.length });
          return;
        }
      } catch (error) {
        // Whoever ended the job has also ended its wait.
        if (job.isOver) return;
        const failure = error instanceof GenerationError ? error : unforeseen(error);
        if (!this.#mayPass(failure, job, PASSES_WHILE_WAITING)) return this.#lose(job, failure);
      }
      if (numCalls === this.#numCalls) await this.#wait(resumeRetryMs);
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
  #mayPass(
    { code, retriable }: GenerationError,
    { record }: DurableJob,
    passing: readonly GenerationError['code'][],
  ): boolean {
    const { deadlineMs = Number.POSITIVE_INFINITY } = record.request;
    return retriable && passing.includes(code) && this.#options.now() < deadlineMs;
  }

  /** Returns false if the model takes no requests now, if suspects come first, or if the job is over. */
  async #begin(job: DurableJob): Promise<boolean> {
    const { model: name, request } = job.record;
    const waiter = { deadlineMs: request.deadlineMs, signal: job.over };
    const { served, release } = await this.#options.models.acquire(name, waiter);
    try {
      const { model, runner } = served;
      const { info, state } = runner.status();
      if (model === undefined || info === undefined || state !== 'ready') return false;
      requireSame('model', request.modelIdentity, info.modelIdentity);
      requireSame('numerics of the runner', job.numericsId, info.numericsId);
      const vocabulary = request.grammar === undefined ? undefined : await spellingsOf(model.tokenizer);
      if (job.numDeaths > 0 ? !this.#runAlone(job) : this.#hasSuspectsOf(name)) return false;
      job.noteStart();
      await this.#journal?.flush();
      // It may have been cancelled or suspended during the waits.
      if (job.isOver) return false;
      try {
        job.begin({ runner, tokenizer: model.tokenizer, vocabulary });
      } catch (error) {
        job.noteStop();
        throw error;
      }
      return true;
    } finally {
      release();
    }
  }

  /** Jobs of the same model wait for its suspects, which would otherwise queue behind them, and look stuck, at the runner. */
  #hasSuspectsOf(model: string | undefined): boolean {
    return [...this.#suspects].some(({ record }) => record.model === model);
  }

  /** Returns false if another suspect runs. Otherwise no other is started before this one has a token or has ended. */
  #runAlone(job: DurableJob): boolean {
    if (this.#suspect !== undefined) return false;
    this.#suspect = job;
    void job.progress().then(async () => {
      // What is not written would be no progress for the next process.
      await this.#journal?.flush();
      this.#suspect = undefined;
      this.#suspects.delete(job);
      this.onServed();
    });
    return true;
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

/** Errors of a runner that may take the job later. */
const PASSES_WHILE_RUNNING: readonly GenerationError['code'][] = ['NOT_READY', 'QUEUE_FULL'];
/** TIMEOUT: of the longest wait for a model. */
const PASSES_WHILE_WAITING: readonly GenerationError['code'][] = [...PASSES_WHILE_RUNNING, 'TIMEOUT'];

/**
 * Throws if another model, or a runner with other numerics, would compute the rest: clients may have tokens that the journal
 * lacks, and these would not be computed again alike.
 */
function requireSame(what: 'model' | 'numerics of the runner', before: string, now: string): void {
  if (before === now) return;
  const message = `The ${what} changed after this job began, from ${before} to ${now}, so the job cannot be continued; send the request again.`;
  throw new GenerationError('INFERENCE_FAILED', message, { retriable: true });
}

function killedGateways(): GenerationError {
  const message = `${maxDeaths} gateways in a row died while they computed this request, so it is not tried again.`;
  return new GenerationError('RUNNER_CRASHED', message, { retriable: false });
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
