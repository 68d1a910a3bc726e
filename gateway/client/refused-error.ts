import { ExitCode } from '../errors/exit-code.ts';

/** A server's answer whose status is no success. The message is a sentence with what the server said. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }

  /** The exit status that says what has to change: the caller's rights, the request, or the server. */
  get exitCode(): number {
    if (this.status === 401 || this.status === 403) return ExitCode.noPermission;
    const isBusy = this.status === 408 || this.status === 429;
    return this.status >= 400 && this.status < 500 && !isBusy ? ExitCode.usage : ExitCode.unavailable;
  }
}
