/** What was thrown, as an error: anything can be thrown. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** The message of what was thrown. */
export function messageOf(thrown: unknown): string {
  return asError(thrown).message;
}

/** What caused it, if it says so; otherwise itself. */
export function causeOf(thrown: unknown): unknown {
  return thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown;
}

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

const codes: readonly (string | undefined)[] = ['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN'];

/** Whether an error says that the machine had no descriptors, memory, processes or threads left, which may soon be over. */
export function isShortage(error: unknown): boolean {
  if (error instanceof UnavailableError) return true;
  return codes.includes(errorCodeOf(error));
}

/** A model file that cannot be used. The message is a sentence that names the path and the fault. */
export class ModelFileError extends Error {
  override readonly name = 'ModelFileError';
  /** As in sysexits.h: 65 damaged or not supported, 66 not there or not a regular file, 77 not readable. */
  readonly exitCode: 65 | 66 | 77;

  constructor(exitCode: 65 | 66 | 77, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

export function errorCodeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
