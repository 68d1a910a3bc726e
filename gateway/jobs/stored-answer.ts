import type { MergedSink } from '../generation/merge-streams.ts';
import type { AnswerEnd } from '../generation/text-stream.ts';
import type { Journal, Reservation } from '../journal/journal.ts';
import { emptyContent, type JobRecord } from '../journal/records.ts';
import { TokenLog } from '../journal/token-log.ts';
import type { Runner } from '../runner/runner.ts';

/**
 * An answer that its client hears as any other, and that the journal has, whole, before the client hears its end. Until then the
 * journal holds room for it. One that fails, or whose client leaves, is not kept.
 */
export class StoredAnswer {
  readonly createdMs: number;
  readonly #journal: Journal;
  readonly #reservation: Reservation;
  readonly #log: TokenLog;
  readonly #now: () => number;
  readonly #onOver: () => void;
  #state: 'open' | 'ended' | 'lost' = 'open';
  #endedMs: number | undefined;

  /** now: milliseconds since 1970. onOver: called when the journal has the answer, or will not get it. Throws JournalRefusal. */
  constructor(journal: Journal, record: JobRecord, now: () => number, onOver: () => void) {
    this.createdMs = record.createdMs;
    this.#journal = journal;
    this.#reservation = journal.reserve(record);
    this.#log = new TokenLog(emptyContent(record.request));
    this.#now = now;
    this.#onOver = onOver;
  }

  /** Whether the journal has the answer or, before its end, has room for it. */
  get isKept(): boolean {
    return this.#state !== 'lost';
  }

  /** Milliseconds since 1970; undefined while the answer has not ended. */
  get endedMs(): number | undefined {
    return this.#endedMs;
  }

  /** The runner, whose tokens are noted before their text is looked at. */
  noting(runner: Runner): Pick<Runner, 'generate' | 'assertCapacity'> {
    return {
      assertCapacity: (requests) => runner.assertCapacity(requests),
      generate: (request, sink) =>
        runner.generate(request, {
          onTokens: (batch) => {
            this.#log.append(batch);
            sink.onTokens(batch);
          },
          onError: (error) => sink.onError(error),
        }),
    };
  }

  /** The sink, which hears the end of the answer once the journal has it. */
  keptBefore(sink: MergedSink): MergedSink {
    return {
      onPart: (part, index) => {
        if (part.end === undefined) sink.onPart(part, index);
        else
          this.#keep(part.end)
            .then(() => sink.onPart(part, index))
            .catch((thrown) => sink.onError(thrown));
      },
      onError: (thrown) => sink.onError(thrown),
    };
  }

  /** Gives the journal's room back unless the answer has ended. */
  drop(): void {
    if (this.#state !== 'open') return;
    this.#state = 'lost';
    this.#journal.release(this.#reservation.entry);
    this.#onOver();
  }

  async #keep({ reason, numTokens }: AnswerEnd): Promise<void> {
    if (this.#state !== 'open') return;
    this.#state = 'ended';
    // The log has the end already unless the text or a time limit ended the answer.
    if (reason !== 'time_limit') this.#log.end({ kind: 'enough' });
    else this.#log.append({ firstIndex: numTokens, tokenIds: [], finish: reason });
    const { content } = this.#log;
    const { end = { kind: 'enough' } } = content;
    this.#endedMs = this.#now();
    const isKept = await this.#journal.fill(this.#reservation, content, { end, endedMs: this.#endedMs });
    if (!isKept) this.#state = 'lost';
    this.#onOver();
  }
}
