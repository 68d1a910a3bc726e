import { isUtf8 } from 'node:buffer';
import type { Context } from 'hono';
import { ApiError, shown } from '../errors/api-error.ts';
import { JsonFault, parseLosslessJson } from '../json/json-parser.ts';
import { JSON_TYPE } from '../json/json-text.ts';
import { turns } from '../system/turns.ts';
import { refuseBrokenText } from './broken-text.ts';

/**
 * Reads JSON bodies without loss: an integer that a JavaScript number would round arrives as a bigint, so a 64-bit seed
 * is the one that the client sent. Throws a 400 or 415 for a body that cannot be read at all.
 */

/** Longer bodies are parsed in a turn of the event loop of their own. */
const SHORT_BODY_BYTES = 8192;

export async function readJson(c: Context): Promise<unknown> {
  requireMediaType(c, [JSON_TYPE]);
  return readJsonText(c);
}

/** The accepted media type that the request's Content-Type names. Throws a 415 for any other. */
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

/** JSON between systems is UTF-8 (RFC 8259). Another charset would be misread. */
function isUtf8Type(contentType: string): boolean {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(contentType)?.[1];
  return charset === undefined || /^utf-?8$/i.test(charset);
}

/** Reads the body without looking at its Content-Type. */
export async function readJsonText(c: Context): Promise<unknown> {
  return parseJson(decodeUtf8(await readBytes(c)));
}

/** Reads the body. Whoever reads a long one may parse it in this turn of the event loop, in which nobody else does. */
export async function readBytes(c: Context): Promise<ArrayBuffer> {
  const bytes = await c.req.arrayBuffer();
  // Hono would keep the body until the request has been answered.
  c.req.bodyCache = {};
  if (bytes.byteLength > SHORT_BODY_BYTES) await turns.next();
  return bytes;
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

/** The body's own text() would replace invalid bytes by another character. */
function decodeUtf8(bytes: ArrayBuffer): string {
  if (!isUtf8(bytes)) throw invalidJson('it is not UTF-8');
  return new TextDecoder().decode(bytes);
}

function invalidJson(fault: string): ApiError {
  return invalidBody('json', `The body is not valid JSON: ${fault}.`);
}

/** The error for a body that cannot be read at all. encoding: the encoding that it should have. */
export function invalidBody(encoding: string, message: string): ApiError {
  return new ApiError({
    status: 400,
    code: `invalid_${encoding}`,
    message,
    fieldErrors: [{ field: 'body', constraint: encoding, message }],
  });
}
