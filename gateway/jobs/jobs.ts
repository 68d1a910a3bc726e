import { messageOf } from '../errors/thrown.ts';
import type { ThinkingLimitFacts } from '../generation/thinking-families.ts';
import { type JournalEntry, nameOf } from '../journal/entry.ts';
import type { Journal, JournalStats } from '../journal/journal.ts';
import { DamagedJob, JournalRefusal, JournalUnavailable } from '../journal/journal-error.ts';
import { emptyContent, type Idempotency, type JobRecord } from '../journal/records.ts';
import type { Model } from '../models/model.ts';
import type { ModelRegistry, ServedModel } from '../models/model-registry.ts';
import {
  type GenerateRequest,
  GenerationError,
  type Runner,
  type RunnerInfo,
  type ThinkingLimit,
} from '../runner/runner.ts';
import { Quarantine } from '../runner/supervision/quarantine.ts';
import { type Clock, maxDelayMs, systemClock } from '../system/clock.ts';
import type { Log } from '../telemetry/log.ts';
import { DurableJob, type DurableJobEvents, generationErrorOf, Job, shortened } from './job.ts';
import { jobEnded, jobIdInUse, keyInUse, notDurable, stopping } from './job-errors.ts';
import { ModelTurns } from './model-turns.ts';
import { Resumption } from './resumption.ts';
import { StoredAnswer } from './stored-answer.ts';

/**
 * The jobs of this process, and those that the journal keeps of it and of earlier ones. A job is here from its acceptance on, so
 * that it can be cancelled while it waits for anything.
 */

/** A job that was being computed when this many gateways died, and of which none added a token, is failed. */
export const maxDeaths = 2;
/** Time between attempts to open a journal that the disk refuses to open. */
export const reopenMs = 10_000;

export interface JobsOptions {
  readonly models: ModelRegistry;
  readonly log: Log;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly clock?: Clock;
}

/** What the journal keeps of a job. */
export interface JobFacts {
  readonly record: Pick<
    JobRecord,
    | 'model'
    | 'modelId'
    | 'stop'
    | 'endsAtTimeLimit'
    | 'route'
    | 'body'
    | 'history'
    | 'uuid'
    | 'requestId'
    | 'thinking'
    | 'markIds'
    | 'receipt'
  >;
  readonly request: GenerateRequest;
  readonly model: Model;
  readonly info: RunnerInfo;
}

/** What a job needs to be kept and begun. */
export interface JobBegin extends JobFacts {
  readonly runner: Runner;
}

export class Jobs {
  /** Same as JournalBounds.keepMs. Undefined if no journal is kept. */
  #keepMs: number | undefined;
  /** Undefined until it is open. */
  #journal: Journal | undefined;
  readonly #options: JobsOptions;
  /** Jobs that have not ended, or whose end the client or the journal does not have, by caller and id. */
  readonly #live = new Map<string, Job>();
  /** The writes of records under way. */
  readonly #admissions = new Set<Promise<unknown>>();
  /** Answers that have not ended, and that the journal has room for. */
  readonly #stored = new Set<StoredAnswer>();
  /** Requests of jobs that have killed gateways. */
  readonly #quarantine: Quarantine;
  readonly #resumption: Resumption;
  readonly #turns: ModelTurns;
  readonly #events: DurableJobEvents;
  #isStopping = false;

