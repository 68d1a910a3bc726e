/**
 * The process of a model's reader. It is killed when a job exceeds its bounds. The error of that job then says who is to be told:
 * ChatTemplateError or ModelFileError if the same job would fail again, ReaderProcessError if the machine or somebody who killed
 * the process is the cause.
 */

import { ModelFileError, messageOf } from '../../errors/thrown.ts';
import { ChatTemplateError } from '../../prompt/chat-template.ts';
import { processorMsOf } from '../../system/kernel.ts';
import { type OwnProcess, type OwnProgram, ownProgram, startOwn } from '../../system/own-program.ts';
import {
  errorOf,
  type Job,
  type JobKind,
  type JobMessage,
  type Jobs,
  type Part,
  PartReceiver,
  type Phase,
  partOf,
  partsOf,
  type ReaderLimits,
  type ReaderReply,
  readerLimits,
  TemplateSourceError,
} from './messages.ts';

/**
 * not_started: there was no process. killed: the process died, and a new one may succeed at once. silent: it did not answer in
 * time.
 */
export class ReaderProcessError extends Error {
  override readonly name = 'ReaderProcessError';
  readonly kind: 'not_started' | 'killed' | 'silent';

  constructor(kind: ReaderProcessError['kind'], message: string) {
    super(message);
    this.kind = kind;
  }
}

interface OpenJob {
  readonly job: Job;
  /** Absent until the process has begun it. */
  phase: { readonly name: Phase; readonly processorMs: number; readonly beforeMs: number } | undefined;
  readonly waiting: NodeJS.Timeout;
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** The signals with which V8 ends its process if the heap is exhausted or an impossible size is requested. */
const engineSignals: readonly (string | null)[] = ['SIGABRT', 'SIGTRAP', 'SIGILL'];

export class ReaderProcess {
  readonly #limits: ReaderLimits;
  readonly #child: OwnProcess;
  readonly #onEnd: () => void;
  readonly #received = new PartReceiver();
  readonly #open = new Map<number, OpenJob>();
  #numJobs = 0;
  #polling: NodeJS.Timeout | undefined;

  /** onEnd: called when the process cannot be used any more. Throws ReaderProcessError. */
  constructor(limits: ReaderLimits, onEnd: () => void) {
    this.#limits = limits;
    this.#onEnd = onEnd;
    try {
      this.#child = takeSpare(limits.heapMb) ?? forkReader(limits.heapMb);
    } catch (error) {
      throw new ReaderProcessError('not_started', notStarted(error));
    }
    this.#child.on('message', (part: Part) => this.#take(part));
    this.#child.on('error', (error) => this.#onError(error));
    this.#child.on('exit', (code, signal) => this.#onExit(code, signal));
    this.#hold();
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Begins a job. callOff() ends it early if the process can: the result then rejects with CalledOffError. */
  begin<Kind extends JobKind>(
    job: { readonly kind: Kind } & Jobs[Kind]['job'],
  ): { readonly result: Promise<Jobs[Kind]['result']>; callOff(): void } {
    const number = ++this.#numJobs;
    const result = new Promise<Jobs[Kind]['result']>((resolve, reject) => {
      const waitMs = this.#waitMs(job.kind);
      const onSilence = () => {
        const message = `The model's reader did not answer within ${waitMs} ms.`;
        this.#fail(new ReaderProcessError('silent', message));
      };
      this.#open.set(number, {
        // Kind is a union of all kinds here, and each of its jobs is a Job.
        job: job as Job,
        phase: undefined,
        waiting: setTimeout(onSilence, waitMs).unref(),
        resolve: (value) => resolve(value as Jobs[Kind]['result']),
        reject,
      });
    });
    this.#hold();
    void this.#send(number, job as Job);
    return { result, callOff: () => void this.#send(number, undefined) };
  }

  #waitMs(kind: JobKind): number {
    const { waitMs, startWaitMs, readWaitMs } = this.#limits;
    if (kind === 'read' || kind === 'hash') return readWaitMs;
    return kind === 'restore' ? startWaitMs : waitMs;
  }

  end(): void {
    this.#child.kill('SIGKILL');
  }

  /** An idle process must not keep the gateway, or a test, from ending. A process that somebody waits for must. */
  #hold(): void {
    const { channel } = this.#child;
    if (this.#open.size > 0) {
      this.#child.ref();
      channel?.ref();
      this.#polling ??= setInterval(() => this.#poll(), this.#limits.pollMs).unref();
    } else {
      this.#child.unref();
      channel?.unref();
      clearInterval(this.#polling);
      this.#polling = undefined;
    }
  }

