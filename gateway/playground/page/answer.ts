import type { ChatEvent, Usage } from './chat.ts';
import type { Span } from './tokens.ts';

/** An answer, open or ended: its text in pieces, the thinking before it, and how fast it came. */

type AnswerState = 'waiting' | 'streaming' | 'done' | 'stopped' | 'failed';

/** The size of a chunk. A full chunk is not rendered again, so long answers cost little to show. */
const MAX_CHUNK_SPANS = 64;

/** A time without new text, between two texts or before the first. */
interface Silence {
  readonly ms: number;
  /** The span behind the silence. Undefined if that is the first span, or if thinking came behind the silence. */
  readonly place: { readonly chunk: number; readonly span: number } | undefined;
}

export class Answer {
  readonly role = 'assistant';
  readonly model: string;
  /** The chunks of the text. A chunk that changes is replaced by a new array. */
  readonly chunks: (readonly Span[])[] = [];
  /** What the model thought. It is not part of the text. */
  thought = '';
  readonly #askedMs: number;
  #firstMs: number | undefined;
  #lastMs: number | undefined;
  #numTokens = 0;
  /** The longest silence since the last poll that found the runner unchanged. */
  #longestSilence: Silence | undefined;
  /** Whether a restart was reported whose silence is not known yet. */
  #isRestartUnmarked = false;
  #isRunnerAway = false;
  numRestarts = 0;
  state: AnswerState = 'waiting';
  ending = '';
  /** The server's error message, if the answer failed. */
  failure: string | undefined;
  usage: Usage | undefined;

  /** Times are milliseconds of a clock that never goes back. */
  constructor(model: string, nowMs: number) {
    this.model = model;
    this.#askedMs = nowMs;
  }

  take(event: ChatEvent, nowMs: number): void {
    if (event.type === 'usage') this.usage = event.usage;
    else if (event.type === 'finish') this.ending = event.ending;
    else if (event.type === 'thought') this.#takeThought(event.text, nowMs);
    else this.#takeSpans(event.spans, nowMs);
  }

  end(state: 'done' | 'stopped' | 'failed', failure?: string): void {
    this.state = state;
    this.failure = failure;
    if (this.#isRestartUnmarked) this.#markRestart();
  }

  get isOpen(): boolean {
    return this.state === 'waiting' || this.state === 'streaming';
  }

  /** Whether the model still thinks and the text has not begun. */
  get isThinking(): boolean {
    return this.isOpen && this.thought !== '' && this.chunks.length === 0;
  }

  get text(): string {
    return this.chunks.map((chunk) => chunk.map(({ text }) => text).join('')).join('');
  }

  /** Milliseconds since the last token, or since the request if there is none. */
  silenceMs(nowMs: number): number {
    return nowMs - (this.#lastMs ?? this.#askedMs);
  }

  get timeToFirstTokenMs(): number | undefined {
    return this.#firstMs === undefined ? undefined : this.#firstMs - this.#askedMs;
  }

  /** The server's count once it is known; until then the tokens that came with a text. */
  get numTokens(): number {
    return this.usage?.completionTokens ?? this.#numTokens;
  }

  /** Tokens per second from the first token on. Undefined before there are two. */
  get tokensPerSecond(): number | undefined {
    if (this.#firstMs === undefined || this.#lastMs === undefined || this.#lastMs === this.#firstMs)
      return undefined;
    return ((this.numTokens - 1) * 1000) / (this.#lastMs - this.#firstMs);
  }

  /**
   * Reports a poll of the server while this answer is open. numRestarts: restarts since the last poll. isAway: whether there is
   * no runner now. The longest silence around a restart counts as its pause, however short it is.
   */
  noteRunner(numRestarts: number, isAway: boolean): void {
    this.numRestarts += numRestarts;
    this.#isRunnerAway = isAway;
    if (numRestarts > 0) this.#isRestartUnmarked = true;
    else if (!this.#isRestartUnmarked && !isAway) this.#longestSilence = undefined;
  }

  /** Restarts are not marked within the thinking. The footer tells their number. */
  #takeThought(text: string, nowMs: number): void {
    const ms = this.silenceMs(nowMs);
    if (ms > (this.#longestSilence?.ms ?? 0)) this.#longestSilence = { ms, place: undefined };
    this.thought += text;
    this.#arrived(1, nowMs);
  }

  #takeSpans(spans: readonly Span[], nowMs: number): void {
    const ms = this.silenceMs(nowMs);
    const isFirst = this.#firstMs === undefined;
    for (const [index, span] of spans.entries()) {
      this.#add(span);
      if (index > 0 || ms <= (this.#longestSilence?.ms ?? 0)) continue;
      const place = { chunk: this.chunks.length - 1, span: this.#lastChunkLength - 1 };
      this.#longestSilence = { ms, place: isFirst ? undefined : place };
    }
    const numTokens = spans.reduce((sum, { tokens }) => sum + Math.max(1, tokens.length), 0);
    this.#arrived(numTokens, nowMs);
  }

  #arrived(numTokens: number, nowMs: number): void {
    if (this.#isRestartUnmarked && !this.#isRunnerAway) this.#markRestart();
    this.#numTokens += numTokens;
    this.#firstMs ??= nowMs;
    this.#lastMs = nowMs;
    this.state = 'streaming';
  }

  #markRestart(): void {
    const { ms: pauseMs = 0, place } = this.#longestSilence ?? {};
    this.#longestSilence = undefined;
    this.#isRestartUnmarked = false;
    if (place === undefined) return;
    const chunk = [...(this.chunks[place.chunk] ?? [])];
    const span = chunk[place.span];
    if (span !== undefined) chunk[place.span] = { ...span, pauseMs };
    this.chunks[place.chunk] = chunk;
  }

  #add(span: Span): void {
    const last = this.chunks.at(-1);
    if (last === undefined || last.length >= MAX_CHUNK_SPANS) this.chunks.push([span]);
    else this.chunks[this.chunks.length - 1] = [...last, span];
  }

  get #lastChunkLength(): number {
    return this.chunks.at(-1)?.length ?? 0;
  }
}
