import type {
  FirstOutput,
  GenerationError,
  GenerationHandle,
  TokenBatch,
  TokenLogprobs,
  TokenSink,
} from '../runner/runner.ts';

/**
 * The tokens of one answer, kept for readers, who may come at any time and read from the first token on. Readers get one token
 * at a time and always the same batches, so the events made of them and their numbers are the same for each reading.
 */

/**
 * How the answer ended. enough: its text ended it, which every reader finds by itself, at the latest after the last token. isAlone:
 * the finish came in a batch without tokens.
 */
export type LogEnd =
  | { readonly kind: 'finish'; readonly finish: NonNullable<TokenBatch['finish']>; readonly isAlone: boolean }
  | { readonly kind: 'enough' }
  | { readonly kind: 'error'; readonly error: GenerationError };

/** From this token on, a runner with another numerics id computed the answer. */
export interface Continuation {
  readonly index: number;
  readonly numericsId: string;
}

export interface TokenLogContent {
  readonly tokenIds: number[];
  /** One for each token, if the request asked for log-probabilities. */
  readonly logprobs: TokenLogprobs[] | undefined;
  first: FirstOutput | undefined;
  readonly continuations: Continuation[];
  end: LogEnd | undefined;
}

/** The most tokens that a reader gets in one turn of the event loop. */
const MAX_TOKENS_IN_TURN = 512;

export class TokenLog {
  readonly #content: TokenLogContent;
  readonly #readers = new Set<Reader>();
  #isSuspended = false;

  constructor(content: TokenLogContent) {
    this.#content = content;
  }

  get content(): Readonly<TokenLogContent> {
    return this.#content;
  }

  get length(): number {
    return this.#content.tokenIds.length;
  }

  append({ tokenIds, logprobs, first, continuedBy, finish }: TokenBatch): void {
    const content = this.#content;
    if (content.end !== undefined) return;
    content.first ??= first;
    if (continuedBy !== undefined)
      content.continuations.push({ index: this.length, numericsId: continuedBy });
    for (const id of tokenIds) content.tokenIds.push(id);
    for (const entry of logprobs ?? []) content.logprobs?.push(entry);
    if (finish !== undefined) content.end = { kind: 'finish', finish, isAlone: tokenIds.length === 0 };
    this.#deliver();
  }

  end(end: LogEnd): void {
    if (this.#content.end !== undefined) return;
    this.#content.end = end;
    this.#deliver();
  }

  /** Tells all readers, and those that come, that the answer continues in another process. They get nothing more. */
  suspend(): void {
    this.#isSuspended = true;
    for (const reader of [...this.#readers]) reader.suspend();
  }

  /**
   * Gives all tokens so far, then those that come. onSuspended: called in place of an end if another process continues the
   * answer.
   */
  read(sink: TokenSink, onSuspended: () => void = () => {}): GenerationHandle {
    const reader = new Reader(this.#content, sink, {
      onSuspended,
      onGone: () => this.#readers.delete(reader),
    });
    this.#readers.add(reader);
    // The sink must not be called before this returns.
    queueMicrotask(() => (this.#isSuspended ? reader.suspend() : reader.deliver()));
    return reader;
  }

  #deliver(): void {
    for (const reader of this.#readers) reader.deliver();
  }
}

class Reader implements GenerationHandle {
  readonly #content: TokenLogContent;
  readonly #sink: TokenSink;
  readonly #events: { readonly onSuspended: () => void; readonly onGone: () => void };
  #next = 0;
  #isHeld = false;
  #isDelivering = false;
  #isWaiting = false;
  #isOver = false;

  constructor(
    content: TokenLogContent,
    sink: TokenSink,
    events: { readonly onSuspended: () => void; readonly onGone: () => void },
  ) {
    this.#content = content;
    this.#sink = sink;
    this.#events = events;
  }

  deliver(): void {
    if (this.#isDelivering || this.#isWaiting) return;
    this.#isDelivering = true;
    try {
      let numLeft = MAX_TOKENS_IN_TURN;
      while (!this.#isHeld && !this.#isOver && this.#giveNext()) {
        numLeft -= 1;
        if (numLeft > 0) continue;
        this.#isWaiting = true;
        setImmediate(() => {
          this.#isWaiting = false;
          this.deliver();
        });
        break;
      }
    } finally {
      this.#isDelivering = false;
    }
  }

  cancel(): void {
    this.#leave();
  }

  pause(): void {
    this.#isHeld = true;
  }

  resume(): void {
    this.#isHeld = false;
    this.deliver();
  }

  suspend(): void {
    if (this.#isOver) return;
    this.#leave();
    this.#events.onSuspended();
  }

  #leave(): void {
    this.#isOver = true;
    this.#events.onGone();
  }

  /** Returns false if there is nothing more to give now. */
  #giveNext(): boolean {
    const { end, tokenIds } = this.#content;
    const index = this.#next;
    const numLeft = tokenIds.length - index;
    if (numLeft > 0) {
      this.#next += 1;
      const isLast = numLeft === 1 && end?.kind === 'finish' && !end.isAlone;
      const batch = this.#batch(index);
      this.#give(isLast ? { ...batch, finish: end.finish } : batch);
      return true;
    }
    if (end === undefined) return false;
    if (end.kind === 'error') {
      this.#leave();
      this.#sink.onError(end.error);
      return false;
    }
    // A reader that has not found the end of an answer that had enough, after its last token, waits for no more.
    const finish = end.kind === 'finish' ? end.finish : 'stop_id';
    const logprobs = this.#content.logprobs === undefined ? {} : { logprobs: [] };
    this.#give({ firstIndex: index, tokenIds: [], ...logprobs, finish });
    return true;
  }

  #give(batch: TokenBatch): void {
    if (batch.finish !== undefined) this.#leave();
    this.#sink.onTokens(batch);
  }

  #batch(index: number): TokenBatch {
    const { tokenIds, logprobs, first, continuations } = this.#content;
    const plain = { firstIndex: index, tokenIds: tokenIds.slice(index, index + 1) };
    if (logprobs === undefined && index > 0 && continuations.length === 0) return plain;
    const continuation = continuations.find((each) => each.index === index);
    return {
      ...plain,
      ...(logprobs === undefined ? {} : { logprobs: logprobs.slice(index, index + 1) }),
      ...(index === 0 && first !== undefined ? { first } : {}),
      ...(continuation === undefined ? {} : { continuedBy: continuation.numericsId }),
    };
  }
}
