/**
 * The reader of a model: a process that works on all that came with the model's file, and on long texts of clients. It reads the
 * file, sends the gateway its tables, renders conversations by the model's template and encodes the prompts. A thread would not
 * be enough: when a thread runs out of heap, V8 ends the whole process, and one line of a template
 * (`{% set x = range(10 ** 12) %}`) can cause that.
 *
 * A job that is short is not kept waiting by long ones: one of each is under way at a time, and the process does a long text in
 * slices; so it hashes the file. Callers take turns, by the characters of their jobs, and share the number of jobs that may wait. If the process is killed, another one gets its jobs once more, and what was read from the gateway: the file may have
 * been replaced.
 */

import { asError, UnavailableError } from '../../errors/thrown.ts';
import {
  type ChatMessage,
  type ChatTemplate,
  charactersIn,
  type RenderOptions,
} from '../../prompt/chat-template.ts';
import type { TemplateFacts } from '../../prompt/template-features.ts';
import type { ThinkingFormat } from '../../prompt/thinking-format.ts';
import type { ToolCallFormat } from '../../prompt/tool-call-format.ts';
import { ANONYMOUS } from '../../system/caller.ts';
import { FairQueue, type QueueItem, SharedLimit } from '../../system/fair-shares.ts';
import {
  type EncodedText,
  type EncodeTextsOptions,
  type LongTextEncoder,
  numbersOf,
  shortTextChars,
} from '../../tokenizer/tokenizer.ts';
import {
  type Job,
  type JobKind,
  type JobOf,
  type Jobs,
  type ReaderLimits,
  type ReadModel,
  readerLimits,
  TemplateSourceError,
} from './messages.ts';
import { ReaderProcess, ReaderProcessError, readerProgram } from './reader-process.ts';

/** What a job costs besides its characters, in characters. */
const jobChars = 1000;
/** The assumed milliseconds for a character until a job has been measured. */
const firstGuessMs = 0.001;
const lastWeight = 0.1;

/** Jobs of one lane are done one after another, and those of different lanes at the same time. */
const lanes = ['short', 'long', 'hash'] as const;
type Lane = (typeof lanes)[number];

interface Task extends QueueItem {
  readonly job: Job;
  /** Its characters: the shortest job of a caller is next. */
  readonly priority: number;
  readonly order: number;
  numAttempts: number;
  /** Calls the job off; set while a process works on it. */
  callOff: (() => void) | undefined;
  isOver: boolean;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

interface Started {
  readonly process: ReaderProcess;
  readonly ready: Promise<unknown>;
}

export class ModelReader implements LongTextEncoder, ChatTemplate {
  readonly #limits: ReaderLimits;
  #started: Started | undefined;
  #read: ReadModel | undefined;
  #fault: TemplateSourceError | undefined;
  /** Set if the last start failed. The next start is tried at this time or later. */
  #startFailure: { readonly message: string; readonly untilMs: number } | undefined;
  readonly #waiting: FairQueue<Task>;
  /** Jobs that wait or are under way, by caller. */
  readonly #open: SharedLimit;
  #numAdded = 0;
  readonly #underWay = new Map<Lane, Task>();
  /** The mean time for a character, with what each job costs besides. */
  #meanMs = firstGuessMs;
  #isKept = false;
  #isClosed = false;
  #idle: NodeJS.Timeout | undefined;

  constructor(limits: Partial<ReaderLimits> = {}) {
    this.#limits = { ...readerLimits, ...limits };
    this.#open = new SharedLimit(this.#limits.waitingJobs);
    this.#waiting = new FairQueue(this.#open.ceiling);
    readerProgram();
  }

  /** The process id, if a process runs or is being started. */
  get pid(): number | undefined {
    return this.#started?.process.pid;
  }

  /** Reads the model, before anything else. Throws ModelFileError, or UnavailableError. */
  async read(path: string): Promise<ReadModel> {
    this.#read = await this.#do({ kind: 'read', path }, 0);
    return this.#read;
  }

  /** Takes what has been read already. */
  adopt(read: ReadModel): void {
    this.#read = read;
  }

