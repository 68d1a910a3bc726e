import { type AnswerEnd, PartialAnswers, TextStream } from '../generation/text-stream.ts';
import { thinkingLimit } from '../generation/thinking-parser.ts';
import {
  GenerationError,
  type GenerationHandle,
  type Runner,
  type TokenBatch,
  type TokenSink,
  type VocabularyFrames,
} from '../runner/runner.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import {
  bytesOf,
  endKey,
  type JournalEntry,
  type Journalled,
  type KeptJob,
  pieceKey,
  startKey,
  type TakenWrites,
  TOKENS_PER_PIECE,
} from './journal.ts';
import { type EndRecord, type JobRecord, packEnd, packPiece, packStart } from './records.ts';
import type { Write } from './store.ts';
import { TokenLog } from './token-log.ts';

/**
 * A request that is computed whether anybody listens or not. Its tokens go to its token log, which its clients read and the
 * journal writes. The job also makes text of its own tokens, because a stop string may end it.
 */

export interface DurableJobEvents {
  /** The job has something new to be written. */
  readonly onNews: (job: DurableJob) => void;
  /** The runner ended the job with this error. Returns whether the job waits to be started again, and so has not ended. */
  readonly onRefused: (job: DurableJob, error: GenerationError) => boolean;
  /** The job has ended, and its end is to be written. */
  readonly onEnd: (job: DurableJob) => void;
  readonly onEndKept: (job: DurableJob) => void;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** The model that computes a job. */
export interface DurableModel {
  readonly runner: Runner;
  readonly tokenizer: Tokenizer;
  /** Needed if the request has a grammar. */
  readonly vocabulary: VocabularyFrames | undefined;
}

export class DurableJob implements Journalled {
  readonly entry: JournalEntry;
  readonly record: JobRecord;
  readonly log: TokenLog;
  readonly #events: DurableJobEvents;
  readonly #over = new AbortController();
  #numWritten: number;
  /** The first token of the piece that the next tokens are added to, and its size so far. */
  #pieceFrom: number;
  #pieceBytes = 0;
  #text: TextStream | undefined;
  #endedMs: number | undefined;
  #isEndWritten: boolean;
  #numDeaths: number;
  /** The count of starts that is to be written, if any. */
  #numStarts: number | undefined;
  #onProgress: () => void = () => {};

  /** kept: what the journal already has of the job. */
  constructor(
    entry: JournalEntry,
    { record, content, endedMs, numDeaths }: KeptJob,
    events: DurableJobEvents,
  ) {
    this.entry = entry;
    this.record = record;
    this.log = new TokenLog(content);
    this.#events = events;
    this.#numWritten = content.tokenIds.length;
    this.#pieceFrom = this.#numWritten;
    this.#endedMs = endedMs;
    this.#isEndWritten = endedMs !== undefined;
    this.#numDeaths = numDeaths;
  }

  /** Same as KeptJob.numDeaths, until a token comes. */
  get numDeaths(): number {
    return this.#numDeaths;
  }

  /** Aborted when the job is over. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** Milliseconds since 1970; undefined while the job has not ended. */
  get endedMs(): number | undefined {
    return this.#endedMs;
  }

  /** Whether it has ended, or another process is to continue it. */
  get isOver(): boolean {
    return this.#endedMs !== undefined || this.#over.signal.aborted;
  }

  /** The numerics id of the runner that computed the last token, or of the one that the job was begun for. */
  get numericsId(): string {
    return this.log.content.continuations.at(-1)?.numericsId ?? this.record.numericsId;
  }

  /**
   * Notes that this process is about to compute the job, which must be written before begin(). Resolves when the journal has
   * it. Without it nobody would know of which job a gateway died.
   */
  noteStart(): void {
    this.#numStarts = this.#numDeaths + 1;
    this.#events.onNews(this);
  }

  /** Resolves when a token has come that the job did not have, or when the runner has the job no more. */
  progress(): Promise<void> {
    return new Promise((resolve) => {
      this.#onProgress = resolve;
    });
  }

