/**
 * A process that renders a chat template. It gets one task at a time and is killed when it exceeds its bounds. The error says
 * who is to be told: ChatTemplateError if the same template would fail again with the same conversation, TemplateChildError if
 * the machine or somebody who killed the process is the cause.
 */
import { type ChildProcess, type ForkOptions, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { bundleOf } from '../bundle.js';
import { processorMsOf } from '../system/processor-time.ts';
import { withSpawnReserve } from '../system/spawn-reserve.ts';
import { ChatTemplateError } from './chat-template.ts';
import { outputCharsMax, renderProcessorMs, type TemplateLimits } from './template-limits.ts';
import type { RenderJob, TemplateReply, TemplateSource, TemplateVariables } from './template-messages.ts';
import { charactersIn } from './texts-in.ts';

/**
 * not_started: there was no process. killed: the process died, and a new one may succeed at once. silent: it did not answer in
 * time.
 */
export class TemplateChildError extends Error {
  override readonly name = 'TemplateChildError';
  readonly kind: 'not_started' | 'killed' | 'silent';

  constructor(kind: TemplateChildError['kind'], message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The bounds of one answer. */
interface Bounds {
  readonly processorMs: number;
  readonly waitMs: number;
  /** The template's fault for the end of the process, as a message; undefined if the template is not at fault. */
  readonly faultOf: (signal: string | null) => string | undefined;
}

/** The signals with which V8 ends its process if the heap is exhausted or an impossible size is requested. */
const engineSignals: readonly (string | null)[] = ['SIGABRT', 'SIGTRAP', 'SIGILL'];

export class TemplateChild {
  readonly #limits: TemplateLimits;
  readonly #process: ChildProcess;
  /**
   * Settles when the template is parsed. Rejects with ChatTemplateError if it cannot be parsed, or with TemplateChildError if
   * the process failed.
   */
  readonly started: Promise<void>;

  /** onEnd: called when the process cannot be used any more. */
  constructor(source: string, limits: TemplateLimits, onEnd: () => void) {
    this.#limits = limits;
    try {
      this.#process = forkWorker(limits.heapMb);
    } catch (error) {
      throw new TemplateChildError('not_started', notStarted(error));
    }
    this.#process.on('exit', onEnd);
    // A caller that waits for an answer gets this error too. Without a listener, the error would end the gateway.
    this.#process.on('error', () => {
      this.end();
      onEnd();
    });
    this.hold(false);
    this.started = this.#start(source);
    // The caller that renders gets this error. A process without a template is useless, so it is ended.
    this.started.catch(() => this.end());
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** An idle process must not keep the gateway, or a test, from ending. A process that somebody waits for must. */
  hold(isWaitedFor: boolean): void {
    const { channel } = this.#process;
    if (isWaitedFor) {
      this.#process.ref();
      channel?.ref();
    } else {
      this.#process.unref();
      channel?.unref();
    }
  }

  async render(variables: TemplateVariables): Promise<string> {
    const { messages, tools = [] } = variables;
    const inputChars = charactersIn([messages, tools]);
    const job = { variables, outputCharsMax: outputCharsMax(inputChars) };
    return this.#ask(job, {
      processorMs: renderProcessorMs(messages.length, inputChars),
      waitMs: this.#limits.renderWaitMs,
      faultOf: (signal) =>
        engineSignals.includes(signal)
          ? `The chat template used more than the ${this.#limits.heapMb} MiB of memory that it is allowed.`
          : undefined,
    });
  }

  end(): void {
    this.#process.kill('SIGKILL');
  }

  async #start(source: string): Promise<void> {
    const { startProcessorMs, startWaitMs } = this.#limits;
    const bounds = { processorMs: startProcessorMs, waitMs: startWaitMs, faultOf: () => undefined };
    await this.#ask({ source }, bounds);
  }

  /** Sends a message and waits for the reply. If there is none, the process is ended. */
  async #ask(message: TemplateSource | RenderJob, bounds: Bounds): Promise<string> {
    let reply: TemplateReply;
    try {
      reply = await this.#answer(message, bounds);
    } catch (error) {
      this.end();
      throw error;
    }
    if ('text' in reply) return reply.text;
    throw new ChatTemplateError(reply.error);
  }

  #answer(message: TemplateSource | RenderJob, bounds: Bounds): Promise<TemplateReply> {
    const child = this.#process;
    const { processorMs, waitMs, faultOf } = bounds;
    return new Promise((resolve, reject) => {
      const fail = (error: Error) => settle(() => reject(error));
      const onMessage = (reply: TemplateReply) => settle(() => resolve(reply));
      const onError = (error: Error) =>
        fail(
          child.pid === undefined
            ? new TemplateChildError('not_started', notStarted(error))
            : new TemplateChildError(
                'killed',
                `The process that renders chat templates failed: ${error.message}.`,
              ),
        );
      const onExit = (code: number | null, signal: string | null) => {
        const fault = faultOf(signal);
        const message = `The process that renders chat templates ended with ${signal ?? `status ${code}`}.`;
        fail(fault === undefined ? new TemplateChildError('killed', message) : new ChatTemplateError(fault));
      };
      const settle = (action: () => void) => {
        clearTimeout(waiting);
        clearInterval(polling);
        child.off('message', onMessage).off('error', onError).off('exit', onExit);
        action();
      };
      const waiting = setTimeout(() => {
        const message = `The process that renders chat templates did not answer within ${waitMs} ms.`;
        fail(new TemplateChildError('silent', message));
      }, waitMs).unref();
      const polling = this.#poll(processorMs, fail);
      child.on('message', onMessage).on('error', onError).on('exit', onExit);
      // Without a process there is no channel. The event that reports the error is still to come.
      if (child.pid === undefined) return;
      child.send(message, (error) => {
        if (error !== null) onError(error);
      });
    });
  }

  /**
   * Fails the task when it has used too much processor time. Time that a busy machine does not give to the process does not
   * count.
   */
  #poll(processorMs: number, fail: (error: Error) => void): NodeJS.Timeout {
    const usedMs = () => (this.pid === undefined ? undefined : processorMsOf(this.pid));
    const beforeMs = usedMs();
    const look = () => {
      const nowMs = usedMs();
      if (beforeMs === undefined || nowMs === undefined || nowMs - beforeMs <= processorMs) return;
      fail(
        new ChatTemplateError(
          `The chat template takes more than ${Math.round(processorMs)} ms of processor time.`,
        ),
      );
    };
    return setInterval(look, this.#limits.pollMs).unref();
  }
}

function notStarted(error: unknown): string {
  const reason = error instanceof Error ? error.message : String(error);
  return `The process that renders chat templates could not be started: ${reason}.`;
}

interface Program {
  readonly file: string;
  readonly flags: readonly string[];
}

let program: Program | undefined;

/**
 * How the worker is started, determined once. It must be called while file descriptors are available: otherwise nothing is
 * found, and Node remembers that.
 */
export function workerProgram(): Program {
  program ??= findProgram();
  return program;
}

function findProgram(): Program {
  const bundle = bundleOf('template-worker');
  if (bundle !== undefined) return { file: bundle, flags: [] };
  const file = fileURLToPath(new URL('./template-worker.ts', import.meta.url));
  // The sources need tsx, even if the gateway itself was started in another way.
  return { file, flags: ['--import', import.meta.resolve('tsx')] };
}

function forkWorker(heapMb: number): ChildProcess {
  const { file, flags } = workerProgram();
  const options: ForkOptions = {
    execArgv: [`--max-old-space-size=${heapMb}`, ...flags],
    // A template needs nothing of the gateway's environment, which may hold keys.
    env: { PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: process.env.TMPDIR },
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  };
  return withSpawnReserve(() => fork(file, options));
}
