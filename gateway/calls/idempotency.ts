import { createHash } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { ApiError } from '../errors/api-error.ts';
import type { Idempotency } from '../journal/records.ts';
import { jsonText } from '../json/json-values.ts';
import { callersOf } from '../server/guard/caller.ts';
import type { Call } from './call.ts';

/**
 * The header by which a request that is sent again gets the job of the first one. It is obeyed where a job is kept, and refused
 * elsewhere, since nothing else can be answered twice alike.
 */
const KEY_HEADER = 'Idempotency-Key';
/** 1 to 255 characters. */
const PLAIN_KEY = /^[\x21-\x7e]{1,255}$/;
/**
 * Undefined without the header. body: as it was parsed; durable: the field that asks for the job to be kept. Throws a 400 for a
 * header that cannot be obeyed.
 */
export function idempotencyOf(c: Context, body: unknown, durable: Call['durable']): Idempotency | undefined {
  const sent = c.req.header(KEY_HEADER);
  if (sent === undefined) return undefined;
  if (durable === undefined)
    throw keyRefusal(
      'unsupported_parameter',
      `${KEY_HEADER} is not supported here without durable; leave it out`,
    );
  if (!PLAIN_KEY.test(sent))
    throw keyRefusal('invalid_request', `${KEY_HEADER} must have 1 to 255 visible ASCII characters`);
  const digest = createHash('sha256').update(jsonText(body)).digest('hex');
  const key = c.get('keyDigests').keptOf(`${callersOf(c)[0]} ${c.req.path} ${sent}`);
  return { key: Buffer.from(key).toString('hex'), body: digest };
}

/** Throws a 409 if a job was begun with the same key and another body. kept: what the job keeps. */
export function requireSameBody(kept: Idempotency, { body }: Idempotency): void {
  if (kept.body === body) return;
  const message = `${KEY_HEADER} was sent before with another body; send the same body, or another key`;
  throw new ApiError({ status: 409, code: 'idempotency_key_reused', message, param: KEY_HEADER });
}

/** Refuses the header on other routes than these, which keep jobs and check it themselves. */
export function refuseIdempotencyKey(keeping: readonly string[]): MiddlewareHandler {
  return async (c, next) => {
    const isRefused = c.req.method === 'POST' && !keeping.includes(c.req.path);
    if (isRefused && c.req.header(KEY_HEADER) !== undefined)
      throw keyRefusal(
        'unsupported_parameter',
        `${KEY_HEADER} is not supported here: no job is kept; leave it out`,
      );
    await next();
  };
}

function keyRefusal(code: string, message: string): ApiError {
  return new ApiError({ status: 400, code, message, param: KEY_HEADER });
}