  /** Has the runner compute the rest. Throws the runner's GenerationError; the job has then not begun. */
  begin({ runner, tokenizer, vocabulary }: DurableModel): void {
    const { request, thinkingLimit: facts, stop, endsAtTimeLimit } = this.record;
    const { tokenIds } = this.log.content;
    const known = tokenIds.slice();
    const begun = known.length === 0 ? {} : { begun: { tokenIds: known, numericsId: this.numericsId } };
    const recorded: Pick<Runner, 'generate'> = {
      generate: (asked, sink): GenerationHandle => runner.generate(asked, this.#recording(sink)),
    };
    const limit = facts && { thinkingLimit: thinkingLimit(facts, tokenizer) };
    const asked = { ...request, ...begun, ...limit, ...(vocabulary === undefined ? {} : { vocabulary }) };
    const partial = endsAtTimeLimit ? new PartialAnswers() : undefined;
    const options = { tokenizer, stop, minTokens: request.minTokens, partial };
    const text = new TextStream(recorded, asked, options, {
      onPart: ({ end }) => {
        if (end !== undefined) this.#onTextEnd(end);
      },
      onError: (error) => this.#onRefused(generationErrorOf(error)),
    });
    this.#text = text;
    // The tokens that are already known go through the same text stream, since a stop string may begin in them.
    if (known.length > 0) text.onTokens({ firstIndex: 0, tokenIds: known });
  }

  /** Ends the job with this error, unless it has ended. */
  fail(error: GenerationError): void {
    if (this.isOver) return;
    this.#endedMs = this.#events.now();
    this.log.end({ kind: 'error', error });
    this.#text?.cancel();
    this.#onEnd();
  }

  /** Stops the job here without an end: another process will continue it. Its readers are told. */
  suspend(): void {
    if (this.isOver) return;
    this.#over.abort();
    this.#text?.cancel();
    this.noteStop();
    this.log.suspend();
  }

  /** Takes back noteStart(): the runner has the job no more, and no gateway died of it. */
  noteStop(): void {
    this.#numStarts = this.#numDeaths;
    this.#onProgress();
    this.#events.onNews(this);
  }

  #onRefused(error: GenerationError): void {
    this.#text = undefined;
    if (this.isOver) return;
    if (this.#events.onRefused(this, error)) this.noteStop();
    else this.fail(error);
  }

  takeWrites(): TakenWrites {
    const writes: Write[] = [];
    let numReplacedBytes = 0;
    const { content, length } = this.log;
    if (this.#numStarts !== undefined && this.#endedMs === undefined) {
      const value = packStart({ numTokens: length, numStarts: this.#numStarts });
      const write: Write = { type: 'put', key: startKey(this.entry), value };
      numReplacedBytes += bytesOf(write);
      writes.push(write);
    }
    this.#numStarts = undefined;
    if (length > this.#numWritten) {
      const value = packPiece(content, this.#pieceFrom);
      const write: Write = { type: 'put', key: pieceKey(this.entry, this.#pieceFrom), value };
      numReplacedBytes += this.#pieceBytes;
      this.#pieceBytes = bytesOf(write);
      writes.push(write);
      this.#numWritten = length;
      // Log-probabilities are long, and are not written twice.
      if (content.logprobs !== undefined || length - this.#pieceFrom >= TOKENS_PER_PIECE) {
        this.#pieceFrom = length;
        this.#pieceBytes = 0;
      }
    }
    if (content.end === undefined || this.#endedMs === undefined || this.#isEndWritten)
      return { writes, numReplacedBytes, end: undefined };
    const end: EndRecord = { end: content.end, endedMs: this.#endedMs };
    writes.push({ type: 'put', key: endKey(this.entry), value: packEnd(end) });
    this.#isEndWritten = true;
    return { writes, numReplacedBytes, end };
  }

  onEndKept(): void {
    this.#events.onEndKept(this);
  }

  /** A sink that puts each batch into the log before its text is looked at. */
  #recording(sink: TokenSink): TokenSink {
    return {
      onTokens: (batch: TokenBatch) => {
        if (this.isOver) return;
        if (batch.finish !== undefined) this.#endedMs = this.#events.now();
        this.log.append(batch);
        this.#numDeaths = 0;
        this.#onProgress();
        if (batch.finish === undefined) this.#events.onNews(this);
        else this.#onEnd();
        sink.onTokens(batch);
      },
      onError: (error) => sink.onError(error),
    };
  }

  /** A stop string or a time limit has ended the job, or its last token has. In the last case the log already has the end. */
  #onTextEnd({ reason, numTokens }: AnswerEnd): void {
    if (this.isOver) return;
    this.#endedMs = this.#events.now();
    if (reason !== 'time_limit') this.log.end({ kind: 'enough' });
    else this.log.append({ firstIndex: numTokens, tokenIds: [], finish: reason });
    this.#onEnd();
  }

  #onEnd(): void {
    this.#over.abort();
    this.#onProgress();
    this.#events.onNews(this);
    this.#events.onEnd(this);
  }
}

function generationErrorOf(error: unknown): GenerationError {
  if (error instanceof GenerationError) return error;
  const message = 'Internal error in the gateway; its log has the details.';
  return new GenerationError('INFERENCE_FAILED', message, { retriable: false, cause: error });
}
