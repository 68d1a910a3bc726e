import type { Context, MiddlewareHandler } from 'hono';
import { ApiError } from '../../errors/api-error.ts';
import { ByteBudget } from './byte-budget.ts';

export interface BodyLimits {
  /** Bytes a request body may have. */
  readonly maxBodyBytes: number;
  /** Bytes that all bodies may have together, from the header of a request to its answer. At least maxBodyBytes. */
  readonly maxBodyBytesInFlight: number;
}

/**
 * Refuses a request whose body is too long, or would make more of all bodies be held at once than there is room for. A body
 * counts as long as its header says, before it is read; one that comes in chunks, as much as was read of it.
 */
export function boundBodies({ maxBodyBytes, maxBodyBytesInFlight }: BodyLimits): MiddlewareHandler {
  const budget = new ByteBudget(maxBodyBytesInFlight, 'request bodies');
  return async (c, next) => {
    let heldBytes = 0;
    const hold = (bytes: number): void => {
      budget.hold(bytes);
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
      budget.release(heldBytes);
    }
  };
}

/** Undefined for a body that comes in chunks. Node refuses a length that is no number, two of them, and one beside chunks. */
function lengthOf(c: Context): number | undefined {
  if (c.req.method === 'GET' || c.req.method === 'HEAD') return 0;
  const length = c.req.header('content-length');
  if (length !== undefined) return Number(length);
  return c.req.raw.body === null ? 0 : undefined;
}

/** hold: told before more memory is taken, and may throw. What is taken is at most twice what was read. */
async function readChunks(
  c: Context,
  maxBytes: number,
  hold: (bytes: number) => void,
): Promise<Uint8Array<ArrayBuffer>> {
  // Not a list of the chunks: a client may send them byte by byte.
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

function tooLarge(maxBytes: number): ApiError {
  const message = `The body has more than ${maxBytes} bytes, which is the limit.`;
  return new ApiError({ status: 413, code: 'body_too_large', message });
}
