import { createHash } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import * as z from 'zod';
import { ApiError } from '../errors/api-error.ts';
import { jsonText } from '../json/json-text.ts';
import { callerOf, digestOf } from '../server/guard/caller.ts';

/**
 * The header Idempotency-Key: a request that is sent again with the same key gets the job of the first one. It is obeyed where
 * a job is kept, and refused elsewhere, since nothing else can be answered twice alike.
 */

const NAME = 'Idempotency-Key';
/** 1 to 255 characters. */
const PLAIN_KEY = /^[\x21-\x7e]{1,255}$/;
/** The routes that keep a job for some requests, and check the header themselves. */
const KEEPING: readonly string[] = ['/execute', '/v1/responses'];

/** What a job keeps of the header and body of its first request. */
export const idempotencySchema = z.strictObject({
  /** A digest of the key and its caller: the same key of another caller is another one. */
  key: z.string(),
  /** A digest of the body. */
  body: z.string(),
});

export type Idempotency = Readonly<z.output<typeof idempotencySchema>>;

/**
 * Undefined without the header. body: as it was parsed; field: the field that asks for a job to be kept; isKept: whether it
 * does. Throws a 400 for a header that cannot be obeyed.
 */
export function idempotencyOf(
  c: Context,
  body: unknown,
  field: string,
  isKept: boolean,
): Idempotency | undefined {
  const sent = c.req.header(NAME);
  if (sent === undefined) return undefined;
  if (!isKept)
    throw refusal('unsupported_parameter', `${NAME} is not supported here without ${field}; leave it out`);
  if (!PLAIN_KEY.test(sent))
    throw refusal('invalid_request', `${NAME} must have 1 to 255 visible ASCII characters`);
  const digest = createHash('sha256').update(jsonText(body)).digest('hex');
  return { key: Buffer.from(digestOf(`${callerOf(c)} ${sent}`)).toString('hex'), body: digest };
}

/** Throws a 409 if a job was begun with the same key and another body. kept: what the job keeps. */
export function requireSameBody(kept: Idempotency, { body }: Idempotency): void {
  if (kept.body === body) return;
  const message = `${NAME} was sent before with another body; send the same body, or another key`;
  throw new ApiError({ status: 409, code: 'idempotency_key_reused', message, param: NAME });
}

/** A 409 for a request whose twin is being begun. */
export function keyInUse(): ApiError {
  const message = `A request with this ${NAME} is being begun; send it again in a moment.`;
  const options = { status: 409, code: 'idempotency_key_in_use', message, param: NAME } as const;
  return new ApiError({ ...options, retriable: true, retryAfterSec: 1 });
}

/** Refuses the header on routes that keep no job. */
export const refuseIdempotencyKey: MiddlewareHandler = async (c, next) => {
  const isRefused = c.req.method === 'POST' && !KEEPING.includes(c.req.path);
  if (isRefused && c.req.header(NAME) !== undefined)
    throw refusal('unsupported_parameter', `${NAME} is not supported here: no job is kept; leave it out`);
  await next();
};

function refusal(code: string, message: string): ApiError {
  return new ApiError({ status: 400, code, message, param: NAME });
}

/** The most keys whose job ids are remembered. */
const MAX_KEYS = 4096;

/** The job ids that keys came with, so that a key with another job id is known; the oldest are forgotten. */
export class JobIdsOfKeys {
  readonly #jobIds = new Map<string, { readonly jobId: string; readonly idempotency: Idempotency }>();

  /** Throws a 409 if the key came with another job id. */
  require(idempotency: Idempotency, jobId: string): void {
    const known = this.#jobIds.get(idempotency.key);
    if (known !== undefined && known.jobId !== jobId) requireSameBody(known.idempotency, idempotency);
  }

  remember(idempotency: Idempotency, jobId: string): void {
    this.#jobIds.set(idempotency.key, { jobId, idempotency });
    if (this.#jobIds.size <= MAX_KEYS) return;
    for (const oldest of this.#jobIds.keys()) {
      this.#jobIds.delete(oldest);
      break;
    }
  }
}
