import type { ChatEvent, Usage } from './chat.ts';
import type { Span } from './tokens.ts';

/** One answer while it comes and when it is there: its text in pieces, and how fast they came. */

export type AnswerState = 'waiting' | 'streaming' | 'done' | 'stopped' | 'failed';

/** A piece of a text that nobody looks at again once it is full: so long answers cost little to show. */
const MAX_CHUNK_SPANS = 64;
/** A shorter silence is none: no runner comes back sooner. */
export const MIN_PAUSE_MS = 150;

interface Place {
  readonly chunk: number;
  readonly span: number;
  readonly ms: number;
}

export class Answer {
  readonly role = 'assistant';
  readonly model: string;
  /** A chunk that has changed is another array. */
  readonly chunks: (readonly Span[])[] = [];
  readonly #askedMs: number;
  #firstMs: number | undefined;
  #lastMs: number | undefined;
  #numTokens = 0;
  #lastPause: Place | undefined;
  #isPauseARestart = false;
  numRestarts = 0;
  state: AnswerState = 'waiting';
  ending = '';
  /** The server's sentence, if it failed. */
  failure: string | undefined;
  usage: Usage | undefined;

  /** Times are milliseconds of one clock that only grows. */
  constructor(model: string, nowMs: number) {
    this.model = model;
    this.#askedMs = nowMs;
  }

  take(event: ChatEvent, nowMs: number): void {
    if (event.type === 'usage') this.usage = event.usage;
    else if (event.type === 'finish') this.ending = event.ending;
    else this.#takeSpans(event.spans, nowMs);
  }

  end(state: 'done' | 'stopped' | 'failed', failure?: string): void {
    this.state = state;
    this.failure = failure;
  }

  get isOpen(): boolean {
    return this.state === 'waiting' || this.state === 'streaming';
  }

  get text(): string {
    return this.chunks.map((chunk) => chunk.map(({ text }) => text).join('')).join('');
  }

  /** Since the last token, or the request. */
  silenceMs(nowMs: number): number {
    return nowMs - (this.#lastMs ?? this.#askedMs);
  }

  get timeToFirstTokenMs(): number | undefined {
    return this.#firstMs === undefined ? undefined : this.#firstMs - this.#askedMs;
  }

  /** As the server counts them, once it has told; until then those that came with a text. */
  get numTokens(): number {
    return this.usage?.completionTokens ?? this.#numTokens;
  }

  /** From the first one on; undefined before there are two. */
  get tokensPerSecond(): number | undefined {
    if (this.#firstMs === undefined || this.#lastMs === undefined || this.#lastMs === this.#firstMs)
      return undefined;
    return ((this.numTokens - 1) * 1000) / (this.#lastMs - this.#firstMs);
  }

  /** Another runner was started while this answer was open: the silence of now, or the last one, was for it. */
  noteRestart(nowMs: number): void {
    this.numRestarts += 1;
    if (this.silenceMs(nowMs) >= MIN_PAUSE_MS) {
      this.#isPauseARestart = true;
      return;
    }
    const place = this.#lastPause;
    if (place === undefined) return;
    const chunk = [...(this.chunks[place.chunk] ?? [])];
    const span = chunk[place.span];
    if (span !== undefined) chunk[place.span] = { ...span, pauseMs: place.ms };
    this.chunks[place.chunk] = chunk;
  }

  #takeSpans(spans: readonly Span[], nowMs: number): void {
    const silenceMs = this.silenceMs(nowMs);
    const isPause = this.#firstMs !== undefined && silenceMs >= MIN_PAUSE_MS;
    for (const [index, span] of spans.entries()) {
      const isAfterRestart = index === 0 && this.#isPauseARestart && this.#firstMs !== undefined;
      this.#add(isAfterRestart ? { ...span, pauseMs: silenceMs } : span);
      if (index === 0 && isPause && !isAfterRestart)
        this.#lastPause = { chunk: this.chunks.length - 1, span: this.#lastChunkLength - 1, ms: silenceMs };
    }
    this.#isPauseARestart = false;
    this.#numTokens += spans.reduce((sum, { tokens }) => sum + Math.max(1, tokens.length), 0);
    this.#firstMs ??= nowMs;
    this.#lastMs = nowMs;
    this.state = 'streaming';
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
