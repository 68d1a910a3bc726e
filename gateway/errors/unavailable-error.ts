/** Something could not be done now, for a reason that has nothing to do with the request. Sending it again may help. */
export class UnavailableError extends Error {
  override readonly name = 'UnavailableError';
  readonly retryAfterSec: number;

  constructor(message: string, retryAfterSec: number) {
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
