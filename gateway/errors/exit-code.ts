/** Exit statuses of every command, numbered as in sysexits.h; a runner's are the same (docs/protocol.md). */
export const ExitCode = {
  ok: 0,
  /** The address to listen on is taken. */
  bindFailed: 1,
  /** A flag or its value. */
  usage: 64,
  /** A model file that is damaged or of a kind that is not supported. */
  badModel: 65,
  /** A file that is not there. */
  noFile: 66,
  /** Something outside that is needed does not answer. */
  unavailable: 69,
  /** A broken promise inside the program. */
  internal: 70,
  /** The operating system refused something. */
  system: 71,
  /** A file that may not be read. */
  noPermission: 77,
} as const;

/** A command line that cannot be obeyed; the message says why and how it is meant, in a line for each fault. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** UsageError for all of these sentences, if there are any. */
export function refuse(faults: readonly string[]): void {
  if (faults.length > 0) throw new UsageError(faults.join('\n'));
}

/** Something that a command needs does not answer; the message says what. */
export class UnavailableError extends Error {
  override readonly name = 'UnavailableError';
}
