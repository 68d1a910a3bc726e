import type { Context, MiddlewareHandler } from 'hono';
import { ApiError } from '../api/error.ts';

export interface BodyLimits {
  /** Bytes a request body may have. */
  readonly maxBodyBytes: number;
  /** Bytes that all bodies may have together, from the header of a request to its answer. At least maxBodyBytes. */
  readonly maxBodyBytesInFlight: number;
}

/**
 * Refuses a request, before its body is read, that could make more of them be held at once than there is room for. A body
 * counts as long as its header says, or as long as it may be where the header does not.
 */
export function boundBodiesInFlight({ maxBodyBytes, maxBodyBytesInFlight }: BodyLimits): MiddlewareHandler {
  let inFlightBytes = 0;
  return async (c, next) => {
    const bytes = Math.min(claimedBytes(c) ?? maxBodyBytes, maxBodyBytes);
    if (inFlightBytes + bytes > maxBodyBytesInFlight) {
      const message = `${inFlightBytes} bytes of request bodies are held; ${bytes} more would exceed the limit of ${maxBodyBytesInFlight}.`;
      throw new ApiError({ status: 503, code: 'overloaded', message, retriable: true, retryAfterSec: 1 });
    }
    inFlightBytes += bytes;
    try {
      await next();
    } finally {
      inFlightBytes -= bytes;
    }
  };
}

/** Undefined where nothing is said. Node refuses a length that is no number, and two of them. */
function claimedBytes(c: Context): number | undefined {
  if (c.req.method === 'GET' || c.req.method === 'HEAD') return 0;
  const length = c.req.header('content-length');
  if (length !== undefined) return Number(length);
  return c.req.raw.body === null ? 0 : undefined;
}
