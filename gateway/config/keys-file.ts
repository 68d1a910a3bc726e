import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { UsageError } from '../errors/exit-code.ts';
import { ANONYMOUS, type Caller } from '../system/caller.ts';

const MIN_KEY_CHARACTERS = 16;
const MAX_KEY_CHARACTERS = 256;
const MAX_FILE_BYTES = 2 ** 20;
const MAX_SHARES = 1000;

/** A line of a keys file. */
export interface KeyLine {
  readonly key: string;
  readonly caller: Caller;
  /** The line and its file, for messages. */
  readonly place: string;
}

const count = z
  .string()
  .regex(/^[1-9]\d{0,14}$/, 'must be a whole number from 1 on')
  .transform(Number);

/** The quotas of a caller, by the names of their fields. */
const QUOTAS = {
  'max-open-requests': 'openRequests',
  'max-queued-tokens': 'queuedTokens',
  'max-body-bytes': 'bodyBytes',
  'max-journal-jobs': 'journalJobs',
  'max-journal-bytes': 'journalBytes',
} as const satisfies Record<string, keyof NonNullable<Caller['quotas']>>;

/** What may follow a key on its line, as NAME=VALUE. */
const fieldsSchema = z
  .strictObject({
    name: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,64}$/, 'must be 1 to 64 letters, digits, dots, underscores and hyphens')
      .refine((name) => name !== ANONYMOUS.name && !/^(key|admin)-\d+$/.test(name), {
        message: 'is reserved: choose one other than "anonymous", "key-N" and "admin-N"',
      }),
    shares: count.refine((shares) => shares <= MAX_SHARES, { message: `must be at most ${MAX_SHARES}` }),
    ...Object.fromEntries(Object.keys(QUOTAS).map((field) => [field, count])),
  })
  .partial();

const FIELDS = Object.keys(fieldsSchema.shape).join(', ');

/**
 * Reads a key from each line, with what follows it: its caller's name, shares and quotas. Lines that begin with # are
 * comments. Throws UsageError if others may read the file or if it has anything else in it. The message never contains a key,
 * nor a value, which may be a key in the wrong place. kind: begins the names of callers that have none.
 */
export function readKeysFile(path: string, kind: 'key' | 'admin' = 'key'): KeyLine[] {
  const lines = readPrivately(path).split('\n');
  const keys = lines.flatMap((line, index) => {
    const text = line.trim();
    if (text === '' || text.startsWith('#')) return [];
    return [readLine(text, `Line ${index + 1} of the keys file ${path}`, `${kind}-${index + 1}`)];
  });
  if (keys.length === 0) {
    throw new UsageError(`The keys file ${path} has no key. \`openssl rand -hex 32\` makes one.`);
  }
  return keys;
}

function readLine(line: string, place: string, unnamed: string): KeyLine {
  const [key = '', ...pairs] = line.split(/\s+/);
  if (!/^[\x21-\x7e]+$/.test(key) || key.length < MIN_KEY_CHARACTERS || key.length > MAX_KEY_CHARACTERS) {
    throw new UsageError(
      `${place} does not begin with a key: a key has ${MIN_KEY_CHARACTERS} to ${MAX_KEY_CHARACTERS} visible ASCII characters. \`openssl rand -hex 32\` makes one.`,
    );
  }
  const fields: Record<string, string> = {};
  for (const [index, pair] of pairs.entries()) {
    const [, name = '', value = ''] = /^([a-z-]+)=(.*)$/.exec(pair) ?? [];
    if (!Object.hasOwn(fieldsSchema.shape, name))
      throw new UsageError(
        `${place}: word ${index + 2} is not a field of a key. After a key come fields NAME=VALUE, separated by spaces: ${FIELDS}.`,
      );
    if (Object.hasOwn(fields, name)) throw new UsageError(`${place} has "${name}" twice; keep one of them.`);
    fields[name] = value;
  }
  const parsed = fieldsSchema.safeParse(fields);
  if (parsed.success) return { key, caller: callerOf(parsed.data, unnamed), place };
  const [fault] = parsed.error.issues;
  throw new UsageError(`${place}: ${fault?.path.join('.')} ${fault?.message}.`);
}

function callerOf({ name, shares = 1, ...given }: z.output<typeof fieldsSchema>, unnamed: string): Caller {
  const quotas = Object.entries(given).map(([field, value]) => [QUOTAS[field as keyof typeof QUOTAS], value]);
  const caller = { name: name ?? unnamed, shares };
  return quotas.length === 0 ? caller : { ...caller, quotas: Object.fromEntries(quotas) };
}

/**
 * Throws UsageError if a name stands for callers with different shares or quotas. Several keys of one name are keys of one
 * caller.
 */
export function requireOneCallerPerName(lines: readonly KeyLine[]): void {
  const first = new Map<string, KeyLine>();
  for (const line of lines) {
    const { name } = line.caller;
    const before = first.get(name);
    if (before === undefined) first.set(name, line);
    else if (!isDeepStrictEqual(before.caller, line.caller))
      throw new UsageError(
        `${line.place} gives the caller "${name}" other shares or quotas than ${before.place.replace(/^L/, 'l')}; give both lines the same.`,
      );
  }
}

function readPrivately(path: string): string {
  // Without O_NONBLOCK, opening a FIFO would wait until somebody writes to it.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new UsageError(`The keys file ${path} is not a regular file.`);
    const mode = stats.mode & 0o777;
    if ((mode & (isCredential(path) ? 0o037 : 0o077)) !== 0) {
      throw new UsageError(
        `The keys file ${path} is open to users other than its owner (mode ${mode.toString(8)}); run \`chmod 600 ${path}\`.`,
      );
    }
    if (stats.size > MAX_FILE_BYTES) {
      throw new UsageError(
        `The keys file ${path} has ${stats.size} bytes; at most ${MAX_FILE_BYTES} are read.`,
      );
    }
    return readFileSync(fd, 'utf8');
  } finally {
    closeSync(fd);
  }
}

/** systemd's LoadCredential= gives the service's user access by an access list, which shows as the group's right in the mode. */
function isCredential(path: string): boolean {
  return dirname(path) === process.env.CREDENTIALS_DIRECTORY;
}
