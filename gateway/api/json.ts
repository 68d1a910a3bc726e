import type { Context } from 'hono';
import { parse } from 'lossless-json';
import { ApiError } from './error.ts';

/**
 * JSON bodies, read without loss: integers that a JavaScript number would round arrive as bigint, so that a 64-bit
 * seed is the one the client sent. Everything that is wrong with a body before its fields are looked at ends here.
 */

/** Brackets a body may nest; the parser recurses, and no request needs more. */
const MAX_JSON_DEPTH = 64;

export const JSON_TYPE = 'application/json';

export async function readJson(c: Context): Promise<unknown> {
  requireMediaType(c, [JSON_TYPE]);
  return parseJson(await c.req.text());
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

export function parseJson(text: string): unknown {
  if (nestsDeeperThan(text, MAX_JSON_DEPTH)) {
    throw invalidJson(`it nests deeper than ${MAX_JSON_DEPTH} brackets`);
  }
  try {
    return parse(text, null, parseNumber);
  } catch (error) {
    throw invalidJson(error instanceof Error ? error.message : String(error));
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

/** Digits of the largest 64-bit integer; making a bigint of very many takes seconds. */
const MAX_INTEGER_DIGITS = 20;

/** A bigint for an integer of up to 20 digits that a number would round; else a number, as everywhere in JavaScript. */
function parseNumber(text: string): number | bigint {
  const value = Number(text);
  const isLong = text.length > MAX_INTEGER_DIGITS + 1 || !/^-?\d+$/.test(text);
  return isLong || Number.isSafeInteger(value) ? value : BigInt(text);
}

function nestsDeeperThan(text: string, limit: number): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (inString) {
      if (char === '\\') i++;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = true;
    else if (char === '[' || char === '{') {
      if (++depth > limit) return true;
    } else if (char === ']' || char === '}') depth--;
  }
  return false;
}
