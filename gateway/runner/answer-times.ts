/** How a request came to its first token. */
export interface FirstOutput {
  /** Tokens of the prompt that were found in the KV cache and not computed. */
  readonly numCachedTokens: number;
  /** Microseconds from the admission until the first step that computed for the request. */
  readonly queuedUs: number;
  /** Microseconds from then to the first token, by the runner's clock. */
  readonly prefillUs: number;
}

/** What the times of an answer need of a batch of its tokens. */
interface TimedBatch {
  readonly tokenIds: readonly number[];
  readonly first?: FirstOutput;
  readonly isResumed?: true;
}

/** When the parts of one answer came. All times are of one clock, in milliseconds. */
export class AnswerTimes {
  readonly admittedMs: number;
  /** How the runner came to the first token. */
  first: FirstOutput | undefined;
  /** When the first tokens came, and how many these were. */
  firstMs: number | undefined;
  numFirstTokens = 0;
  /** When the last tokens came, and the time between them and those before. */
  lastMs = 0;
  gapMs: number | undefined;
  /** The time in which the answer waited for another runner to continue it. */
  resumePauseMs = 0;
  endMs: number | undefined;

  constructor(admittedMs: number) {
    this.admittedMs = admittedMs;
  }

  onTokens({ first, tokenIds, isResumed }: TimedBatch, nowMs: number): void {
    if (first !== undefined) this.first ??= first;
    if (tokenIds.length === 0) return;
    if (this.firstMs === undefined) {
      this.firstMs = nowMs;
      this.numFirstTokens = tokenIds.length;
    } else {
      this.gapMs = nowMs - this.lastMs;
      if (isResumed) this.resumePauseMs += this.gapMs;
    }
    this.lastMs = nowMs;
  }
}
