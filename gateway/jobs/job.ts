import { marksOfIds } from '../generation/control-marks.ts';
import { type AnswerEnd, PartialAnswers, TextStream } from '../generation/text-stream.ts';
import { thinkingLimit } from '../generation/thinking-families.ts';
import {
  bytesOf,
  endKey,
  type JournalEntry,
  parkingKey,
  pieceKey,
  startKey,
  TOKENS_PER_PIECE,
} from '../journal/entry.ts';
import type { Journalled, KeptJob, TakenWrites } from '../journal/journal.ts';
import {
  type EndRecord,
  type Idempotency,
  type JobRecord,
  type ParkingRecord,
  packEnd,
  packParking,
  packPiece,
  packStart,
} from '../journal/records.ts';
import type { Write } from '../journal/store.ts';
import { TokenLog } from '../journal/token-log.ts';
import {
  GenerationError,
  type GenerationHandle,
  type Runner,
  type TokenBatch,
  type TokenSink,
  type VocabularyFrames,
} from '../runner/runner.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';

/**
 * accepted: it waits for its model, its prompt is rendered, its record is written. waiting: it may be begun. parked: it holds
 * nothing of a runner, and is not begun before somebody resumes it. left: another process is to continue it.
 */
export type JobState = 'accepted' | 'waiting' | 'running' | 'parked' | 'ended' | 'left';

/** Who has a job, and by which id. */
export interface JobName {
  /** As in callersOf(). A caller cannot find the jobs of others. */
  readonly caller: string;
  readonly id: string;
}

/**
 * A call that its client can name, from its acceptance on: accepted → waiting → running → ended. A durable one whose runner
 * refuses it for now waits again; one that waits or runs may be parked, and waits again once it is resumed. Whatever waits for
 * something on its behalf ends by `signal`, or by `turn`.
 */
export class Job implements JobName {
  readonly caller: string;
  readonly id: string;
  readonly isDurable: boolean;
  readonly idempotency: Idempotency | undefined;
  /** Resolves when the journal has it, or when it is over without that. */
  readonly settled: Promise<void>;
  readonly #over = new AbortController();
  #turn = new AbortController();
  #state: JobState = 'accepted';
  #durable: DurableJob | undefined;
  #settle: () => void = () => {};

