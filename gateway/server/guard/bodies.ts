import type { Context, MiddlewareHandler } from 'hono';
import { ApiError } from '../../errors/api-error.ts';
import type { Caller } from '../../system/caller.ts';
import { ByteBudget, overloaded } from './byte-budget.ts';
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
 * with a Content-Length counts in full before it is read; a chunked body counts as it is read.
 */
export function boundBodies({ maxBodyBytes, maxBodyBytesInFlight }: BodyLimits): MiddlewareHandler {
  const budget = new ByteBudget(maxBodyBytesInFlight, 'request bodies');
  return async (c, next) => {
    let heldBytes = 0;
    const caller = sharerOf(c);
    const hold = (bytes: number): void => {
      assertQuota(caller, budget.heldBy(caller) + bytes);
      budget.hold(caller, bytes);
      heldBytes += bytes;
    };
    try {
      const length = lengthOf(c);
      if (length === undefined) {
        const body = await readChunks(c, maxBodyBytes, hold);
        c.req.raw = new Request(c.req.raw, { body });
      } else {
        if (length > maxBodyBytes) throw tooLarge(maxBodyBytes);
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
): Promise<Uint8Array<ArrayBuffer>> {
  // The chunks are copied into one buffer: a client may send single bytes, and a list of those would take far more
  // memory.
  let buffer = new Uint8Array(0);
  let length = 0;
  for await (const chunk of c.req.raw.body ?? []) {
    if (length + chunk.length > maxBytes) throw tooLarge(maxBytes);
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

function tooLarge(maxBytes: number): ApiError {
  const message = `The body has more than ${maxBytes} bytes, which is the limit.`;
  return new ApiError({ status: 413, code: 'body_too_large', message });
}
