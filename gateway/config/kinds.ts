import { isIP } from 'node:net';
import * as z from 'zod';
import { Setting } from './setting.ts';

/** The kinds of settings. Each takes the text of a flag or a variable, or the value from a file. */

export function whole(min: number, max: number, value = 'N') {
  return new Setting(wholeBetween(min, max), value);
}

export function seconds(min: number, max: number) {
  return whole(min, max, 'SECONDS');
}

export function bytes(min: number, max: number) {
  return whole(min, max, 'BYTES');
}

function wholeBetween(min: number, max: number) {
  const fault = `must be a whole number between ${min} and ${max}`;
  return z.preprocess(
    (value) => (typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value),
    z.number(fault).refine((value) => Number.isInteger(value) && value >= min && value <= max, fault),
  );
}

/** Takes a number of MiB and gives bytes. "auto" gives undefined. */
export function mebibytes(max: number) {
  const { schema } = wholeOr('auto', undefined, 1, max);
  return new Setting(
    schema.transform((value) => value && value * 2 ** 20),
    'MIB',
  );
}

/** A whole number, or a word that stands for another value. */
export function wholeOr<Meaning>(word: string, meaning: Meaning, min: number, max: number) {
  const schema = z.unknown().transform((value, context): number | Meaning => {
    if (String(value) === word) return meaning;
    const { success, data } = wholeBetween(min, max).safeParse(value);
    if (success) return data;
    context.addIssue(`must be ${word} or a whole number between ${min} and ${max}`);
    return z.NEVER;
  });
  return new Setting(schema, 'N');
}

/** One of these words, or a whole number. */
export function wordOrWhole<const Words extends readonly string[]>(words: Words, min: number, max: number) {
  const schema = z.unknown().transform((value, context): Words[number] | number => {
    for (const kind of [z.enum(words), wholeBetween(min, max)]) {
      const { success, data } = kind.safeParse(value);
      if (success) return data;
    }
    context.addIssue(`must be ${words.join(', ')} or a whole number between ${min} and ${max}`);
    return z.NEVER;
  });
  return new Setting(schema, `${words.join('|')}|N`);
}

export function powerOfTwo(min: number, max: number) {
  const fault = `must be a power of two between ${min} and ${max}`;
  return new Setting(
    wholeBetween(min, max).refine((value) => Number.isInteger(Math.log2(value)), fault),
    'N',
  );
}

export function decimal(min: number, max: number, value: string) {
  return new Setting(decimalBetween(min, max), value);
}

function decimalBetween(min: number, max: number) {
  const fault = `must be a number between ${min} and ${max}`;
  return z.preprocess(
    (value) => (typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value),
    z.number(fault).refine((value) => value >= min && value <= max, fault),
  );
}

/** A decimal above 0. */
export function positive(max: number, value: string) {
  return new Setting(
    decimalBetween(0, max).refine((number) => number > 0, 'must be above 0'),
    value,
  );
}

/** A 64-bit seed: text, because a large number in a JSON file has already been rounded, or a number small enough to be exact. */
export function seed() {
  const fault = 'must be a whole number between 0 and 18446744073709551615, as text if it is above 2^53';
  const schema = z
    .union([z.string(), z.int()], fault)
    .refine((value) => /^\d{1,20}$/.test(String(value)) && BigInt(value) < 2n ** 64n, fault)
    .transform((value) => BigInt(value));
  return new Setting(schema, 'N');
}

export function oneOf<const Words extends readonly string[]>(words: Words) {
  return new Setting(z.enum(words, `must be one of ${words.join(', ')}`), words.join('|'));
}

/** A flag without a value. */
export function toggle() {
  return new Setting(z.boolean().default(false), '');
}

export function onOff() {
  return new Setting(z.enum(['on', 'off'], 'must be on or off'), 'on|off');
}

const notEmpty = z.string('must be text').min(1, 'must not be empty');

/** Text that is not empty. */
export function text(value: string) {
  return new Setting(notEmpty, value);
}

/** what: the texts that the expression matches, in words. */
export function matching(expression: RegExp, what: string, value: string) {
  return new Setting(z.string().regex(expression, `must be ${what}`), value);
}