  constructor(options: JobsOptions) {
    const { clock = systemClock } = options;
    this.#options = options;
    this.#quarantine = new Quarantine(() => clock.now());
    this.#resumption = new Resumption({
      ...options,
      clock,
      flush: () => this.#journal?.flush(),
      keepMs: () => this.#keepMs ?? 0,
    });
    this.#turns = new ModelTurns(
      (served) => this.#jobsOf(served),
      (job) => this.#park(job) && job.resume(),
    );
    this.#events = {
      now: options.now,
      onNews: (job) => {
        this.#journal?.touch(job);
        this.#turns.onNews(job);
      },
      onRefused: (job, error) => this.#resumption.waitsAfter(error, job),
      onEnd: (job) => {
        this.#resumption.onEnd(job);
        this.#options.log.info({ event: 'durable_end', ...usageOf(job) });
      },
      onEndKept: ({ job }) => this.#remove(job),
    };
  }

  /** Undefined if no journal is kept. */
  get stats():
    | (JournalStats & {
        readonly numRunning: number;
        readonly numParked: number;
        readonly numResumed: number;
      })
    | undefined {
    if (!this.isKeeping) return undefined;
    const open = this.#durable().filter(({ endedMs }) => endedMs === undefined);
    const stats = this.#journal?.stats ?? { numJobs: 0, numBytes: 0, isFailed: true };
    const { numParked } = this;
    return { ...stats, numRunning: open.length, numParked, numResumed: this.#resumption.numResumed };
  }

  get numParked(): number {
    return this.#durable().filter(({ job }) => job.state === 'parked').length;
  }

  /** The longest that a durable job waits for its model: as long as jobs are kept. Undefined if no journal is kept. */
  get keepMs(): number | undefined {
    return this.#keepMs && Math.min(this.#keepMs, maxDelayMs);
  }

  /** Whether durable jobs are taken. */
  get isKeeping(): boolean {
    return this.#keepMs !== undefined;
  }

  /**
   * Opens the journal and resumes its jobs. If the disk refuses, that is tried again, and jobs are refused until it succeeds.
   * Throws what else `open` throws. keepMs: same as JournalBounds.keepMs.
   */
  async begin(open: () => Promise<Journal>, keepMs: number): Promise<void> {
    this.#keepMs = keepMs;
    try {
      await this.#take(await open());
    } catch (error) {
      if (!(error instanceof JournalUnavailable)) {
        this.#keepMs = undefined;
        throw error;
      }
      const msg = `${error.message} Durable requests get 503 until it can be opened, which is tried every ${reopenMs / 1000} s.`;
      this.#options.log.error({ event: 'journal_unavailable', msg });
      void this.#beginLater(open);
    }
  }

  async #beginLater(open: () => Promise<Journal>): Promise<void> {
    while (true) {
      await this.#resumption.wait(reopenMs);
      if (this.#isStopping) return;
      try {
        return await this.#take(await open());
      } catch (error) {
        if (error instanceof JournalUnavailable) continue;
        return this.#options.log.error({ event: 'journal_failed', msg: messageOf(error) });
      }
    }
  }

  /** Its jobs are here at once, all of them: nobody finds one that is not read yet, which would have no end. */
  async #take(journal: Journal): Promise<void> {
    const jobs = await this.#readAll(journal);
    if (this.#isStopping) return journal.close();
    this.#journal = journal;
    for (const { job } of jobs) this.#live.set(nameOf(job), job);
    for (const job of jobs) if (job.numDeaths >= maxDeaths) this.#putInQuarantine(job);
    this.#resumption.resumeAll(jobs.filter(({ job }) => !job.isOver));
  }

  /** Throws if there is none now. A gateway that stops confirms nothing that its journal might not keep. */
  #opened(): Journal {
    if (this.#isStopping) throw stopping();
    if (this.#journal !== undefined) return this.#journal;
    const message =
      "The journal cannot be opened now, for the reason in the server's log; send the request again later.";
    throw new JournalRefusal('unavailable', message, reopenMs / 1000);
  }

  /**
   * Takes a job, which is here until drop(), or until the journal has its end. callers: the names of its caller, of which the first
   * one is kept. Throws a 409 if this caller's id is taken.
   */
  accept(
    callers: readonly string[],
    id: string,
    durable?: { readonly idempotency?: Idempotency | undefined },
  ): Job {
    const [caller = ''] = callers;
    const key = durable?.idempotency?.key;
    if (
      key !== undefined &&
      (this.#withKey(key) !== undefined || this.#opened().findByKey(key) !== undefined)
    )
      throw keyInUse();
    const isKept = durable !== undefined && this.#entryOf(callers, id) !== undefined;
    if (isKept || this.#liveOf(callers, id) !== undefined) throw jobIdInUse(id);
    const job = new Job({ caller, id }, durable);
    this.#live.set(nameOf(job), job);
    return job;
  }

  /** Takes back a job unless the journal has it: then it goes on, whatever becomes of its client. Returns whether it is taken back. */
  drop(job: Job): boolean {
    if (job.durable !== undefined) return false;
    job.drop();
    this.#remove(job);
    return true;
  }

  #remove(job: Job): void {
    if (this.#live.get(nameOf(job)) === job) this.#live.delete(nameOf(job));
  }

  /** Writes the job's record and begins it. Throws JournalRefusal or the runner's GenerationError if the journal does not keep it. */
  keep(job: Job, begin: JobBegin): Promise<DurableJob> {
    const admission = this.#keep(job, begin);
    this.#admissions.add(admission);
    return admission.finally(() => this.#admissions.delete(admission));
  }

  #recordOf(
    { caller, id, idempotency }: Pick<Job, 'caller' | 'id' | 'idempotency'>,
    { record, request, model, info }: JobFacts,
  ): JobRecord {
    const { vocabulary: _made, resumeFrom: _none, thinkingLimit, ...asked } = request;
    return {
      ...record,
      ...{ caller, id, createdMs: this.#options.now(), modelFile: model.file, numericsId: info.numericsId },
      request: asked,
      ...(thinkingLimit && { thinkingLimit: factsOf(thinkingLimit) }),
      ...(idempotency && { idempotency }),
    };
  }

  /** Makes room for an answer that is to be kept once it has ended. Throws JournalRefusal. */
  store(callers: readonly string[], id: string, facts: JobFacts): StoredAnswer {
    const [caller = ''] = callers;
    const record = this.#recordOf({ caller, id, idempotency: undefined }, facts);
    const stored = new StoredAnswer(this.#opened(), record, this.#options.now, () => {
      this.#stored.delete(stored);
      if (this.#isStopping && this.#stored.size === 0) void this.#journal?.close();
    });
    this.#stored.add(stored);
    return stored;
  }

  async #keep(job: Job, { record, request, model, info, runner }: JobBegin): Promise<DurableJob> {
    job.signal.throwIfAborted();
    runner.assertCapacity([request]);
    const whole = this.#recordOf(job, { record, request, model, info });
    const journal = this.#opened();
    const entry = await journal.admit(whole);
    const kept = { record: whole, content: emptyContent(request), endedMs: undefined, numDeaths: 0 };
    const durable = new DurableJob(job, entry, kept, this.#events);
    // One that is left to the next process is suspended by stop().
    if (job.isOver) durable.fail(generationErrorOf(job.signal.reason));
    else {
      job.wait();
      try {
        durable.begin(runner, model.tokenizer, request.vocabulary);
      } catch (error) {
        if (!(error instanceof GenerationError) || !this.#resumption.waitsAfter(error, durable)) {
          await journal.forget(entry);
          throw error;
        }
        durable.noteStop();
      }
    }
    job.keptAs(durable);
    return durable;
  }

  /** Throws for the request of a job that has killed gateways, whichever API it comes by. */
  refuseQuarantined(requests: readonly GenerateRequest[]): void {
    if (requests.some((request) => this.#quarantine.has(request))) throw killedGateways();
  }

  /** The job that a request with this key began. Throws a 409 while that request's job is not kept yet. */
  async openTwin(idempotencyKey: string): Promise<DurableJob | undefined> {
    const live = this.#withKey(idempotencyKey);
    if (live !== undefined && live.durable === undefined) throw keyInUse();
    if (live !== undefined) return live.durable;
    const entry = this.#opened().findByKey(idempotencyKey);
    return entry && this.#read(entry);
  }

  #withKey(idempotencyKey: string): Job | undefined {
    return [...this.#live.values()].find(({ idempotency }) => idempotency?.key === idempotencyKey);
  }

  /**
   * The durable job, once the journal has it: one of this process, or one that is read. Undefined if this caller has none with this
   * id. Throws if the journal's data cannot be read.
   */
  async open(callers: readonly string[], id: string): Promise<DurableJob | undefined> {
    const live = this.#liveOf(callers, id);
    if (live?.isDurable) await live.settled;
    if (live?.durable !== undefined) return live.durable;
    const entry = this.#entryOf(callers, id);
    return entry && this.#read(entry);
  }

  /** Undefined if the job is forgotten meanwhile, as when another one needs its room. */
  async #read(entry: JournalEntry): Promise<DurableJob | undefined> {
    // One that runs may end during the read, which would then have no end.
    const running = this.#durableOf(entry);
    if (running !== undefined) return running;
    const journal = this.#opened();
    const kept = await journal.read(entry).catch((error) => {
      if (journal.has(entry)) throw error;
    });
    const resumed = this.#durableOf(entry);
    if (resumed !== undefined || kept === undefined) return resumed;
    const job = new Job(entry, {});
    job.end();
    return new DurableJob(job, entry, kept, this.#events);
  }

  #durableOf(entry: JournalEntry): DurableJob | undefined {
    const durable = this.#live.get(nameOf(entry))?.durable;
    return durable?.entry.key === entry.key ? durable : undefined;
  }

  /**
   * Ends the job with this error unless it has ended. Resolves when the journal has the end, if it is to keep the job. Throws
   * JournalRefusal if it cannot have it: then the job has ended here, and goes on in the next process.
   */
  async cancel(callers: readonly string[], id: string, error: GenerationError): Promise<void> {
    const live = this.#liveOf(callers, id);
    await endOf(live, error);
    // The journal, which cannot always be asked, knows nothing of a plain job.
    if (!this.isKeeping || live?.isDurable === false) return;
    const journal = this.#opened();
    if (live?.durable !== undefined) await journal.confirm();
  }

  /**
   * Ends the job if it runs, and deletes it from the journal. Returns false if this caller has no durable job with this id. Throws
   * JournalRefusal if the journal still has it.
   */
  async forget(callers: readonly string[], id: string, error: GenerationError): Promise<boolean> {
    const live = this.#liveOf(callers, id);
    if (live?.isDurable) await endOf(live, error);
    const entry = live?.durable?.entry ?? this.#entryOf(callers, id);
    if (entry === undefined) return live?.isDurable === true;
    await this.#opened().forget(entry);
    if (live?.isDurable) this.#remove(live);
    return true;
  }

  /**
   * Parks the job, if it is not parked: its tokens are on the disk when this resolves, and its runner has been told to forget it.
   * Undefined if this caller has no durable job with this id. Throws a 409 if it has ended or is not durable.
   */
  park(callers: readonly string[], id: string): Promise<DurableJob | undefined> {
    return this.#change(callers, id, 'parked', (job) => this.#park(job));
  }

  /** Has the job go on, if it is parked; as park(). */
  resume(callers: readonly string[], id: string): Promise<DurableJob | undefined> {
    return this.#change(callers, id, 'resumed', (job) => job.resume());
  }

  async #change(
    callers: readonly string[],
    id: string,
    how: 'parked' | 'resumed',
    change: (job: DurableJob) => void,
  ): Promise<DurableJob | undefined> {
    if (this.#liveOf(callers, id)?.isDurable === false) throw notDurable(id, how);
    const durable = await this.open(callers, id);
    if (durable === undefined) return undefined;
    const journal = this.#opened();
    if (durable.job.isOver) throw jobEnded(id, how);
    journal.assertWritable();
    change(durable);
    await journal.confirm();
    return durable;
  }

  /** Parks the jobs of a model, or all, that the journal has. Returns how many these are; others were parked or have ended. */
  parkAll(served: ServedModel | undefined): Promise<number> {
    return this.#changeAll(served, (job) => this.#park(job));
  }

  /** Has the parked jobs of a model, or all, go on. Returns how many these are. */
  resumeAll(served: ServedModel | undefined): Promise<number> {
    return this.#changeAll(served, (job) => job.resume());
  }

  async #changeAll(served: ServedModel | undefined, change: (job: DurableJob) => boolean): Promise<number> {
    if (!this.isKeeping) return 0;
    const journal = this.#opened();
    journal.assertWritable();
    const jobs = served === undefined ? this.#durable() : this.#jobsOf(served);
    const numChanged = jobs.filter(change).length;
    await journal.confirm();
    return numChanged;
  }

  /** The model leaves, since its time slice is over. Its jobs, or those in the background, wait for the next one, in which they go on. */
  endTurn(served: ServedModel, isInBackground = false): void {
    this.#turns.end(served, isInBackground);
  }

  #jobsOf(served: ServedModel): DurableJob[] {
    const { models } = this.#options;
    return this.#durable().filter(
      ({ record: { model } }) =>
        served === models.single ||
        (model === undefined ? served === models.default : served.names.includes(model)),
    );
  }

  #park(durable: DurableJob): boolean {
    const { job, log, record } = durable;
    const wasRunning = job.state === 'running';
    if (!durable.park()) return false;
    if (wasRunning) this.#resumption.onParked(durable);
    this.#options.log.info({ event: 'durable_parked', job_id: shortened(record.id), tokens: log.length });
    return true;
  }

  #liveOf(callers: readonly string[], id: string): Job | undefined {
    for (const caller of callers) {
      const found = this.#live.get(nameOf({ caller, id }));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #entryOf([caller = '']: readonly string[], id: string): JournalEntry | undefined {
    return this.isKeeping ? this.#opened().find(caller, id) : undefined;
  }

  #durable(): DurableJob[] {
    return [...this.#live.values()].flatMap(({ durable }) => durable ?? []);
  }

  /** The jobs of an earlier process. Those that are not parked wait to be begun. */
  async #readAll(journal: Journal): Promise<DurableJob[]> {
    const { log } = this.#options;
    const jobs: DurableJob[] = [];
    for (const entry of journal.unfinished) {
      if (this.#isStopping) break;
      try {
        const live = new Job(entry, {});
        const kept = await journal.read(entry);
        const job = new DurableJob(live, entry, kept, this.#events);
        live.wait();
        if (kept.parking?.isParked) live.park();
        live.keptAs(job);
        jobs.push(job);
      } catch (error) {
        const isDamaged = error instanceof DamagedJob;
        const what = isDamaged ? 'removed' : 'left as it is';
        const msg = `The job ${shortened(entry.id)} cannot be read from the journal (${messageOf(error)}) and is ${what}.`;
        const event = isDamaged ? 'journal_entry_damaged' : 'journal_entry_unknown';
        log.error({ event, key: entry.key, job_id: entry.id, msg });
        // A journal that cannot be written says so itself.
        if (isDamaged) await journal.forget(entry).catch(() => {});
        else journal.release(entry);
      }
    }
    return jobs;
  }

  #putInQuarantine(job: DurableJob): void {
    const { request, thinkingLimit: limit } = job.record;
    const isThinking = (): undefined => undefined;
    this.#quarantine.add({ ...request, ...(limit && { thinkingLimit: { ...limit, isThinking } }) });
    this.#resumption.lose(job, killedGateways());
  }

  /** Called when a model takes requests again: jobs that wait are tried at once. */
  onServed(): void {
    this.#resumption.tryNow();
  }

  /** Leaves unfinished jobs to the next process. The journal is open for as long as answers go on that it is to have. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#resumption.stop();
    for (const job of this.#live.values())
      if (job.isDurable && job.state === 'accepted') job.leave(stopping());
    await Promise.allSettled(this.#admissions);
    for (const job of this.#durable()) job.suspend();
    await (this.#stored.size === 0 ? this.#journal?.close() : this.#journal?.flush());
  }
}

/** Ends the job, if there is one. Resolves when the journal has it, or will not get it. */
async function endOf(live: Job | undefined, error: GenerationError): Promise<void> {
  if (live?.durable === undefined) live?.end(error);
  else live.durable.fail(error);
  if (live?.isDurable) await live.settled;
}

function factsOf({ isThinking: _made, ...facts }: ThinkingLimit): ThinkingLimitFacts {
  return facts;
}

function killedGateways(): GenerationError {
  const message = `${maxDeaths} gateways in a row died while they computed this request, so it is not tried again.`;
  return new GenerationError('RUNNER_CRASHED', message, { retriable: false });
}

/** What a job has taken. Its client may have left, and the process that began it may be gone: no other line has all of it. */
function usageOf({ record: { id, request }, log: { content, length } }: DurableJob): object {
  return {
    job_id: shortened(id),
    ...(request.caller === undefined ? {} : { caller: request.caller.name }),
    tokens_in: request.promptIds.length,
    tokens_out: length,
    ...(content.first === undefined ? {} : { tokens_cached: content.first.numCachedTokens }),
  };
}
