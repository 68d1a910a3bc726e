import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCodeOf, messageOf } from '../errors/thrown.ts';
import type { Caller } from '../system/caller.ts';
import { type Clock, maxDelayMs, type Timer } from '../system/clock.ts';
import { syncFolder } from '../system/synced-file.ts';
import type { Log } from '../telemetry/log.ts';
import { type BatchEndpoint, type BatchRecord, type BatchStatus, expiryMs, hasEnded } from './batch.ts';
import type { FileStore, FileWriter } from './file-store.ts';
import type { LineSlots } from './line-slots.ts';
import {
  checkLines,
  type Line,
  type LineFault,
  type LineRequest,
  type LineRules,
  parseLine,
  readLines,
} from './lines.ts';
import { type Result, Results } from './results.ts';

/**
 * Takes a batch from one status to the next. What must not be lost is on the disk before anything follows from it:
 *
 * 1. the record of the batch, before its creation is answered, and each status before the work of that status begins;
 * 2. the result of a line, before the durable job of the line is forgotten;
 * 3. the output and the errors, before the record that names them;
 * 4. that record, before the results are removed.
 *
 * So a death at any instruction leaves a step that is done again with the same result: a line without a result finds its job, or asks
 * anew; files that are written again replace what there was of them.
 */

/** Milliseconds before what the disk refused is tried again, and the most before a line is sent again. */
const retryMs = 10_000;

/** A request to the route of a line. */
export interface LineCall {
  readonly owner: string;
  readonly sharer: Caller;
  readonly cacheSalt: string;
  readonly endpoint: BatchEndpoint;
  /** The id of its durable job. */
  readonly jobId: string;
  readonly body: LineRequest['body'];
  readonly signal: AbortSignal;
}

export interface LineAnswer {
  readonly status: number;
  readonly requestId: string;
  /** JSON. */
  readonly body: string;
  /** Milliseconds after which the line may be sent again; undefined: this is its answer. */
  readonly retryAfterMs: number | undefined;
}

/** Answers lines as their routes do. */
export interface LineRoutes {
  /** The name of the model that this body asks; the same name for all that name no model. */
  modelOf(body: LineRequest['body']): string;
  /** Never rejects. */
  answer(call: LineCall): Promise<LineAnswer>;
  /** Ends the job of a line and forgets it, if there is one. */
  forget(call: Pick<LineCall, 'owner' | 'jobId'>): Promise<void>;
  /** Reads a line as a route reads a body. Throws for what is no JSON. */
  readonly parse: LineRules['parse'];
}

export interface BatchRunDeps {
  readonly folder: string;
  readonly files: FileStore;
  readonly slots: LineSlots;
  readonly routes: LineRoutes;
  readonly maxLineBytes: number;
  readonly log: Log;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly clock: Clock;
  /** Writes the record. */
  readonly keep: (record: BatchRecord) => Promise<void>;
}

type Ending = NonNullable<BatchRecord['ending']>;

/** What a line without a result says in the errors. */
const UNANSWERED = {
  cancelled: ['batch_cancelled', 'The batch was cancelled before this line was answered.'],
  expired: ['batch_expired', 'This line was not answered within the completion window.'],
  completed: ['internal_error', 'This line was not answered.'],
} as const;

export class BatchRun {
  #record: BatchRecord;
  readonly #deps: BatchRunDeps;
  #results: Results | undefined;
  /** Aborted when no more lines are to be answered. */
  readonly #over = new AbortController();
  /** Aborted when this process ends. */
  readonly #stopped = new AbortController();
  /** For each wait under way: a function that ends it. */
  readonly #waits = new Set<() => void>();
  /** The change of the status under way. The next one begins after it. */
  #changing: Promise<unknown> = Promise.resolve();
  readonly done: Promise<void>;

  constructor(record: BatchRecord, deps: BatchRunDeps) {
    this.#record = record;
    this.#deps = deps;
    this.done = this.#run().catch((error) => this.#tell(error));
  }

