import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { UsageError } from '../errors/exit-code.ts';

/** What Node has in the place of bytes that are not UTF-8, and what a text may as well hold itself. */
const REPLACEMENT = '\uFFFD';

/**
 * UsageError where one of the arguments is no text. args: the last ones of this process. Where the kernel does not tell what they
 * were (without /proc), they are taken as they are; so they are behind npx, which has replaced them itself.
 */
export function requireTextArguments(args: readonly string[]): void {
  if (!args.some((arg) => arg.includes(REPLACEMENT))) return;
  const raw = rawArguments().slice(-args.length);
  if (raw.length < args.length) return;
  const broken = args.find((_, i) => !isUtf8(raw[i] as Buffer));
  if (broken === undefined) return;
  throw new UsageError(
    `The argument ${JSON.stringify(broken)} is not UTF-8 text: write it in UTF-8, or put it into a file.`,
  );
}

/** Each ends with a zero byte. */
function rawArguments(): Buffer[] {
  let line: Buffer;
  try {
    line = readFileSync('/proc/self/cmdline');
  } catch {
    return [];
  }
  const args: Buffer[] = [];
  for (let begin = 0, end = line.indexOf(0); end >= 0; begin = end + 1, end = line.indexOf(0, begin))
    args.push(line.subarray(begin, end));
  return args;
}

/** The text of a file. UsageError where it is none: what is not UTF-8 would be read as another text than was meant. */
export function readTextFile(file: string): string {
  const bytes = readFileSync(file);
  if (!isUtf8(bytes)) throw new UsageError(`The file ${file} is not UTF-8 text; convert it to UTF-8 first.`);
  return bytes.toString('utf8');
}

/** UsageError for what is no text although it is a string, as JSON can write it. `what` begins the sentence. */
export function requireText(what: string, text: string): void {
  const half = /\p{Surrogate}/u.exec(text)?.[0];
  if (half === undefined) return;
  const code = half.charCodeAt(0).toString(16);
  throw new UsageError(`${what} holds \\u${code}, one half of a surrogate pair: that is no character.`);
}
