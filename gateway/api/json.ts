import type { Context } from 'hono';
import { inOneStep, longWork } from '../ops/long-work.ts';
import { ApiError } from './error.ts';
import { JsonFault, parseLosslessJson } from './json-parser.ts';

/**
 * JSON bodies, read without loss: integers that a JavaScript number would round arrive as bigint, so that a 64-bit
 * seed is the one the client sent. Everything that is wrong with a body before its fields are looked at ends here.
 */

export const JSON_TYPE = 'application/json';

export async function readJson(c: Context): Promise<unknown> {
  requireMediaType(c, [JSON_TYPE]);
  return readJsonText(c);
}

/** The one of these media types that the body is said to have, or a 415. */
export function requireMediaType(c: Context, accepted: readonly string[]): string {
  const contentType = c.req.header('content-type') ?? '';
  const name = contentType.split(';', 1)[0]?.trim().toLowerCase();
  const type = accepted.find((known) => known === name);
  if (type !== undefined) return type;
  const got = contentType === '' ? 'no Content-Type' : `Content-Type "${contentType}"`;
  throw new ApiError({
    status: 415,
    code: 'unsupported_media_type',
    message: `This endpoint reads ${accepted.join(' and ')}; the request has ${got}. Send the header "Content-Type: ${accepted[0]}".`,
  });
}

/** A long body waits for its turn. */
export async function readJsonText(c: Context): Promise<unknown> {
  const text = await c.req.text();
  return longWork.run(
    text.length,
    inOneStep(() => parseJson(text)),
    c.req.raw.signal,
  );
}

export function parseJson(text: string): unknown {
  try {
    return parseLosslessJson(text);
  } catch (error) {
    if (error instanceof JsonFault) throw invalidJson(error.message);
    throw error;
  }
}

function invalidJson(fault: string): ApiError {
  return invalidBody('json', `The body is not valid JSON: ${fault}.`);
}

/** A body that cannot be read at all; `encoding` is what it should have been. */
export function invalidBody(encoding: string, message: string): ApiError {
  return new ApiError({
    status: 400,
    code: `invalid_${encoding}`,
    message,
    fieldErrors: [{ field: 'body', constraint: encoding, message }],
  });
}