  /** Its record as it is now, with the counts of its results. */
  get record(): BatchRecord {
    if (this.#results === undefined || hasEnded(this.#record)) return this.#record;
    const [numCompleted, numFailed] = [this.#results.count('output'), this.#results.count('error')];
    return { ...this.#record, numCompleted, numFailed };
  }

  /** When this resolves, the cancel is kept. Returns false if it comes too late. */
  async cancel(): Promise<boolean> {
    const isFirst = await this.#reach(['validating', 'in_progress'], 'cancelling', { ending: 'cancelled' });
    if (isFirst) this.#end();
    return this.#record.ending === 'cancelled';
  }

  /** Leaves the batch to the next process. Resolves when nothing of it is being done. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#end();
    await this.done;
  }

  #end(): void {
    this.#over.abort();
    for (const wake of [...this.#waits]) wake();
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }

  async #run(): Promise<void> {
    const { files, folder, log } = this.#deps;
    const path = resultsPath(folder, this.#record.id);
    const results = await this.#insist(() => Results.open(path));
    this.#results = results;
    files.hold(this.#record.sharer, results.numBytes);
    try {
      if (this.#record.status === 'validating') await this.#untilOver(() => this.#validate());
      if (this.#record.status === 'in_progress') await this.#answerLines(results);
      const { ending } = this.#record;
      if (ending !== undefined) await this.#finalize(results, ending);
    } finally {
      await results.close();
    }
    if (!hasEnded(this.#record)) return;
    await this.#insist(() => rm(path, { force: true }));
    files.release(this.#record.sharer, results.numBytes);
    const { id, status, numLines, numCompleted, numFailed } = this.#record;
    const counts = { lines: numLines, completed: numCompleted, failed: numFailed };
    log.info({ event: 'batch_end', batch_id: id, status, ...counts });
  }

  /** Logs an error that is in nobody's plan. The stop of the process is one of those that are. */
  #tell(error: unknown): void {
    if (!this.#isStopped)
      this.#deps.log.error({ event: 'batch_failed', batch_id: this.#record.id, err: error });
  }

  /** Resolves also if the action fails because no more lines are to be answered. */
  async #untilOver(action: () => Promise<void>): Promise<void> {
    await action().catch((error) => {
      if (!this.#over.signal.aborted) throw error;
    });
  }

  async #validate(): Promise<void> {
    const found = await this.#insist(() => checkLines(this.#inputPath, this.#rules), this.#over.signal);
    if (typeof found === 'number') await this.#reach(['validating'], 'in_progress', { numLines: found });
    else await this.#reach(['validating'], 'failed', { faults: [...found] });
  }

  async #answerLines(results: Results): Promise<void> {
    const { clock, folder, now } = this.#deps;
    await this.#insist(() => syncFolder(folder));
    const timer: { current?: Timer } = {};
    const expire = (): void => {
      const leftMs = expiryMs(this.#record) - now();
      if (leftMs <= 0) this.#end();
      else timer.current = clock.after(Math.min(leftMs, maxDelayMs), expire);
    };
    expire();
    try {
      await this.#answerRest(results);
    } finally {
      timer.current?.cancel();
    }
    this.#stopped.signal.throwIfAborted();
    const isWhole = results.count('output') + results.count('error') === this.#record.numLines;
    const isExpired = !isWhole && this.#over.signal.aborted;
    await this.#reach(['in_progress'], 'finalizing', { ending: isExpired ? 'expired' : 'completed' });
  }

  /** Resolves when each line has its result, or when no more lines are to be answered. */
  async #answerRest(results: Results): Promise<void> {
    const open = new Set<Promise<void>>();
    const { signal } = this.#over;
    /** The number of the last line that was begun. */
    let last = 0;
    const beginAll = async (): Promise<void> => {
      for await (const line of readLines(this.#inputPath, this.#deps.maxLineBytes)) {
        if (line.number <= last || results.has(line.number)) continue;
        const request = parseLine(line, this.#rules);
        const release = await this.#placeFor(request);
        if (release === undefined) return;
        last = line.number;
        const answered = this.#answerLine(line, request, results)
          .catch((error) => {
            // The others go on, and this one is told of in the errors.
            if (!signal.aborted) this.#tell(error);
          })
          .finally(() => {
            open.delete(answered);
            release();
          });
        open.add(answered);
      }
    };
    await this.#untilOver(() => this.#insist(beginAll, signal));
    await Promise.all(open);
  }

  /**
   * Waits until the results have room, and then for a place, which is given back by what this resolves with. Resolves with undefined
   * if no more lines are to be answered.
   */
  async #placeFor(request: LineRequest | LineFault): Promise<(() => void) | undefined> {
    const { files, routes, slots } = this.#deps;
    const model = 'code' in request ? '' : routes.modelOf(request.body);
    await this.#insist(async () => files.requireRoom(this.#record.sharer, 1), this.#over.signal);
    return slots.take(this.#record, model, this.#over.signal);
  }

  /** Resolves when the line has its result, or when no more lines are to be answered. */
  async #answerLine(line: Line, request: LineRequest | LineFault, results: Results): Promise<void> {
    const { routes } = this.#deps;
    const { owner, sharer, cacheSalt, endpoint } = this.#record;
    // Somebody has changed the file since it was checked.
    if ('code' in request)
      return this.#add(results, {
        number: line.number,
        kind: 'error',
        text: this.#unanswered(line, request),
      });
    const jobId = this.#jobIdOf(line);
    const { signal } = this.#over;
    const call = { owner, sharer, cacheSalt, endpoint, jobId, body: request.body, signal };
    while (!signal.aborted) {
      const answer = await routes.answer(call);
      if (signal.aborted) return;
      if (answer.retryAfterMs !== undefined) {
        await this.#insist(() => routes.forget(call), signal);
        await this.#wait(Math.min(retryMs, answer.retryAfterMs));
        continue;
      }
      await this.#add(results, this.#resultOf(line, request, answer));
      return this.#insist(() => routes.forget(call), signal);
    }
  }

