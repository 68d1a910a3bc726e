/** A journal cannot be used at all. The message is a sentence that names the folder and says what to do. */
export class JournalError extends Error {
  override readonly name = 'JournalError';
}

/** A journal cannot be opened now, because the disk is full or does not answer. Nothing in it is lost. */
export class JournalUnavailable extends Error {
  override readonly name = 'JournalUnavailable';
}

/**
 * The journal takes no job now. full: until others have been forgotten. unavailable: until it can be opened. failed: until the
 * gateway is started again.
 */
export class JournalRefusal extends Error {
  override readonly name = 'JournalRefusal';
  readonly reason: 'full' | 'unavailable' | 'failed';
  /** Seconds after which a retry may succeed. Undefined if waiting does not help. */
  readonly retryAfterSec: number | undefined;

  constructor(reason: JournalRefusal['reason'], message: string, retryAfterSec?: number) {
    super(message);
    this.reason = reason;
    this.retryAfterSec = retryAfterSec;
  }
}

/** The journal already has a job with this id, or one that this Idempotency-Key began. */
export class JobExistsError extends Error {
  override readonly name = 'JobExistsError';
  readonly by: 'id' | 'key';

  constructor(by: JobExistsError['by'], message: string) {
    super(message);
    this.by = by;
  }
}