  /**
   * Starts the process and keeps it, so that no conversation waits for its start. If the start fails, the next job gets the
   * error or tries again.
   */
  start(): void {
    this.#isKept = true;
    clearTimeout(this.#idle);
    try {
      this.#running();
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
    }
  }

  get toolUse(): ToolCallFormat | undefined {
    return this.#read?.marks?.toolUse;
  }

  get thinking(): ThinkingFormat | undefined {
    return this.#read?.marks?.thinking;
  }

  async render(
    messages: readonly ChatMessage[],
    maxTokens = Number.POSITIVE_INFINITY,
    options: RenderOptions = {},
  ): Promise<number[]> {
    const rendered = await this.#render(messages, maxTokens, options);
    return 'ids' in rendered ? numbersOf(rendered.ids) : [];
  }

  async renderText(messages: readonly ChatMessage[], options: RenderOptions = {}): Promise<string> {
    const rendered = await this.#render(messages, undefined, options);
    return 'text' in rendered ? rendered.text : '';
  }

  async #render(
    messages: readonly ChatMessage[],
    maxTokens: number | undefined,
    { signal, caller, ...options }: RenderOptions,
  ): Promise<Jobs['render']['result']> {
    if (this.#fault !== undefined) throw this.#fault;
    const length = charactersIn([messages, options.tools ?? [], options.variables ?? {}]);
    try {
      return await this.#do({ kind: 'render', messages, options, maxTokens }, length, { signal, caller });
    } catch (error) {
      if (error instanceof TemplateSourceError) this.#fault ??= error;
      throw this.#fault ?? error;
    }
  }

  async encode(
    texts: readonly string[],
    { caller, ...options }: EncodeTextsOptions,
    signal?: AbortSignal,
  ): Promise<readonly EncodedText[]> {
    const length = texts.reduce((sum, text) => sum + text.length, 0);
    const job: JobOf<'encode'> = { kind: 'encode', texts, options };
    const { ids, lengths, leastTokens } = await this.#do(job, length, { signal, caller });
    const encoded: EncodedText[] = [];
    let at = 0;
    for (const count of lengths) {
      encoded.push(ids.subarray(at, at + count));
      at += count;
    }
    return leastTokens === undefined ? encoded : [...encoded, { leastTokens }];
  }

  /** What the template can do, and whether it can be parsed. */
  features(): Promise<TemplateFacts> {
    return this.#do({ kind: 'features' }, 0);
  }

  /** The hash of the model's files at this path, which may take long. */
  hash(path: string): Promise<string> {
    return this.#do({ kind: 'hash', path }, 0);
  }

  /** Ends the process as soon as no job waits for it. */
  close(): void {
    this.#isClosed = true;
    this.#endIfUnused();
  }

  #do<Kind extends JobKind>(
    job: { readonly kind: Kind } & Jobs[Kind]['job'],
    length: number,
    { signal, caller = ANONYMOUS }: Pick<RenderOptions, 'signal' | 'caller'> = {},
  ): Promise<Jobs[Kind]['result']> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) throw reasonOf(signal);
      if (!this.#open.hasRoom(caller, 1)) throw this.#full();
      const onAbort = (): void => this.#callOff(task, signal as AbortSignal);
      const task: Task = {
        // Kind is a union of all kinds here, and each of its jobs is a Job.
        job: job as Job,
        caller,
        cost: length + jobChars,
        priority: length,
        order: this.#numAdded++,
        numAttempts: 0,
        callOff: undefined,
        isOver: false,
        resolve: (result) => {
          settle();
          resolve(result as Jobs[Kind]['result']);
        },
        reject: (error) => {
          settle();
          reject(error);
        },
      };
      const settle = (): void => {
        if (!task.isOver) this.#open.release(caller, 1);
        task.isOver = true;
        signal?.removeEventListener('abort', onAbort);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      clearTimeout(this.#idle);
      this.#open.hold(caller, 1);
      this.#waiting.add(task, task.order);
      this.#advance();
    });
  }