  constructor({ caller, id }: JobName, durable?: { readonly idempotency?: Idempotency | undefined }) {
    this.caller = caller;
    this.id = id;
    this.isDurable = durable !== undefined;
    this.idempotency = durable?.idempotency;
    this.settled = new Promise((resolve) => (this.#settle = resolve));
  }

  get state(): JobState {
    return this.#state;
  }

  get isOver(): boolean {
    return this.#over.signal.aborted;
  }

  /** Aborted when it is over. The reason is the error that ended it, if one did. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** Aborted when it is parked, resumed or over: what was under way is void then, even if the job has the same state again. */
  get turn(): AbortSignal {
    return this.#turn.signal;
  }

  /** What the journal keeps of it. */
  get durable(): DurableJob | undefined {
    return this.#durable;
  }

  keptAs(durable: DurableJob): void {
    this.#durable = durable;
    this.#settle();
  }

  wait(): void {
    if (!this.isOver) this.#state = 'waiting';
  }

  /** Throws what ended it if it is over: it must not be begun then. */
  run(): void {
    this.signal.throwIfAborted();
    if (this.#state !== 'waiting') throw new Error(`The job is ${this.#state}, so it cannot be begun.`);
    this.#state = 'running';
  }

  /** Returns false if it neither waits nor runs. */
  park(): boolean {
    return (this.#state === 'waiting' || this.#state === 'running') && this.#nextTurn('parked');
  }

  /** Returns false if it is not parked. */
  resume(): boolean {
    return this.#state === 'parked' && this.#nextTurn('waiting');
  }

  #nextTurn(state: JobState): true {
    this.#state = state;
    const ended = this.#turn;
    this.#turn = new AbortController();
    ended.abort();
    return true;
  }

  /** Returns false if it was over. */
  end(error?: unknown): boolean {
    return this.#goTo('ended', error);
  }

  /** The same, but another process continues it. */
  leave(reason?: unknown): boolean {
    return this.#goTo('left', reason);
  }

  #goTo(state: JobState, error?: unknown): boolean {
    if (this.isOver) return false;
    this.#state = state;
    this.#turn.abort();
    this.#over.abort(error);
    return true;
  }

  /** It is over, and no journal has it. */
  drop(): void {
    this.end();
    this.#settle();
  }
}

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

/**
 * A request that is computed whether anybody listens or not. Its tokens go to its token log, which its clients read and the
 * journal writes. The job also makes text of its own tokens, because a stop string may end it.
 */
export class DurableJob implements Journalled {
  readonly job: Job;
  readonly entry: JournalEntry;
  readonly record: JobRecord;
  readonly log: TokenLog;
  readonly #events: DurableJobEvents;
  #parking: ParkingRecord | undefined;
  #isParkingWritten = true;
  /** Whether the journal has a parking record, which the next one replaces. */
  #hasParkingRecord: boolean;
  #numWritten: number;
  /** Its tokens when it was begun last. */
  #numBefore = 0;
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
    job: Job,
    entry: JournalEntry,
    { record, content, endedMs, parking, numDeaths }: KeptJob,
    events: DurableJobEvents,
  ) {
    this.job = job;
    this.entry = entry;
    this.record = record;
    this.log = new TokenLog(content);
    this.#events = events;
    this.#numWritten = content.tokenIds.length;
    this.#pieceFrom = this.#numWritten;
    this.#endedMs = endedMs;
    this.#isEndWritten = endedMs !== undefined;
    this.#parking = parking;
    this.#hasParkingRecord = parking !== undefined;
    this.#numDeaths = numDeaths;
  }

  /** Same as KeptJob.numDeaths, until a token comes. */
  get numDeaths(): number {
    return this.#numDeaths;
  }

  /** Milliseconds since 1970; undefined while the job has not ended. */
  get endedMs(): number | undefined {
    return this.#endedMs;
  }

  /** Whether it has a token since it was begun last. */
  get hasProgress(): boolean {
    return this.log.length > this.#numBefore;
  }

  /** When it was last parked or resumed, or began: milliseconds since 1970. */
  get sinceMs(): number {
    return this.#parking?.sinceMs ?? this.record.createdMs;
  }

  /** The numerics id of the runner that computed the last token, or of the one that the job was begun for. */
  get numericsId(): string {
    return this.log.content.continuations.at(-1)?.numericsId ?? this.record.numericsId;
  }

  /**
   * Notes that this process is about to compute the job, which must be written before begin(): without it nobody would know of
   * which job a gateway died.
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

  /**
   * Has the runner compute the rest. Throws the runner's GenerationError, and what ended the job; it has then not begun.
   * vocabulary: needed if the request has a grammar.
   */
  begin(runner: Runner, tokenizer: Tokenizer, vocabulary: VocabularyFrames | undefined): void {
    this.job.run();
    const { turn } = this.job;
    const { request, thinkingLimit: facts, thinking, markIds, stop, endsAtTimeLimit } = this.record;
    const { tokenIds } = this.log.content;
    const known = tokenIds.slice();
    this.#numBefore = known.length;
    const resumed =
      known.length === 0 ? {} : { resumeFrom: { tokenIds: known, numericsId: this.numericsId } };
    const recorded: Pick<Runner, 'generate'> = {
      generate: (asked, sink): GenerationHandle => runner.generate(asked, this.#recording(sink, turn)),
    };
    const limit = facts && { thinkingLimit: thinkingLimit(facts, tokenizer) };
    const asked = { ...request, ...resumed, ...limit, ...(vocabulary === undefined ? {} : { vocabulary }) };
    const partial = endsAtTimeLimit ? new PartialAnswers() : undefined;
    const marks = markIds && marksOfIds(markIds, tokenizer);
    const options = { tokenizer, thinking, marks, stop, minTokens: request.minTokens, partial };
    let text: TextStream;
    try {
      text = new TextStream(recorded, asked, options, {
        onPart: ({ end }) => {
          if (end !== undefined) this.#onTextEnd(end);
        },
        onError: (error) => this.#onRefused(generationErrorOf(error)),
      });
    } catch (error) {
      this.job.wait();
      throw error;
    }
    this.#text = text;
    // The tokens that are already known go through the same text stream, since a stop string may begin in them.
    if (known.length > 0) text.onTokens({ firstIndex: 0, tokenIds: known });
  }

  /** Takes the job from its runner, which keeps nothing of it. Returns false if it neither waits nor runs. */
  park(): boolean {
    if (!this.job.park()) return false;
    this.#text?.cancel('parked');
    this.#text = undefined;
    this.#noteParking(true);
    this.noteStop();
    return true;
  }

  /** Returns false if it is not parked. */
  resume(): boolean {
    if (!this.job.resume()) return false;
    this.#noteParking(false);
    this.#events.onNews(this);
    return true;
  }

  /** The journal has a parked job as one that is parked, also when this process leaves it to the next one. */
  #noteParking(isParked: boolean): void {
    this.#parking = { isParked, sinceMs: this.#events.now() };
    this.#isParkingWritten = false;
  }

  /** Ends the job with this error, unless it has ended. */
  fail(error: GenerationError): void {
    if (this.#hasEnded) return;
    this.#endedMs = this.#events.now();
    this.log.end({ kind: 'error', error });
    this.#text?.cancel();
    this.#onEnd(error);
  }

  /** Stops the job here without an end: another process will continue it. Its readers are told. */
  suspend(): void {
    if (this.#endedMs !== undefined) return;
    this.job.leave();
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
    if (this.job.state !== 'running') return;
    this.job.wait();
    if (this.#events.onRefused(this, error)) this.noteStop();
    else this.fail(error);
  }

  /** A job that was cancelled before the journal had it is over, and has no end yet. */
  get #hasEnded(): boolean {
    return this.#endedMs !== undefined || this.job.state === 'left';
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
    let isPromised = false;
    if (this.#parking !== undefined && !this.#isParkingWritten && this.#endedMs === undefined) {
      const write: Write = { type: 'put', key: parkingKey(this.entry), value: packParking(this.#parking) };
      if (this.#hasParkingRecord) numReplacedBytes += bytesOf(write);
      writes.push(write);
      this.#hasParkingRecord = true;
      isPromised = true;
    }
    this.#isParkingWritten = true;
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
      return { writes, numReplacedBytes, end: undefined, isPromised };
    const end: EndRecord = { end: content.end, endedMs: this.#endedMs };
    writes.push({ type: 'put', key: endKey(this.entry), value: packEnd(end) });
    this.#isEndWritten = true;
    return { writes, numReplacedBytes, end, isPromised: end.end.kind === 'error' };
  }

  onEndKept(): void {
    this.#events.onEndKept(this);
  }

  /** A sink that puts each batch of the job's turn into the log before its text is looked at. */
  #recording(sink: TokenSink, turn: AbortSignal): TokenSink {
    return {
      onTokens: (batch: TokenBatch) => {
        if (turn.aborted) return;
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
    if (this.job.isOver) return;
    this.#endedMs = this.#events.now();
    if (reason !== 'time_limit') this.log.end({ kind: 'enough' });
    else this.log.append({ firstIndex: numTokens, tokenIds: [], finish: reason });
    this.#onEnd();
  }

  #onEnd(error?: GenerationError): void {
    this.job.end(error);
    this.#onProgress();
    this.#events.onNews(this);
    this.#events.onEnd(this);
  }
}

/** The error as one that clients may see. */
export function generationErrorOf(error: unknown): GenerationError {
  if (error instanceof GenerationError) return error;
  const message = 'Internal error in the gateway; its log has the details.';
  return new GenerationError('INFERENCE_FAILED', message, { retriable: false, cause: error });
}

/** A job id is chosen by the client and may be too long for a line of the log. */
export function shortened(id: string): string {
  return id.slice(0, 128);
}
