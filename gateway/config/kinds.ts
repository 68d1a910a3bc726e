import { isIP } from 'node:net';
import * as z from 'zod';

/** The kinds of settings. Each schema takes the text of a flag or a variable, or the value from a file. */

export function whole(min: number, max: number) {
  const fault = `must be a whole number between ${min} and ${max}`;
  return z.preprocess(
    (value) => (typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value),
    z.number(fault).refine((value) => Number.isInteger(value) && value >= min && value <= max, fault),
  );
}

/** Takes a number of MiB and gives bytes. "auto" gives undefined. */
export function mebibytes(max: number) {
  return wholeOr('auto', undefined, 1, max).transform((value) =>
    value === undefined ? undefined : value * 2 ** 20,
  );
}

/** A whole number, or a word that stands for another value. */
export function wholeOr<Meaning>(word: string, meaning: Meaning, min: number, max: number) {
  return z.unknown().transform((value, context): number | Meaning => {
    if (String(value) === word) return meaning;
    const { success, data } = whole(min, max).safeParse(value);
    if (success) return data;
    context.addIssue(`must be ${word} or a whole number between ${min} and ${max}`);
    return z.NEVER;
  });
}

export function powerOfTwo(min: number, max: number) {
  const fault = `must be a power of two between ${min} and ${max}`;
  return whole(min, max).refine((value) => Number.isInteger(Math.log2(value)), fault);
}

export function decimal(min: number, max: number) {
  const fault = `must be a number between ${min} and ${max}`;
  return z.preprocess(
    (value) => (typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value),
    z.number(fault).refine((value) => value >= min && value <= max, fault),
  );
}

/** A 64-bit seed: text, because a large number in a JSON file has already been rounded, or a number small enough to be exact. */
export function seed() {
  const fault = 'must be a whole number between 0 and 18446744073709551615, as text if it is above 2^53';
  return z
    .union([z.string(), z.int()], fault)
    .refine((value) => /^\d{1,20}$/.test(String(value)) && BigInt(value) < 2n ** 64n, fault)
    .transform((value) => BigInt(value));
}

/** Text that is not empty. */
export function text() {
  return z.string('must be text').min(1, 'must not be empty');
}

/** sockaddr_un has room for a path of this length and a terminating zero. */
const MAX_SOCKET_PATH_BYTES = 107;

export function socketPath() {
  return text().refine(
    (path) => Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES,
    `must be a path of at most ${MAX_SOCKET_PATH_BYTES} bytes`,
  );
}

function listOf<Item extends z.ZodType>(item: Item) {
  return z.preprocess((value) => {
    const parts = typeof value === 'string' ? [value] : value;
    if (!Array.isArray(parts)) return value;
    return parts.flatMap((part: unknown) =>
      typeof part === 'string' ? part.split(',').map((name) => name.trim()) : [part],
    );
  }, z.array(item, 'must be a list of texts').readonly());
}

/** One model or several. A single text is one model, whatever characters it has. missing: the message if there is none. */
export function models(missing: string) {
  const one = z.string('must be text').min(1, 'must not be empty');
  return z.preprocess(
    (value) => (Array.isArray(value) && value.length === 1 ? value[0] : value),
    z.unknown().transform((value, context): string | readonly string[] => {
      const { success, data, error } = (Array.isArray(value) ? z.array(one).readonly() : one).safeParse(
        value,
      );
      if (success) return data;
      context.addIssue(value === undefined ? missing : (error.issues[0]?.message ?? 'must be text'));
      return z.NEVER;
    }),
  );
}

/** A list of at least one number. */
export function wholes(min: number, max: number) {
  return listOf(whole(min, max)).refine((values) => values.length > 0, 'must have at least one number');
}

export function decimals(min: number, max: number) {
  return listOf(decimal(min, max));
}

/** Names of a model, as clients are configured with. */
export function modelNames() {
  const fault = 'must be names of 1 to 256 characters, such as org/model';
  return listOf(z.string(fault).min(1, fault).max(256, fault));
}

/** A list of host names and addresses, in lower case and without ports. */
export function hostNames() {
  const fault = 'must be host names or addresses without ports, such as models.example.org';
  return listOf(z.string(fault).toLowerCase().refine(isHost, fault));
}

/** A single host name or address. */
export function hostName() {
  const fault = 'must be a host name or an address without a port, such as 127.0.0.1';
  return text().refine((host) => isHost(host.toLowerCase()), fault);
}

function isHost(host: string): boolean {
  return isIP(host) !== 0 || /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(host);
}

/**
 * The URL of an HTTP server. A password is refused because the list of processes would show it, and port 0 because nothing can
 * answer there.
 */
export function httpUrl() {
  return text().refine((url) => {
    const { protocol, username, password, port } = URL.canParse(url) ? new URL(url) : noUrl;
    return /^https?:$/.test(protocol) && username === '' && password === '' && port !== '0';
  }, 'must be an http or https URL without user and password, and with a port other than 0');
}

const noUrl = { protocol: '', username: '', password: '', port: '' };

/** A URL to which clients append a path. */
export function baseUrl() {
  const fault = 'must be a URL without a query and without a fragment';
  return httpUrl()
    .refine((url) => !/[?#]/.test(url), fault)
    .transform(withoutSlashesAtEnd);
}

function withoutSlashesAtEnd(url: string): string {
  let end = url.length;
  while (url[end - 1] === '/') end -= 1;
  return url.slice(0, end);
}

/** Origins of web pages. A star as the name is refused, since it would let in every page of the web. */
export function origins() {
  const fault =
    'must be origins such as https://chat.example.org; only an origin of this machine may have * as its port, such as http://localhost:*, and only one of an app * as its name, such as app://*';
  return listOf(z.string(fault).refine((origin) => isOriginPattern(origin), fault));
}

/** Origins of applications that are made of web pages. */
const APP_ORIGIN = /^(app|tauri|vscode-webview):\/\/[\w.-]*$/;

/**
 * Whether the text is an origin, or a pattern: `http://localhost:*` for programs on the user's own machine with any port,
 * `app://*` for apps of any name.
 */
export function isOriginPattern(text: string): boolean {
  if (text.endsWith('://*')) return APP_ORIGIN.test(text.slice(0, -1));
  const [, origin = text, host] = /^(https?:\/\/([^/?#@*]+)):\*$/.exec(text) ?? [];
  return isOrigin(origin) && (host === undefined || isLoopback(host.replace(/^\[(.*)\]$/, '$1')));
}

/**
 * Whether the text is an origin exactly as browsers write it: in lower case, without the scheme's default port, and with
 * nothing behind.
 */
export function isOrigin(text: string): boolean {
  if (APP_ORIGIN.test(text)) return true;
  return /^https?:[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/** Whether the address stands for all addresses of this machine. Nobody elsewhere can connect to it. */
export function isUnspecified(host: string): boolean {
  return host === '0.0.0.0' || (isIP(host) === 6 && new URL(`http://[${host}]`).hostname === '[::]');
}
