import { ApiError } from '../../errors/api-error.ts';
import type { Caller } from '../../system/caller.ts';
import { SharedLimit } from '../../system/shared-limit.ts';

/** A limit on bytes of one kind that the requests of all callers hold together. */
export class ByteBudget {
  readonly #kind: string;
  readonly #shared: SharedLimit;

  /** kind: the bytes' name in error messages, such as "request bodies". */
  constructor(limit: number, kind: string) {
    this.#kind = kind;
    this.#shared = new SharedLimit(limit);
  }

  get limit(): number {
    return this.#shared.limit;
  }

  heldBy(caller: Caller): number {
    return this.#shared.heldBy(caller);
  }

  /** Throws ApiError 503 if there is no room for the caller. */
  hold(caller: Caller, bytes: number): void {
    if (!this.#shared.hasRoom(caller, bytes)) {
      throw overloaded(
        `The server is full: ${this.#shared.total} bytes of ${this.#kind} are held, and ${bytes} more would exceed the limit of ${this.limit}. Try again later.`,
      );
    }
    this.#shared.hold(caller, bytes);
  }

  release(caller: Caller, bytes: number): void {
    this.#shared.release(caller, bytes);
  }
}

export function overloaded(message: string): ApiError {
  return new ApiError({ status: 503, code: 'overloaded', message, retriable: true, retryAfterSec: 1 });
}
