/** Why a model cannot be fetched: a sentence, and what to do about it. */
export class PullError extends Error {
  override readonly name = 'PullError';
  /** 65: not the bytes that were asked for. 69: something outside is missing or does not answer. 71: the system refused. */
  readonly exitCode: 65 | 69 | 71;

  constructor(exitCode: 65 | 69 | 71, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.exitCode = exitCode;
  }
}
