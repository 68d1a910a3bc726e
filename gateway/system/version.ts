import { readFileSync } from 'node:fs';

let known: string | undefined;

/** Of this program, as its package says. */
export function version(): string {
  if (known !== undefined) return known;
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  known = (JSON.parse(text) as { version: string }).version;
  return known;
}
