/**
 * Renders a chat template in a process of its own. A thread would not do: when a thread runs out of heap, V8 ends the
 * whole process, and one line of a template (`{% set x = range(10 ** 12) %}`) can bring that about.
 *
 * The process is started with the first render and kept. It renders one conversation at a time; the others wait. When it
 * dies or does not answer, the render that it was at fails, and the next one starts another.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { bundleOf } from '../bundle.js';
import { ChatTemplateError, ChatTemplateUnavailableError } from './chat-template.ts';
import type { RenderJob, TemplateReply, TemplateSource, TemplateVariables } from './template-messages.ts';

export const templateLimits = {
  sourceChars: 2 ** 20,
  /** Conversations that may wait for their turn; a render takes about a millisecond. */
  waitingRenders: 256,
  /** Heap of the process. */
  heapMb: 256,
  /** From starting the process to its first answer. */
  startTimeoutMs: 10_000,
  /** The process ends a render itself after 250 ms; if it does not answer by then, it is killed. */
  replyTimeoutMs: 2_000,
} as const;

/** What a render may give, for so many characters of messages. */
export function outputCharsMax(inputChars: number): number {
  return 4 * inputChars + 2 ** 20;
}

export class TemplateProcess {
  readonly #source: string;
  #child: ChildProcess | undefined;
  /** Settles when the last render in line has. */
  #tail: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #isClosed = false;

  constructor(source: string) {
    if (source.length > templateLimits.sourceChars) {
      throw new ChatTemplateError(
        `the chat template has ${source.length} characters; at most ${templateLimits.sourceChars} are allowed`,
      );
    }
    this.#source = source;
  }

  /** The rendered prompt. Throws ChatTemplateError, or ChatTemplateUnavailableError. */
  async render(variables: TemplateVariables): Promise<string> {
    if (this.#waiting >= templateLimits.waitingRenders) {
      throw new ChatTemplateUnavailableError(
        `${this.#waiting} conversations already wait for the chat template; send this one again later.`,
      );
    }
    this.#waiting++;
    const turn = this.#tail.then(() => this.#renderNow(variables));
    this.#tail = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      this.#waiting--;
      this.#endIfUnused();
    }
  }

  /** Ends the process, as soon as nobody waits for it. */
  close(): void {
    this.#isClosed = true;
    this.#endIfUnused();
  }

  #endIfUnused(): void {
    if (!this.#isClosed || this.#waiting > 0) return;
    this.#child?.kill('SIGKILL');
    this.#child = undefined;
  }

  async #renderNow(variables: TemplateVariables): Promise<string> {
    if (this.#child === undefined) {
      this.#child = this.#start();
      await this.#ask({ source: this.#source }, templateLimits.startTimeoutMs);
    }
    const inputChars = variables.messages.reduce((sum, message) => sum + message.content.length, 0);
    return this.#ask(
      { variables, outputCharsMax: outputCharsMax(inputChars) },
      templateLimits.replyTimeoutMs,
    );
  }

  #start(): ChildProcess {
    const bundle = bundleOf('template-worker');
    const child = fork(bundle ?? fileURLToPath(new URL('./template-worker.ts', import.meta.url)), {
      // Sources need tsx, also when the gateway itself was started in another way.
      execArgv: [
        `--max-old-space-size=${templateLimits.heapMb}`,
        ...(bundle === undefined ? ['--import', import.meta.resolve('tsx')] : []),
      ],
      // Nothing of the gateway's environment, which may hold keys, is of use to a template.
      env: { PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: process.env.TMPDIR },
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    child.on('exit', () => {
      if (this.#child === child) this.#child = undefined;
    });
    // Who waits for an answer hears of it as well; an error that nobody hears would end the gateway.
    child.on('error', () => child.kill('SIGKILL'));
    return child;
  }

  /** Sends a message and waits for its answer. Without one, the process is given up. */
  async #ask(message: TemplateSource | RenderJob, timeoutMs: number): Promise<string> {
    const child = this.#child as ChildProcess;
    this.#hold(child, true);
    let reply: TemplateReply;
    try {
      reply = await answerOf(child, message, timeoutMs);
    } catch (error) {
      this.#child = undefined;
      child.kill('SIGKILL');
      throw error;
    } finally {
      this.#hold(child, false);
    }
    if ('text' in reply) return reply.text;
    // A template that does not parse leaves a process that can render nothing.
    if ('source' in message) {
      this.#child = undefined;
      child.kill('SIGKILL');
    }
    throw new ChatTemplateError(reply.error);
  }

  /** An idle process must not keep the gateway, or a test, from ending; a busy one must. */
  #hold(child: ChildProcess, isBusy: boolean): void {
    if (isBusy) {
      child.ref();
      child.channel?.ref();
    } else {
      child.unref();
      child.channel?.unref();
    }
  }
}

function answerOf(
  child: ChildProcess,
  message: TemplateSource | RenderJob,
  timeoutMs: number,
): Promise<TemplateReply> {
  return new Promise((resolve, reject) => {
    const fail = (reason: string) => settle(() => reject(new ChatTemplateError(reason)));
    const onMessage = (reply: TemplateReply) => settle(() => resolve(reply));
    const onError = (error: Error) => {
      const message = `The process that renders chat templates failed: ${error.message}.`;
      settle(() => reject(new ChatTemplateUnavailableError(message)));
    };
    const onExit = (code: number | null, signal: string | null) =>
      fail(`The chat template used too much memory, or crashed: its process ended with ${signal ?? code}.`);
    const timer = setTimeout(() => fail(`The chat template did not end within ${timeoutMs} ms.`), timeoutMs);
    const settle = (action: () => void) => {
      clearTimeout(timer);
      child.off('message', onMessage).off('error', onError).off('exit', onExit);
      action();
    };
    child.on('message', onMessage).on('error', onError).on('exit', onExit);
    child.send(message, (error) => {
      if (error !== null) onError(error);
    });
  });
}