  async #send(number: number, job: Job | undefined): Promise<void> {
    const message: JobMessage = { number, job };
    // Only a restored model has arrays. Looking for them in the texts of a client would take time.
    const parts = job?.kind === 'restore' ? partsOf(message) : [partOf(message)];
    for (const part of parts) {
      // Without a process there is no channel. The event that reports the error is still to come.
      if (this.#child.pid === undefined || !this.#child.connected) return;
      await new Promise<void>((resolve) => {
        this.#child.send(part, (error) => {
          if (error !== null) this.#onError(error);
          resolve();
        });
      });
    }
  }

  #take(part: Part): void {
    const whole = this.#received.take(part);
    if (whole === undefined) return;
    const reply = whole.message as ReaderReply;
    const open = this.#open.get(reply.number);
    if (open === undefined) return;
    if ('phase' in reply) {
      // Begun last, it is the last in the map: it is what the process is doing.
      this.#open.delete(reply.number);
      this.#open.set(reply.number, open);
      const { phase, processorMs } = reply;
      if (phase === 'hashing') open.waiting.refresh();
      open.phase = { name: phase, processorMs, beforeMs: this.#usedMs() ?? 0 };
      return;
    }
    this.#close(reply.number, open);
    if ('failure' in reply) open.reject(errorOf(reply.failure));
    else open.resolve(reply.result);
  }

  #close(number: number, { waiting }: OpenJob): void {
    clearTimeout(waiting);
    this.#open.delete(number);
    this.#hold();
  }

  #usedMs(): number | undefined {
    return this.pid === undefined ? undefined : processorMsOf(this.pid);
  }

  /**
   * Ends the process when a job has used too much processor time. Time that a busy machine does not give to the process does not
   * count.
   */
  #poll(): void {
    const nowMs = this.#usedMs();
    if (nowMs === undefined) return;
    for (const [number, { job, phase }] of this.#open) {
      if (phase === undefined || nowMs - phase.beforeMs <= phase.processorMs) continue;
      const limit = `more than ${Math.round(phase.processorMs)} ms of processor time`;
      this.#fail(
        new ReaderProcessError('killed', `The model's reader took ${limit} for another job.`),
        number,
        excess(job, phase.name, 'takes', limit),
      );
      return;
    }
  }

  #onError(error: Error): void {
    const failed = new ReaderProcessError('killed', `The model's reader failed: ${error.message}.`);
    this.#fail(this.pid === undefined ? new ReaderProcessError('not_started', notStarted(error)) : failed);
  }

  #onExit(code: number | null, signal: string | null): void {
    const killed = new ReaderProcessError(
      'killed',
      `The model's reader ended with ${signal ?? `status ${code}`}.`,
    );
    const begun = [...this.#open].filter(([, { phase }]) => phase !== undefined).at(-1);
    const [number, open] = begun ?? [];
    if (!engineSignals.includes(signal) || open?.phase === undefined) {
      this.#fail(killed);
      return;
    }
    const limit = `more than ${this.#limits.heapMb} MiB of memory`;
    this.#fail(killed, number, excess(open.job, open.phase.name, 'needs', limit));
  }

  /** Ends the process. Its jobs get the error, but the one that is at fault gets its own. */
  #fail(error: Error, culprit?: number, ownError: Error = error): void {
    this.end();
    for (const [number, open] of [...this.#open]) {
      this.#close(number, open);
      open.reject(number === culprit ? ownError : error);
    }
    this.#onEnd();
  }
}

/** The error of a job that is to blame for the end of its process. limit: what it exceeded. */
function excess(job: Job, phase: Phase, verb: 'takes' | 'needs', limit: string): Error {
  if (job.kind === 'read')
    return new ModelFileError(65, `The model ${job.path} cannot be used: reading it ${verb} ${limit}.`);
  if (phase === 'parsing') return new TemplateSourceError(`Parsing the chat template ${verb} ${limit}.`);
  if (phase === 'hashing') return new Error(`Hashing the model ${verb} ${limit}.`);
  if (phase === 'rendering') return new ChatTemplateError(`The chat template ${verb} ${limit}.`);
  return new Error(`Encoding the text ${verb} ${limit}.`);
}

function notStarted(error: unknown): string {
  const reason = messageOf(error);
  return `The model's reader, a process of the gateway, could not be started: ${reason}.`;
}

/** Must be called while file descriptors are available: see ownProgram(). */
export function readerProgram(): OwnProgram {
  return ownProgram('reader-program', new URL('./reader-program.ts', import.meta.url));
}

/** What the reader gets of the gateway's environment, which may hold keys: where programs, caches and models are. */
const environmentNames = [
  'PATH',
  'HOME',
  'TMPDIR',
  'HF_HOME',
  'HF_HUB_CACHE',
  'XDG_CACHE_HOME',
  'RUNNEL_CACHE',
];

/** A process that was started before a reader needed it, with what drops it when it ends. */
let spare: { readonly child: OwnProcess; drop(): void } | undefined;

/**
 * Starts the process of the next reader: a server that begins needs one, and starting it takes as long as loading the server's
 * code. If it cannot be started or ends, the reader starts one itself, and reports what is wrong. Returns the process id.
 */
export function startSpareReader(): number | undefined {
  const child = forkReader(readerLimits.heapMb);
  const drop = (): void => {
    spare = undefined;
  };
  child.on('error', drop).on('exit', drop).unref();
  child.channel?.unref();
  spare = { child, drop };
  return child.pid;
}

function takeSpare(heapMb: number): OwnProcess | undefined {
  if (spare === undefined || heapMb !== readerLimits.heapMb) return undefined;
  const { child, drop } = spare;
  child.off('error', drop).off('exit', drop);
  spare = undefined;
  return child.connected ? child : undefined;
}

function forkReader(heapMb: number): OwnProcess {
  return startOwn(readerProgram(), environmentNames, [`--max-old-space-size=${heapMb}`]);
}
