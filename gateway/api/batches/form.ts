import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy';
import { ApiError, shown } from '../../errors/api-error.ts';

/**
 * Reads a form (multipart/form-data, RFC 7578) by @fastify/busboy, piece by piece, so that a file in it may have any length. Its
 * parts are told one after the other.
 */

const MAX_PARTS = 32;
const MAX_VALUE_BYTES = 1024;
const MAX_FILENAME_CHARACTERS = 255;
const LIMITS = { parts: MAX_PARTS, fieldSize: MAX_VALUE_BYTES, headerSize: 8192, headerPairs: 100 };
/** A boundary has 1 to 70 characters. */
const FORM = /^multipart\/form-data *;.*boundary=(?:"[^"]{1,70}"|[^\s;"]{1,70})/i;

export interface FormParts {
  /** A part that is no file. */
  field(name: string, value: string): void;
  /** A part that is a file begins. Returns what takes its bytes. */
  file(name: string, filename: string): Promise<(bytes: Uint8Array) => Promise<void>>;
}

/** Throws a 415 for a body of another type, a 400 for one that is broken, and what `parts` throws. */
export async function readForm(
  contentType: string,
  body: AsyncIterable<Uint8Array>,
  parts: FormParts,
): Promise<void> {
  if (!FORM.test(contentType)) throw notAForm(contentType);
  const reader = new Busboy({ headers: { 'content-type': contentType }, limits: LIMITS });
  /** What has been told of the parts so far. */
  let told: Promise<void> = Promise.resolve();
  const files: BusboyFileStream[] = [];
  const ended = new Promise<void>((resolve, reject) => {
    const next = (tell: () => void | Promise<void>): void => {
      told = told.then(tell);
      told.catch(reject);
    };
    reader.on('field', (name, value, _isNameCut, isCut) =>
      next(() => {
        if (isCut) throw broken(`a field has more than ${MAX_VALUE_BYTES} bytes`);
        parts.field(nameOf(name), value);
      }),
    );
    reader.on('file', (name, file, filename) => {
      // What has come of it may be cut off before its turn.
      files.push(file);
      file.on('error', (error) => reject(broken(error.message)));
      next(() => take(file, nameOf(name), filename, parts));
    });
    reader.on('partsLimit', () => reject(broken(`it has more than ${MAX_PARTS} parts`)));
    reader.on('error', (error) => reject(broken((error as Error).message)));
    reader.on('finish', resolve);
  });
  try {
    await Promise.all([ended, writeAll(body, reader)]);
    await told;
  } catch (error) {
    // Whoever takes a file has ended before its taker is discarded.
    for (const file of files) file.destroy();
    await told.catch(() => {});
    throw error;
  }
}

/** Resolves when the reader has the whole body, which it never has if a file in it is not taken. */
async function writeAll(body: AsyncIterable<Uint8Array>, reader: BusboyInstance): Promise<void> {
  for await (const piece of body) await new Promise((resolve) => reader.write(piece, resolve));
  reader.end();
}

async function take(
  file: BusboyFileStream,
  name: string,
  filename: string | undefined,
  parts: FormParts,
): Promise<void> {
  const write = await parts.file(
    name,
    (filename ?? '').replaceAll('%22', '"').slice(0, MAX_FILENAME_CHARACTERS),
  );
  for await (const bytes of file) await write(bytes as Uint8Array);
}

/** A part may lack its name, whatever busboy's types say. */
function nameOf(name: string | undefined): string {
  if (name === undefined) throw broken('a part has no name');
  return name;
}

function notAForm(contentType: string): ApiError {
  const got = contentType === '' ? 'no Content-Type' : `Content-Type "${shown(contentType)}"`;
  const message = `This endpoint reads multipart/form-data with a boundary; the request has ${got}.`;
  return new ApiError({ status: 415, code: 'unsupported_media_type', message });
}

function broken(why: string): ApiError {
  return new ApiError({ status: 400, code: 'invalid_form', message: `The form is not valid: ${why}.` });
}
