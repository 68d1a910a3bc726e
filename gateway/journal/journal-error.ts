/** A journal cannot be used at all. The message is a sentence that names the folder and says what to do. */
export class JournalError extends Error {
  override readonly name = 'JournalError';
}

/** A journal cannot be opened now, because the disk is full or does not answer. Nothing in it is lost. */
export class JournalUnavailable extends Error {
  override readonly name = 'JournalUnavailable';
}

/**
 * What is kept of a job is not whole, so that no version can read it. Records that cannot be read for another reason have been
 * written by another version, or the disk does not answer.
 */
export class DamagedJob extends Error {
  override readonly name = 'DamagedJob';
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

/** What the system says of a disk that is full or does not answer. LevelDB passes the sentence on, and no code. */
const PASSING: Readonly<Record<string, string>> = {
  ENOSPC: 'No space left on device',
  EDQUOT: 'Disk quota exceeded',
  EIO: 'Input/output error',
};

/** The reason why a disk refused something that it may do later; undefined for any other error. */
export function passingReasonOf(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { message } = cause;
    const code = 'code' in cause ? cause.code : undefined;
    for (const [name, sentence] of Object.entries(PASSING))
      if (code === name || message.endsWith(sentence)) return sentence;
  }
  return undefined;
}
