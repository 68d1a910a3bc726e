import { ApiError, shown } from '../../errors/api-error.ts';

/**
 * Reads a form (multipart/form-data, RFC 7578) piece by piece, so that a file in it may have any length: a piece and the end of the
 * one before are in memory.
 */

const CRLF = '\r\n';
const MAX_HEADER_BYTES = 8192;
const MAX_PARTS = 32;
const MAX_VALUE_BYTES = 1024;
const MAX_FILENAME_CHARACTERS = 255;

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
  const boundary = boundaryOf(contentType);
  const reader = new MarkReader(body);
  const delimiter = Buffer.from(`${CRLF}--${boundary}`);
  await reader.passUntil(delimiter, ignore);
  for (let numParts = 0; (await reader.take(2)) === CRLF; numParts += 1) {
    if (numParts === MAX_PARTS) throw broken(`it has more than ${MAX_PARTS} parts`);
    const header = await reader.textUntil(Buffer.from(CRLF + CRLF), MAX_HEADER_BYTES);
    const { name, filename } = dispositionOf(header);
    if (filename === undefined) parts.field(name, await reader.textUntil(delimiter, MAX_VALUE_BYTES));
    else await reader.passUntil(delimiter, await parts.file(name, filename));
  }
  await reader.drain();
}

const ignore = async (): Promise<void> => {};

function boundaryOf(contentType: string): string {
  const [, quoted, plain] =
    /^multipart\/form-data *;.*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType) ?? [];
  const boundary = quoted ?? plain;
  if (boundary !== undefined) return boundary;
  const got = contentType === '' ? 'no Content-Type' : `Content-Type "${shown(contentType)}"`;
  const message = `This endpoint reads multipart/form-data with a boundary; the request has ${got}.`;
  throw new ApiError({ status: 415, code: 'unsupported_media_type', message });
}

/** The names in a part's header. filename: undefined if the part is no file. */
function dispositionOf(header: string): { readonly name: string; readonly filename: string | undefined } {
  const line = header.split(CRLF).find((each) => /^content-disposition:/i.test(each)) ?? '';
  const name = /;\s*name="([^"]*)"/i.exec(line)?.[1];
  if (name === undefined) throw broken('a part has no name');
  const filename = /;\s*filename="([^"]*)"/i.exec(line)?.[1];
  return { name, filename: filename?.replaceAll('%22', '"').slice(0, MAX_FILENAME_CHARACTERS) };
}

function broken(why: string): ApiError {
  return new ApiError({ status: 400, code: 'invalid_form', message: `The form is not valid: ${why}.` });
}

/** Reads bytes up to marks. */
class MarkReader {
  readonly #pieces: AsyncIterator<Uint8Array>;
  /** The form begins with its first delimiter, whose newline is missing there. */
  #rest: Buffer = Buffer.from(CRLF);

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#pieces = body[Symbol.asyncIterator]();
  }

  /** Passes on what is before the mark, and goes behind it. */
  async passUntil(mark: Buffer, pass: (bytes: Uint8Array) => Promise<void>): Promise<void> {
    for (;;) {
      const at = this.#rest.indexOf(mark);
      // The mark may have begun at the end.
      const numSure = at >= 0 ? at : Math.max(0, this.#rest.length - mark.length + 1);
      if (numSure > 0) await pass(this.#rest.subarray(0, numSure));
      this.#rest = this.#rest.subarray(at >= 0 ? at + mark.length : numSure);
      if (at >= 0) return;
      await this.#more();
    }
  }

  async textUntil(mark: Buffer, maxBytes: number): Promise<string> {
    let text = Buffer.alloc(0);
    await this.passUntil(mark, async (bytes) => {
      if (text.length + bytes.length > maxBytes)
        throw broken(`a header or a field has more than ${maxBytes} bytes`);
      text = Buffer.concat([text, bytes]);
    });
    return text.toString();
  }

  async take(numBytes: number): Promise<string> {
    while (this.#rest.length < numBytes) await this.#more();
    const taken = this.#rest.subarray(0, numBytes).toString('latin1');
    this.#rest = this.#rest.subarray(numBytes);
    return taken;
  }

  async drain(): Promise<void> {
    while ((await this.#pieces.next()).done !== true) {}
  }

  async #more(): Promise<void> {
    const { done, value } = await this.#pieces.next();
    if (done === true) throw broken('it ends before its last delimiter');
    this.#rest = Buffer.concat([this.#rest, value]);
  }
}
