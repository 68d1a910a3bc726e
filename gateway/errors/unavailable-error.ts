/** Something could not be done now, for a reason that has nothing to do with the request. Sending it again may help. */
export class UnavailableError extends Error {
  override readonly name = 'UnavailableError';
  readonly retryAfterSec: number;

  constructor(message: string, retryAfterSec: number) {
    super(message);
    this.retryAfterSec = retryAfterSec;
  }
}
