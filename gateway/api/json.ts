import { isUtf8 } from 'node:buffer';
import type { Context } from 'hono';
import { ApiError, invalidField, shown } from '../errors/api-error.ts';
import { JsonFault, parseLosslessJson } from '../json/json-parser.ts';
import { JSON_TYPE } from '../json/json-values.ts';
import { isWellFormed } from '../system/printable.ts';
import { turns } from '../system/turns.ts';

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
  try {
    const value = parseLosslessJson(text);
    refuseBrokenText(text, value);
    return value;
  } catch (error) {
    throw error instanceof JsonFault ? invalidJson(error.message) : error;
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
  return invalidField({ code: `invalid_${encoding}`, field: 'body', constraint: encoding, message });
}

const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;

/**
 * Throws a 400 that names the first field of the body with broken text. JSON can escape one half of a surrogate pair, but no text
 * contains such a half, so it would have to be replaced on the way to the model. json: the text that the value was parsed from.
 */
function refuseBrokenText(json: string, value: unknown): void {
  // Only an escape can express half a pair, because the body was valid UTF-8.
  if (!SURROGATE_ESCAPE.test(json)) return;
  const path = pathOfBrokenText(value);
  if (path === undefined) return;
  const field = path.map((name) => shown(name)).join('.') || 'body';
  const message = `${field} has an unpaired surrogate, such as the escape "\\ud83d" alone, which is not valid Unicode text`;
  throw invalidField({ field, constraint: 'unicode', message });
}

type Path = readonly string[];

/** The path to the broken string, or to the object that has a member with a broken name. */
function pathOfBrokenText(value: unknown): Path | undefined {
  if (typeof value === 'string') return isWellFormed(value) ? undefined : [];
  if (typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value)) return pathInList(value);
  for (const [name, member] of Object.entries(value)) {
    if (!isWellFormed(name)) return [];
    const path = pathOfBrokenText(member);
    if (path !== undefined) return [name, ...path];
  }
  return undefined;
}

/** A plain loop: half a million ids take a few milliseconds. */
function pathInList(items: readonly unknown[]): Path | undefined {
  for (let index = 0; index < items.length; index++) {
    const path = pathOfBrokenText(items[index]);
    if (path !== undefined) return [String(index), ...path];
  }
  return undefined;
}