/** sockaddr_un has room for a path of this length and a terminating zero. */
const MAX_SOCKET_PATH_BYTES = 107;

export function socketPath() {
  const schema = notEmpty.refine(
    (path) => Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES,
    `must be a path of at most ${MAX_SOCKET_PATH_BYTES} bytes`,
  );
  return new Setting(schema, 'PATH');
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

/** A model. missing: the message if there is none. */
export function model(missing: string) {
  const schema = z
    .string({ error: ({ input }) => (input === undefined ? missing : 'must be text') })
    .min(1, 'must not be empty');
  return new Setting(schema, 'MODEL');
}

/** One model or several. A single text is one model, whatever characters it has. missing: the message if there is none. */
export function models(missing: string) {
  const schema = z.preprocess(
    (value) => (Array.isArray(value) && value.length === 1 ? value[0] : value),
    z.unknown().transform((value, context): string | readonly string[] => {
      const { success, data, error } = (
        Array.isArray(value) ? z.array(notEmpty).readonly() : notEmpty
      ).safeParse(value);
      if (success) return data;
      context.addIssue(value === undefined ? missing : (error.issues[0]?.message ?? 'must be text'));
      return z.NEVER;
    }),
  );
  return new Setting(schema, 'MODEL').with({ isList: true });
}

/** A list of at least one number. */
export function wholes(min: number, max: number) {
  const schema = listOf(wholeBetween(min, max)).refine(
    (values) => values.length > 0,
    'must have at least one number',
  );
  return new Setting(schema, 'N,...');
}

export function decimals(min: number, max: number, value: string) {
  return new Setting(listOf(decimalBetween(min, max)), value);
}

/** Names of a model, as clients are configured with. */
export function modelNames() {
  const fault = 'must be names of 1 to 256 characters, such as org/model';
  return new Setting(listOf(z.string(fault).min(1, fault).max(256, fault)), 'NAME,...');
}

/** A list of host names and addresses, in lower case and without ports. */
export function hostNames() {
  const fault = 'must be host names or addresses without ports, such as models.example.org';
  return new Setting(listOf(z.string(fault).toLowerCase().refine(isHost, fault)), 'HOST,...');
}

/** A single host name or address. */
export function hostName() {
  const fault = 'must be a host name or an address without a port, such as 127.0.0.1';
  return new Setting(
    notEmpty.refine((host) => isHost(host.toLowerCase()), fault),
    'HOST',
  );
}

function isHost(host: string): boolean {
  return isIP(host) !== 0 || /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(host);
}

/**
 * The URL of an HTTP server. A password is refused because the list of processes would show it, and port 0 because nothing can
 * answer there.
 */
const urlOfServer = notEmpty.refine((url) => {
  const { protocol, username, password, port } = URL.canParse(url) ? new URL(url) : noUrl;
  return /^https?:$/.test(protocol) && username === '' && password === '' && port !== '0';
}, 'must be an http or https URL without user and password, and with a port other than 0');
const noUrl = { protocol: '', username: '', password: '', port: '' };

export function httpUrl() {
  return new Setting(urlOfServer, 'URL');
}

const urlOfPaths = urlOfServer
  .refine((url) => !/[?#]/.test(url), 'must be a URL without a query and without a fragment')
  .transform(withoutSlashesAtEnd);

/** A URL to which clients append a path. */
export function baseUrl() {
  return new Setting(urlOfPaths, 'URL');
}

/** The same, or a word. */
export function baseUrlOr<const Word extends string>(word: Word) {
  const fault = `must be ${word}, or an http or https URL without user, password, query and fragment, and with a port other than 0`;
  return new Setting(z.union([z.literal(word), urlOfPaths], fault), `URL|${word}`);
}

/** The URL of a server, or unix: and the path of its socket. */
export function serverUrl() {
  const socket = z.string().regex(/^unix:.+$/);
  return new Setting(z.union([socket, urlOfPaths], 'must be an http or https URL, or unix:PATH'), 'URL');
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
  return new Setting(listOf(z.string(fault).refine(isOriginPattern, fault)), 'ORIGIN,...');
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
