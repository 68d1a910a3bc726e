import { tokenBytesOf } from '../generation/token-bytes.ts';
import { type ModelRegistry, UnknownModelError } from '../models/model-registry.ts';
import { GenerationError } from '../runner/runner.ts';
import { ANONYMOUS } from '../system/caller.ts';
import { type Clock, maxDelayMs } from '../system/clock.ts';
import type { Log } from '../telemetry/log.ts';
import { type DurableJob, generationErrorOf, shortened } from './job.ts';

/**
 * Starts jobs that wait: those of an earlier process, those that a runner could not take, and those that were parked. Ends jobs
 * that wait or are parked for too long.
 */

/** Time between attempts to start a job that waits. */
const resumeRetryMs = 500;

interface ResumptionOptions {
  readonly models: ModelRegistry;
  readonly log: Log;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly clock: Clock;
  /** Resolves when what jobs have noted is written. */
  readonly flush: () => Promise<void> | undefined;
  /** Same as JournalBounds.keepMs. */
  readonly keepMs: () => number;
}

export class Resumption {
  readonly #options: ResumptionOptions;
  /** Jobs that were being computed when a gateway died, and have no token since. */
  readonly #suspects = new Set<DurableJob>();
  /** The one of them that runs. There is one at a time, or each would look like the cause of the next death. */
  #suspect: DurableJob | undefined;
  /** For each wait under way: a function that ends it. */
  readonly #waiting = new Set<() => void>();
  /** Counts the calls of tryNow(): a job that was being tried during one is tried again at once. */
  #numCalls = 0;
  #isStopping = false;
  #numResumed = 0;

  constructor(options: ResumptionOptions) {
    this.#options = options;
  }

  get numResumed(): number {
    return this.#numResumed;
  }

  /** Begins the jobs of an earlier process, each as soon as its model takes requests. */
  resumeAll(jobs: readonly DurableJob[]): void {
    for (const job of jobs) if (job.numDeaths > 0 && job.job.state === 'waiting') this.#suspects.add(job);
    for (const job of jobs) void this.#resume(job);
  }

  /** A job that was running is parked. One that waited already has its turn here. */
  onParked(job: DurableJob): void {
    void this.#resume(job);
  }

  onEnd(job: DurableJob): void {
    this.#suspects.delete(job);
  }

  /** Ends all waits. */
  tryNow(): void {
    this.#numCalls += 1;
    for (const go of [...this.#waiting]) go();
  }

  stop(): void {
    this.#isStopping = true;
    this.tryNow();
  }

  /** Returns whether the job waits to be started again after this error. */
  waitsAfter(error: GenerationError, job: DurableJob): boolean {
    if (!this.#mayPass(error, job, PASSES_WHILE_RUNNING)) return false;
    const { log } = this.#options;
    log.info({ event: 'durable_waiting', job_id: shortened(job.record.id), msg: error.message });
    void this.#resume(job);
    return true;
  }

  async #resume(job: DurableJob): Promise<void> {
    const { log, now } = this.#options;
    const keepMs = this.#options.keepMs();
    const { id } = job.record;
    while (!job.job.isOver && !this.#isStopping) {
      const { turn, state } = job.job;
      const isParked = state === 'parked';
      const leftMs = job.sinceMs + keepMs - now();
      if (leftMs <= 0) return this.lose(job, givenUp(isParked, keepMs));
      if (isParked) {
        this.#suspects.delete(job);
        await this.wait(Math.min(leftMs, maxDelayMs), turn);
        if (job.numDeaths > 0) this.#suspects.add(job);
        continue;
      }
      const numCalls = this.#numCalls;
      try {
        if (await this.#begin(job, turn)) {
          this.#numResumed += 1;
          log.info({ event: 'durable_resumed', job_id: shortened(id), tokens: job.log.length });
          return;
        }
      } catch (error) {
        // Whoever ended or parked the job has also ended its wait.
        if (turn.aborted) continue;
        const failure = error instanceof UnknownModelError ? unserved(error) : generationErrorOf(error);
        if (!this.#mayPass(failure, job, PASSES_WHILE_WAITING)) return this.lose(job, failure);
      }
      if (numCalls === this.#numCalls) await this.wait(resumeRetryMs, turn);
    }
  }

  /** Fails a job that nothing will start. */
  lose(job: DurableJob, failure: GenerationError): void {
    const msg = failure.message;
    this.#options.log.error({ event: 'durable_lost', job_id: shortened(job.record.id), msg });
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

  /** Returns false if the model takes no requests now, if suspects come first, or if the job's turn is over. */
  async #begin(job: DurableJob, turn: AbortSignal): Promise<boolean> {
    const { model: name, request } = job.record;
    const { deadlineMs, caller = ANONYMOUS } = request;
    const waiter = { deadlineMs, signal: turn, caller };
    const { served, release } = await this.#options.models.acquire(name, waiter);
    try {
      const { model, runner } = served;
      const { info, state } = runner.status();
      if (model === undefined || info === undefined || state !== 'ready') return false;
      requireSame('model', request.modelIdentity, info.modelIdentity);
      requireSame('numerics of the runner', job.numericsId, info.numericsId);
      const vocabulary = request.grammar === undefined ? undefined : await tokenBytesOf(model.tokenizer);
      // A job that has ended would stay the suspect that runs: no progress of it follows.
      if (turn.aborted) return false;
      if (job.numDeaths > 0 ? !this.#runAlone(job) : this.#hasSuspectsOf(name)) return false;
      job.noteStart();
      await this.#options.flush();
      // It may have been cancelled, suspended or parked during the waits.
      if (turn.aborted) return false;
      try {
        job.begin(runner, model.tokenizer, vocabulary);
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
      await this.#options.flush();
      this.#suspect = undefined;
      this.#suspects.delete(job);
      this.tryNow();
    });
    return true;
  }

  /** signal: ends the wait. */
  wait(delayMs: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const go = (): void => {
        timer.cancel();
        signal?.removeEventListener('abort', go);
        this.#waiting.delete(go);
        resolve();
      };
      const timer = this.#options.clock.after(delayMs, go);
      this.#waiting.add(go);
      signal?.addEventListener('abort', go);
      if (this.#isStopping || signal?.aborted) go();
    });
  }
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

function givenUp(isParked: boolean, keepMs: number): GenerationError {
  const what = isParked ? 'resumed' : 'finished';
  const message = `The job was not ${what} within ${keepMs / 1000} s, the time for which jobs are kept (--journal-keep-sec).`;
  return new GenerationError('TIMEOUT', message, { retriable: true });
}

function unserved(error: UnknownModelError): GenerationError {
  const message = `The model of this job is not served any more: ${error.message}`;
  return new GenerationError('INFERENCE_FAILED', message, { retriable: false, cause: error });
}
