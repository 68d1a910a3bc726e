import type { Context } from 'hono';
import { parse } from 'lossless-json';
import { ApiError } from './error.ts';

/**
 * JSON bodies, read without loss: integers that a JavaScript number would round arrive as bigint, so that a 64-bit
 * seed is the one the client sent. Everything that is wrong with a body before its fields are looked at ends here.
 */

/** Brackets a body may nest; the parser recurses, and no request needs more. */
const MAX_JSON_DEPTH = 64;

export async function readJson(c: Context): Promise<unknown> {
  const contentType = c.req.header('content-type') ?? '';
  if (!/^application\/json\s*(;|$)/i.test(contentType)) {
    const got = contentType === '' ? 'no Content-Type' : `Content-Type "${contentType}"`;
    throw new ApiError({
      status: 415,
      code: 'unsupported_media_type',
      message: `This endpoint reads application/json; the request has ${got}. Send the header "Content-Type: application/json".`,
    });
  }
  return parseJson(await c.req.text());
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
  const message = `The body is not valid JSON: ${fault}.`;
  return new ApiError({
    status: 400,
    code: 'invalid_json',
    message,
    fieldErrors: [{ field: 'body', constraint: 'json', message }],
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
