import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { type AnswerEvent, streamAnswer, type Usage } from '../../client/answer-stream.ts';
import { RefusedError, type Server } from '../../client/server.ts';
import { UnavailableError } from '../../errors/thrown.ts';
import { terminalText } from '../../system/printable.ts';
import { Conversation, handle } from './conversation.ts';
import { MessageReader } from './message-reader.ts';

/** The number of lines that the arrow keys can bring back. */
const MAX_HISTORY_LINES = 1000;

interface SessionOptions {
  readonly input: Readable;
  readonly output: Writable;
  /** Whether a person uses the chat. It then shows a prompt and the pace, and a failure ends only the answer. */
  readonly isTerminal: boolean;
  /** Whether to print one JSON object for each answer, in a line of its own. */
  readonly isJson: boolean;
  readonly hasColours: boolean;
  readonly server: Server;
  readonly system: string | undefined;
  /** The model and the sampling fields of the request body. */
  readonly fields: object;
}

/** A conversation in lines of text. run() rejects with the server's failure, unless a person uses the chat. */
export class ChatSession {
  readonly #options: SessionOptions;
  readonly #conversation: Conversation;
  readonly #lines: Interface;
  readonly #reader: MessageReader;
  /** Stops the answer under way. */
  #stop: AbortController | undefined;
  #isAboutToLeave = false;

  constructor(options: SessionOptions) {
    const { input, output, isTerminal } = options;
    this.#options = options;
    this.#conversation = new Conversation(options.system);
    this.#lines = createInterface({
      input,
      ...(isTerminal ? { output } : {}),
      terminal: isTerminal,
      historySize: MAX_HISTORY_LINES,
    });
    this.#lines.on('SIGINT', () => this.#interrupt());
    this.#reader = new MessageReader(this.#lines[Symbol.asyncIterator](), (isInside) =>
      this.#prompt(isInside),
    );
  }

  async run(): Promise<void> {
    try {
      for (let said = await this.#reader.next(); said !== undefined; said = await this.#reader.next()) {
        const { text, isFenced } = said;
        if (text.trim() === '') continue;
        if (isFenced || !text.startsWith('/')) {
          await this.#answer(text);
          continue;
        }
        const reply = handle(text, this.#conversation);
        if (reply === undefined) break;
        if (this.#options.isTerminal) this.#options.output.write(`${terminalText(reply)}\n`);
      }
    } finally {
      this.#lines.close();
    }
  }

  async #answer(question: string): Promise<void> {
    const { output, isTerminal, isJson, server, fields } = this.#options;
    this.#conversation.ask(question);
    this.#isAboutToLeave = false;
    this.#stop = new AbortController();
    const pace = new AnswerPace(() => performance.now());
    let answer = '';
    let isThinking = false;
    try {
      const body = { ...fields, messages: this.#conversation.messages };
      for await (const event of streamAnswer(server, '/v1/chat/completions', body, this.#stop.signal)) {
        pace.observe(event);
        answer += event.text;
        if (isJson) continue;
        if (!isTerminal) {
          output.write(event.text);
          continue;
        }
        // People see the thinking, but it is not part of the answer.
        if (event.thought !== '') output.write(this.#dim(terminalText(event.thought)));
        isThinking ||= event.thought !== '';
        if (event.text === '') continue;
        output.write(`${isThinking ? '\n\n' : ''}${terminalText(event.text)}`);
        isThinking = false;
      }
    } catch (error) {
      const isExpected = error instanceof UnavailableError || error instanceof RefusedError;
      if (!isTerminal || !isExpected) throw error;
      // The text so far may be half a sentence. It is shown but does not become part of the conversation.
      this.#conversation.answer('');
      output.write(`${answer === '' ? '' : '\n'}${error.message}\n`);
      return;
    } finally {
      this.#stop = undefined;
    }
    this.#conversation.answer(answer);
    const { finish = null, usage = null } = pace;
    output.write(isJson ? `${JSON.stringify({ text: answer, finish, usage })}\n` : '\n');
    if (isTerminal) output.write(`${this.#dim(`[${pace}]`)}\n`);
  }

  #prompt(isInside: boolean): void {
    if (!this.#options.isTerminal) return;
    this.#lines.setPrompt(isInside ? '... ' : '> ');
    this.#lines.prompt();
  }

  /** Handles Ctrl-C: it stops the answer, or shows a hint, or ends the chat after the hint. */
  #interrupt(): void {
    if (this.#stop !== undefined) this.#stop.abort();
    else if (this.#isAboutToLeave) this.#lines.close();
    else {
      this.#lines.write(null, { ctrl: true, name: 'e' });
      this.#lines.write(null, { ctrl: true, name: 'u' });
      this.#options.output.write('\nPress Ctrl-C again to end the chat.\n');
      this.#lines.prompt();
    }
    this.#isAboutToLeave = true;
  }

  #dim(text: string): string {
    return this.#options.hasColours ? `\x1b[2m${text}\x1b[22m` : text;
  }
}

/** Measures how fast an answer comes. */
class AnswerPace {
  readonly #now: () => number;
  readonly #startedMs: number;
  #firstMs: number | undefined;
  #lastMs = 0;
  #numEvents = 0;
  usage: Usage | undefined;
  finish: string | undefined;

  /** now: a clock in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
    this.#startedMs = now();
  }

  observe({ text, thought, usage, finish }: AnswerEvent): void {
    this.usage = usage ?? this.usage;
    this.finish = finish ?? this.finish;
    if (text === '' && thought === '') return;
    this.#numEvents++;
    this.#lastMs = this.#now();
    this.#firstMs ??= this.#lastMs;
  }

  /** One line. The tokens are counted by the server if it tells, else they are the events with text or thinking. */
  toString(): string {
    const numTokens = this.usage?.completion_tokens ?? this.#numEvents;
    const firstMs = this.#firstMs ?? this.#now();
    const seconds = (this.#lastMs - firstMs) / 1000;
    const rate = numTokens > 1 && seconds > 0 ? [`${((numTokens - 1) / seconds).toFixed(1)} tokens/s`] : [];
    const first = `first after ${((firstMs - this.#startedMs) / 1000).toFixed(2)} s`;
    const cut = this.finish === 'length' ? ['cut off at the token limit'] : [];
    return [`${numTokens} tokens`, ...rate, first, ...cut].join(', ');
  }
}
