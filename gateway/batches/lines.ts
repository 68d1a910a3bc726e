import { open } from 'node:fs/promises';
import * as z from 'zod';

/** The lines of a batch's input: read from its file, and checked before the first is answered. */

/** The most lines of a batch. Empty ones do not count. */
export const maxLines = 50_000;
const MAX_ID_CHARACTERS = 512;
/** The most faults that a batch lists. */
const MAX_FAULTS = 100;
const PIECE_BYTES = 2 ** 16;
const NEWLINE = 10;
/** Some editors write it in front of a text. */
const BYTE_ORDER_MARK = Buffer.from('\uFEFF');

export interface Line {
  /** From 1 on; empty lines count here. */
  readonly number: number;
  readonly bytes: Buffer;
  /** Whether it is longer than the limit. `bytes` then has its beginning. */
  readonly isLong: boolean;
}

/** Reads a file of any size with one line in memory. Lines without text, and a byte order mark in front, are left out. */
export async function* readLines(path: string, maxLineBytes: number): AsyncGenerator<Line> {
  const file = await open(path, 'r');
  try {
    let number = 0;
    let parts: Buffer[] = [];
    let length = 0;
    const add = (part: Buffer): void => {
      if (length <= maxLineBytes) parts.push(Buffer.from(part));
      length += part.length;
    };
    const take = (): Line[] => {
      number += 1;
      const whole = Buffer.concat(parts);
      const isMarked = number === 1 && whole.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
      const bytes = isMarked ? whole.subarray(BYTE_ORDER_MARK.length) : whole;
      const line = { number, bytes, isLong: length > maxLineBytes };
      parts = [];
      length = 0;
      return line.bytes.toString().trim() === '' ? [] : [line];
    };
    const piece = Buffer.alloc(PIECE_BYTES);
    for (;;) {
      const { bytesRead } = await file.read(piece, 0, PIECE_BYTES);
      if (bytesRead === 0) break;
      let from = 0;
      for (let at = piece.indexOf(NEWLINE); at >= 0 && at < bytesRead; at = piece.indexOf(NEWLINE, from)) {
        add(piece.subarray(from, at));
        from = at + 1;
        yield* take();
      }
      add(piece.subarray(from, bytesRead));
    }
    if (length > 0) yield* take();
  } finally {
    await file.close();
  }
}

export interface LineFault {
  readonly code: string;
  readonly message: string;
  readonly param: string | null;
  readonly line: number | null;
}

const requestSchema = z.object({
  custom_id: z.string().min(1).max(MAX_ID_CHARACTERS),
  method: z.literal('POST'),
  url: z.string(),
  body: z.record(z.string(), z.unknown()),
});

/** A line as its batch needs it; the body is read again by its route. */
export type LineRequest = z.output<typeof requestSchema>;

/** parse: reads JSON, and throws for what is none. */
export function parseLine(
  { bytes, isLong, number }: Line,
  { endpoint, maxLineBytes, parse }: LineRules,
): LineRequest | LineFault {
  const fault = (code: string, message: string, param: string | null = null): LineFault => {
    return { code, message: `Line ${number}: ${message}`, param, line: number };
  };
  if (isLong)
    return fault(
      'line_too_long',
      `it has more than ${maxLineBytes} bytes, the limit of a body (--max-body-bytes).`,
    );
  let value: unknown;
  try {
    value = parse(bytes);
  } catch {
    return fault('invalid_json_line', 'it is not valid JSON in UTF-8.');
  }
  const { success, data, error } = requestSchema.safeParse(value);
  if (!success) {
    const param = String(error.issues[0]?.path[0] ?? '');
    if (param === '') return fault('invalid_json_line', 'it is not a JSON object.');
    const isThere = typeof value === 'object' && value !== null && param in value;
    return isThere
      ? fault('invalid_value', `${param} must be ${FORMS[param]}.`, param)
      : fault('missing_required_parameter', `${param} is missing: it is ${FORMS[param]}.`, param);
  }
  if (data.url !== endpoint)
    return fault('mismatched_endpoint', `url must be ${endpoint}, the endpoint of the batch.`, 'url');
  return data;
}

export interface LineRules {
  readonly endpoint: string;
  readonly maxLineBytes: number;
  readonly parse: (bytes: Buffer) => unknown;
}

const FORMS: Readonly<Record<string, string>> = {
  custom_id: `a string of 1 to ${MAX_ID_CHARACTERS} characters, another one for each line`,
  method: '"POST"',
  url: "the batch's endpoint",
  body: 'an object, the body of the request',
};

/** The number of lines, or what is wrong with them. */
export async function checkLines(path: string, rules: LineRules): Promise<number | readonly LineFault[]> {
  const faults: LineFault[] = [];
  const ids = new Map<string, number>();
  let numLines = 0;
  for await (const line of readLines(path, rules.maxLineBytes)) {
    numLines += 1;
    if (numLines > maxLines) {
      const message = `The file has more than ${maxLines} lines, the limit of a batch: split it, a batch for each part.`;
      return [{ code: 'too_many_lines', message, param: null, line: null }];
    }
    const read = parseLine(line, rules);
    if ('code' in read) faults.push(read);
    else {
      const before = ids.get(read.custom_id);
      if (before !== undefined) {
        const message = `Line ${line.number}: custom_id ${JSON.stringify(read.custom_id)} is that of line ${before} already; each line needs its own.`;
        faults.push({ code: 'duplicate_custom_id', message, param: 'custom_id', line: line.number });
      } else ids.set(read.custom_id, line.number);
    }
    if (faults.length >= MAX_FAULTS) return faults;
  }
  if (numLines > 0) return faults.length > 0 ? faults : numLines;
  const message = 'The file has no lines: each line is a request, as JSON.';
  return [{ code: 'empty_file', message, param: null, line: null }];
}
