import { ApiError } from '../../errors/api-error.ts';

/** Room for so many bytes of one kind, shared by all requests. */
export class ByteBudget {
  readonly limit: number;
  readonly #kind: string;
  #heldBytes = 0;

  /** kind: what they are, in the words of a message. */
  constructor(limit: number, kind: string) {
    this.limit = limit;
    this.#kind = kind;
  }

  /** 503 where there is no room. */
  hold(bytes: number): void {
    if (this.#heldBytes + bytes > this.limit) {
      const message = `${this.#heldBytes} bytes of ${this.#kind} are held; ${bytes} more would exceed the limit of ${this.limit}.`;
      throw new ApiError({ status: 503, code: 'overloaded', message, retriable: true, retryAfterSec: 1 });
    }
    this.#heldBytes += bytes;
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes;
  }
}
