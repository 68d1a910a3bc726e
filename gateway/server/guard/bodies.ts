import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Context, MiddlewareHandler } from 'hono';
import { ApiError } from '../../errors/api-error.ts';
import type { Caller } from '../../system/caller.ts';
import { SharedLimit } from '../../system/fair-shares.ts';
import { sharerOf } from './caller.ts';

export interface BodyLimits {
  /** The longest request body, in bytes. */
  readonly maxBodyBytes: number;
  /** Bytes of all bodies together, each counted from the header of its request to its answer. At least maxBodyBytes. */
  readonly maxBodyBytesInFlight: number;
}

/**
 * Refuses a request whose body is too long (413), or for which all bodies together, or those of its caller, would exceed
 * their limit (503). A body
 * with a Content-Length counts in full before it is read; a chunked body counts as it is read. streamed: the paths whose routes read
 * bodies of any length piece by piece, and bound them.
 */
export function boundBodies(
  { maxBodyBytes, maxBodyBytesInFlight }: BodyLimits,
  streamed: readonly string[] = [],
): MiddlewareHandler {
  const budget = new ByteBudget(maxBodyBytesInFlight, 'request bodies');
  return async (c, next) => {
    if (streamed.includes(c.req.path)) return next();
    let heldBytes = 0;
    const caller = sharerOf(c);
    const maxBytes = Math.min(maxBodyBytes, caller.quotas?.bodyBytes ?? maxBodyBytes);
    const tooLarge = (): ApiError => tooLargeFor(caller, maxBytes, maxBodyBytes);
    const hold = (bytes: number): void => {
      assertQuota(caller, budget.heldBy(caller) + bytes);
      budget.hold(caller, bytes);
      heldBytes += bytes;
    };
    try {
      const length = lengthOf(c);
      if (length === undefined) {
        const body = await readChunks(c, maxBytes, hold, tooLarge);
        c.req.raw = new Request(c.req.raw, { body });
      } else {
        if (length > maxBytes) throw tooLarge();
        hold(length);
      }
      await next();
    } finally {
      budget.release(caller, heldBytes);
    }
  };
}

/**
 * Undefined for a chunked body. Node itself refuses a length that is no number, two lengths, and a length with a chunked
 * body.
 */
function lengthOf(c: Context): number | undefined {
  if (c.req.method === 'GET' || c.req.method === 'HEAD') return 0;
  const length = c.req.header('content-length');
  if (length !== undefined) return Number(length);
  return c.req.raw.body === null ? 0 : undefined;
}

/** hold: called before more memory is taken; may throw. The memory taken is at most twice the bytes read. */
async function readChunks(
  c: Context,
  maxBytes: number,
  hold: (bytes: number) => void,
  tooLarge: () => ApiError,
): Promise<Uint8Array<ArrayBuffer>> {
  // The chunks are copied into one buffer: a client may send single bytes, and a list of those would take far more
  // memory.
  let buffer = new Uint8Array(0);
  let length = 0;
  for await (const chunk of c.req.raw.body ?? []) {
    if (length + chunk.length > maxBytes) throw tooLarge();
    if (length + chunk.length > buffer.length) {
      const grown = Math.min(maxBytes, Math.max(length + chunk.length, 2 * buffer.length));
      hold(grown - buffer.length);
      const larger = new Uint8Array(grown);
      larger.set(buffer.subarray(0, length));
      buffer = larger;
    }
    buffer.set(chunk, length);
    length += chunk.length;
  }
  return buffer.subarray(0, length);
}

/** numBytes: what the bodies of the caller would take together. */
function assertQuota({ name, quotas }: Caller, numBytes: number): void {
  const { bodyBytes = Number.POSITIVE_INFINITY } = quotas ?? {};
  if (numBytes <= bodyBytes) return;
  throw overloaded(
    `The request bodies of the caller "${name}" would take ${numBytes} bytes together, more than its quota of ${bodyBytes} (max-body-bytes in the keys file). Try again later.`,
  );
}

/** maxBytes: the limit of the caller's bodies, which may be less than that of all. */
function tooLargeFor({ name }: Caller, maxBytes: number, maxBodyBytes: number): ApiError {
  const whose = `the quota of the caller "${name}" (max-body-bytes in the keys file)`;
  const message = `The body has more than ${maxBytes} bytes, which is ${maxBytes < maxBodyBytes ? whose : 'the limit'}.`;
  return new ApiError({ status: 413, code: 'body_too_large', message });
}

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

/**
 * Closes the connection after an answer whose request body was not read, so that the client need not send the rest of it.
 */
export const closeUnread: MiddlewareHandler = async (c, next) => {
  await next();
  const incoming = incomingOf(c);
  if (incoming === undefined || !hasBody(incoming) || incoming.complete) return;
  // After one more turn of the event loop, a body that came in one packet with its header is complete.
  await nextTurn();
  if (!incoming.complete) c.header('connection', 'close');
};

/** Undefined for a request without a socket. */
function incomingOf(c: Context): IncomingMessage | undefined {
  return (c.env as { incoming?: IncomingMessage } | undefined)?.incoming;
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