  #callOff(task: Task, signal: AbortSignal): void {
    this.#waiting.delete(task);
    task.callOff?.();
    task.reject(reasonOf(signal));
    this.#endIfUnused();
  }

  #advance(): void {
    for (const lane of lanes) {
      if (this.#underWay.has(lane)) continue;
      const task = this.#takeNext(lane);
      if (task === undefined) continue;
      this.#underWay.set(lane, task);
      void this.#work(task).finally(() => {
        this.#underWay.delete(lane);
        this.#advance();
        this.#endIfUnused();
      });
    }
  }

  /** Who is next: the shortest job of the caller whose turn it is. */
  #takeNext(lane: Lane): Task | undefined {
    return this.#waiting.take({ fits: (task) => laneOf(task) === lane });
  }

  /** Settles the task, or puts it back for another attempt. */
  async #work(task: Task): Promise<void> {
    let started: Started | undefined;
    task.numAttempts++;
    try {
      started = this.#running();
      await started.ready;
      if (task.isOver) return;
      const beginMs = performance.now();
      const { result, callOff } = started.process.begin(task.job);
      task.callOff = callOff;
      task.resolve(await result);
      if (task.job.kind === 'hash') return;
      const charMs = (performance.now() - beginMs) / task.cost;
      this.#meanMs += lastWeight * (charMs - this.#meanMs);
    } catch (error) {
      if (!(error instanceof ReaderProcessError)) return task.reject(error);
      if (started !== undefined) this.#drop(started);
      if (error.kind === 'not_started') return task.reject(this.#onNotStarted(error));
      if (error.kind === 'killed' && task.numAttempts < this.#limits.attempts && !task.isOver)
        this.#waiting.add(task, task.order);
      else task.reject(new UnavailableError(`${error.message} Send the request again later.`, 1));
    } finally {
      task.callOff = undefined;
    }
  }

  #running(): Started {
    if (this.#started !== undefined) return this.#started;
    const leftMs = (this.#startFailure?.untilMs ?? 0) - performance.now();
    if (this.#startFailure !== undefined && leftMs > 0)
      throw new UnavailableError(this.#startFailure.message, leftMs / 1000);
    try {
      const process: ReaderProcess = new ReaderProcess(this.#limits, () => {
        if (this.#started?.process === process) this.#started = undefined;
      });
      const restored = this.#read && process.begin({ kind: 'restore', ...this.#read }).result;
      const ready: Promise<unknown> = restored ?? Promise.resolve();
      // A job that waits for the process gets this error too.
      ready.catch(() => this.#drop({ process, ready }));
      this.#started = { process, ready };
      return this.#started;
    } catch (error) {
      throw error instanceof ReaderProcessError ? this.#onNotStarted(error) : error;
    }
  }

  #onNotStarted({ message }: ReaderProcessError): UnavailableError {
    const { startPauseMs } = this.#limits;
    this.#startFailure = { message, untilMs: performance.now() + startPauseMs };
    return new UnavailableError(message, startPauseMs / 1000);
  }

  #drop({ process }: Started): void {
    process.end();
    if (this.#started?.process === process) this.#started = undefined;
  }

  get #numOpen(): number {
    return this.#waiting.size + this.#underWay.size;
  }

  #endIfUnused(): void {
    if (this.#numOpen > 0) return;
    if (this.#isClosed) this.#endProcess();
    else if (!this.#isKept) {
      clearTimeout(this.#idle);
      this.#idle = setTimeout(() => this.#endProcess(), this.#limits.idleMs).unref();
    }
  }

  #endProcess(): void {
    this.#started?.process.end();
    this.#started = undefined;
  }

  #full(): UnavailableError {
    const numJobs = this.#numOpen;
    const message = `${numJobs} texts and conversations already wait to be encoded; send this one again later.`;
    const numChars = [...this.#waiting].reduce((sum, { cost }) => sum + cost, 0);
    return new UnavailableError(message, Math.max(1, (numChars * this.#meanMs) / 1000));
  }
}

function laneOf({ job, priority: length }: Task): Lane {
  if (job.kind === 'hash') return job.kind;
  return length <= shortTextChars ? 'short' : 'long';
}

/** The HTTP server aborts a request with a text, but applications only handle what is an Error. */
function reasonOf({ reason }: AbortSignal): Error {
  return asError(reason);
}
