import { isUtf8 } from 'node:buffer';
import type { Context } from 'hono';
import { ApiError } from '../errors/api-error.ts';
import { shown } from '../errors/shown.ts';
import { cooperativeScheduler, inOneStep } from '../system/cooperative-scheduler.ts';
import { refuseBrokenText } from './broken-text.ts';
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
  if (type !== undefined && (type !== JSON_TYPE || isUtf8Type(contentType))) return type;
  const got = contentType === '' ? 'no Content-Type' : `Content-Type "${shown(contentType)}"`;
  const reads = type === undefined ? accepted.join(' and ') : `${type} in UTF-8`;
  throw new ApiError({
    status: 415,
    code: 'unsupported_media_type',
    message: `This endpoint reads ${reads}; the request has ${got}. Send the header "Content-Type: ${accepted[0]}".`,
  });
}

/** JSON between systems is UTF-8 (RFC 8259); a client that says otherwise would not be understood. */
function isUtf8Type(contentType: string): boolean {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(contentType)?.[1];
  return charset === undefined || /^utf-?8$/i.test(charset);
}

/** A long body waits for its turn. */
export async function readJsonText(c: Context): Promise<unknown> {
  const bytes = await c.req.arrayBuffer();
  return cooperativeScheduler.run(
    bytes.byteLength,
    inOneStep(() => parseJson(decodeUtf8(bytes))),
    c.req.raw.signal,
  );
}

export function parseJson(text: string): unknown {
  const value = parse(text);
  refuseBrokenText(text, value);
  return value;
}

function parse(text: string): unknown {
  try {
    return parseLosslessJson(text);
  } catch (error) {
    if (error instanceof JsonFault) throw invalidJson(error.message);
    throw error;
  }
}

/** Not by the body's own text(), which puts another character in the place of bytes that are none. */
function decodeUtf8(bytes: ArrayBuffer): string {
  if (!isUtf8(bytes)) throw invalidJson('it is not UTF-8');
  return new TextDecoder().decode(bytes);
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
