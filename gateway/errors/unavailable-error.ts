/**
 * Something that a request or a command needs is not there now, for a reason that has nothing to do with what was asked. Asking again
 * may help. The message says what it is.
 */
export class UnavailableError extends Error {
  override readonly name = 'UnavailableError';
  /** Undefined: nobody knows when. */
  readonly retryAfterSec: number | undefined;

  constructor(message: string, retryAfterSec?: number) {
    super(message);
    this.retryAfterSec = retryAfterSec;
  }
}

const codes: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN'];

/** Whether an error says that the machine had no descriptors, memory, processes or threads left, which may soon be over. */
export function isShortage(error: unknown): boolean {
  if (error instanceof UnavailableError) return true;
  return error instanceof Error && 'code' in error && codes.includes(error.code);
}
