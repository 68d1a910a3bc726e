/** Exit statuses of every command, numbered as in sysexits.h. Runners use the same ones (docs/protocol.md). */
export const ExitCode = {
  ok: 0,
  /** The address to listen on is taken. */
  bindFailed: 1,
  /** What was computed again is not what a receipt says. */
  differs: 3,
  /** Nothing here can compute again what a receipt says. */
  unverifiable: 4,
  /** A flag or its value is wrong. */
  usage: 64,
  /** A model file is damaged, or of a kind that is not supported. */
  badModel: 65,
  /** A file does not exist. */
  noFile: 66,
  /** A service outside that the command needs does not answer. */
  unavailable: 69,
  /** The program broke one of its own promises. */
  internal: 70,
  /** The operating system refused something. */
  system: 71,
  /** A file may not be read. */
  noPermission: 77,
} as const;

/** A command line that cannot be obeyed. The message has a line for each fault: why, and what to write instead. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Throws UsageError with all of these sentences, unless there are none. */
export function refuse(faults: readonly string[]): void {
  if (faults.length > 0) throw new UsageError(faults.join('\n'));
}

/** The server cannot listen where it should. The message says why, and what to do. */
export class BindError extends Error {
  override readonly name = 'BindError';
}