  /** There was room when the line was begun: what is computed is kept. */
  async #add(results: Results, result: Result): Promise<void> {
    await this.#insist(() => results.add(result), this.#over.signal);
    this.#deps.files.hold(this.#record.sharer, Results.bytesOf(result));
  }

  #resultOf({ number }: Line, { custom_id }: LineRequest, answer: LineAnswer): Result {
    const { status, requestId, body } = answer;
    const response = `{"status_code":${status},"request_id":${JSON.stringify(requestId)},"body":${body}}`;
    return {
      number,
      kind: status === 200 ? 'output' : 'error',
      // Between the tokens of JSON, a newline means nothing.
      text: this.#textOf(number, custom_id, response.replaceAll('\n', ''), 'null'),
    };
  }

  #textOf(number: number, customId: string, response: string, error: string): string {
    const id = JSON.stringify(`batch_req_${this.#record.id.slice('batch_'.length)}-${number}`);
    return `{"id":${id},"custom_id":${JSON.stringify(customId)},"response":${response},"error":${error}}`;
  }

  /** What a line without an answer says in the errors. */
  #unanswered(line: Line, { code, message }: Pick<LineFault, 'code' | 'message'>): string {
    const request = parseLine(line, this.#rules);
    const customId = 'code' in request ? '' : request.custom_id;
    return this.#textOf(line.number, customId, 'null', JSON.stringify({ code, message }));
  }

  /** Writes output and errors, in the order of the input. */
  async #finalize(results: Results, ending: Ending): Promise<void> {
    const files = await this.#insist(() => this.#writeFiles(results, ending));
    await this.#reach(['finalizing', 'cancelling'], ending, files);
  }

  async #writeFiles(results: Results, ending: Ending): Promise<Partial<BatchRecord>> {
    const { owner } = this.#record;
    const output = new Later(() => this.#begin('output'));
    const errors = new Later(() => this.#begin('errors'));
    const [code, message] = UNANSWERED[ending];
    try {
      for await (const line of this.#finalLines(results)) {
        this.#stopped.signal.throwIfAborted();
        // The job of a line that has no result, or one that a death has left.
        await this.#deps.routes.forget({ owner, jobId: this.#jobIdOf(line) });
        const result = await results.read(line.number);
        if (result !== undefined) {
          await (result.kind === 'output' ? output : errors).write(result.text);
          continue;
        }
        await errors.write(this.#unanswered(line, { code, message }));
      }
      const [outputFileId, errorFileId] = [await output.keep(), await errors.keep()];
      return { outputFileId, errorFileId, numCompleted: output.numLines, numFailed: errors.numLines };
    } catch (error) {
      await output.discard();
      await errors.discard();
      throw error;
    }
  }

  /** The lines of the input. If it is gone, those that have a result. */
  async *#finalLines(results: Results): AsyncGenerator<Line> {
    // A batch that was cancelled before its lines were counted has none.
    if (this.#record.numLines === 0) return;
    try {
      yield* readLines(this.#inputPath, this.#deps.maxLineBytes);
    } catch (error) {
      if (errorCodeOf(error) !== 'ENOENT') throw error;
      for (const number of results.numbers) yield { number, bytes: Buffer.alloc(0), isLong: false };
    }
  }

  /** Files that an earlier process has written have the same ids and are replaced. */
  async #begin(what: 'output' | 'errors'): Promise<FileWriter> {
    const { id, owner, sharer } = this.#record;
    const file = { id: `file-${id.slice('batch_'.length)}-${what}`, owner, sharer };
    const { files } = this.#deps;
    const before = files.find([owner], file.id);
    if (before !== undefined) await files.delete(before);
    return files.begin({ ...file, filename: `${id}_${what}.jsonl`, purpose: 'batch_output' });
  }

  get #inputPath(): string {
    return this.#deps.files.pathOf({ id: this.#record.inputFileId });
  }

  get #rules(): LineRules {
    const { maxLineBytes, routes } = this.#deps;
    return { endpoint: this.#record.endpoint, maxLineBytes, parse: routes.parse };
  }

  #jobIdOf({ number }: Line): string {
    return `${this.#record.id}-${number}`;
  }

  /** Goes on to the status from one of these. Returns false if the batch has another one. */
  #reach(
    from: readonly BatchStatus[],
    status: BatchStatus,
    facts: Partial<BatchRecord> = {},
  ): Promise<boolean> {
    const change = this.#changing.then(async () => {
      if (!from.includes(this.#record.status)) return false;
      const reachedMs = { ...this.#record.reachedMs, [status]: this.#deps.now() };
      const next = { ...this.#record, ...facts, status, reachedMs };
      await this.#insist(() => this.#deps.keep(next));
      this.#record = next;
      return true;
    });
    this.#changing = change.catch(() => {});
    return change;
  }

  /**
   * Tries again what the disk refuses, or what has no room, until it succeeds. Throws when the signal aborts, by default when this
   * process ends.
   */
  async #insist<Value>(action: () => Promise<Value>, signal = this.#stopped.signal): Promise<Value> {
    for (let isFirst = true; ; isFirst = false) {
      signal.throwIfAborted();
      try {
        return await action();
      } catch (error) {
        signal.throwIfAborted();
        const msg = `A batch waits, and tries again every ${retryMs / 1000} s: ${messageOf(error)}`;
        if (isFirst) this.#deps.log.error({ event: 'batch_waits', batch_id: this.#record.id, msg });
        await this.#wait(retryMs);
      }
    }
  }

  #wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        timer.cancel();
        this.#waits.delete(wake);
        resolve();
      };
      const timer = this.#deps.clock.after(delayMs, wake);
      this.#waits.add(wake);
    });
  }
}

/** A file that is there only if it has a line. */
class Later {
  readonly #begin: () => Promise<FileWriter>;
  #file: FileWriter | undefined;
  numLines = 0;

  constructor(begin: () => Promise<FileWriter>) {
    this.#begin = begin;
  }

  async write(line: string): Promise<void> {
    this.#file ??= await this.#begin();
    await this.#file.write(Buffer.from(`${line}\n`));
    this.numLines += 1;
  }

  async keep(): Promise<string | undefined> {
    return (await this.#file?.keep())?.id;
  }

  async discard(): Promise<void> {
    await this.#file?.discard();
  }
}

/** Where the results of a batch are until it has ended. */
export function resultsPath(folder: string, id: string): string {
  return join(folder, `${id}.results`);
}
