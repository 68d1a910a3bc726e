import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { UsageError } from '../ops/exit-code.ts';

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
