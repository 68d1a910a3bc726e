/** Why a model cannot be fetched: a sentence, and what to do about it. */
export class PullError extends Error {
  override readonly name = 'PullError';
  /**
   * 65: not the bytes that were asked for. 66: there is no such file. 69: something outside is missing or does not
   * answer. 71: the system refused.
   */
  readonly exitCode: 65 | 66 | 69 | 71;

  constructor(exitCode: 65 | 66 | 69 | 71, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** What the file system refused as a PullError; anything else as it is. */
export function asSystemFault(name: string, folder: string, error: unknown): unknown {
  if (!(error instanceof Error) || !('code' in error)) return error;
  return new PullError(71, `Fetching ${name} into ${folder} failed: ${error.message}.`, { cause: error });
}
