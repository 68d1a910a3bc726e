import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The index of what is promised, made from the names of tests. `node --import tsx test/promises.ts PATTERN` prints the
 * part of it whose files or names contain PATTERN.
 */

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** A file of tests, and what its tests say. */
export interface Promised {
  readonly file: string;
  readonly names: readonly string[];
}

/** Where tests are, and how their names are found. Names in comments and in other strings do not count. */
const KINDS: readonly (readonly [RegExp, (source: string) => string[]])[] = [
  [/\.test\.ts$/, namesOfSuites],
  [/_test\.cc$/, namesOfCases],
  [/^test\/wire\/cases\/.*\.txt$|\.cases\.txt$/, namesOfSections],
  [/^CMakeLists\.txt$/, namesOfPrograms],
];

/** The tests of each file that has some, by folder. */
export function promises(): readonly Promised[] {
  const tests = readdirSync(`${ROOT}test`, { recursive: true, encoding: 'utf8' }).map(
    (path) => `test/${path}`,
  );
  return ['CMakeLists.txt', ...tests.sort()].flatMap((file) => {
    const namesIn = KINDS.find(([form]) => form.test(file))?.[1];
    return namesIn === undefined ? [] : [{ file, names: namesIn(readFileSync(ROOT + file, 'utf8')) }];
  });
}

/** Names of uvu tests: the first argument of a call, at the beginning of a line, of a suite or of its skip(). */
export function namesOfSuites(source: string): string[] {
  const suites = [...source.matchAll(/^\s*const (\w+) = (?:suite|\w+Suite)\b/gm)]
    .map(([, name]) => name)
    .join('|');
  const chosen = source.matchAll(
    new RegExp(`const (\\w+) = .*\\? (?:${suites}) : (?:${suites})\\.skip;`, 'g'),
  );
  const callers = [suites, ...[...chosen].map(([, name]) => name)].join('|');
  const calls = new RegExp(`^[ \\t]*(?:${callers})\\(\\s*(['"\`])((?:\\\\.|(?!\\1).)*)\\1`, 'gm');
  return [...source.matchAll(calls)].map(([, , name = '']) => unescaped(name));
}

/** Names of doctest tests: the text of a TEST_CASE. Adjacent string literals are one text. */
export function namesOfCases(source: string): string[] {
  const cases = /^TEST_CASE\w*\(\s*(?:\w+,\s*)?((?:"(?:\\.|[^"\\])*"\s*)+)/gm;
  const texts = /"((?:\\.|[^"\\])*)"/g;
  return [...source.matchAll(cases)].map(([, parts = '']) =>
    [...parts.matchAll(texts)].map(([, text = '']) => unescaped(text)).join(''),
  );
}

/** Names of cases as text: what stands behind `===`. */
function namesOfSections(source: string): string[] {
  return [...source.matchAll(/^=== (.+)$/gm)].map(([, name = '']) => name);
}

/** Programs that are one test each. */
function namesOfPrograms(source: string): string[] {
  return [...source.matchAll(/^\s*add_test\(NAME "(.*?)"/gm)].map(([, name = '']) => name);
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, '$1');
}

/** The index as text: folders, their files, and what each file's tests say. */
function index(pattern: string): string {
  const lines: string[] = [];
  let folder: string | undefined;
  for (const { file, names } of promises()) {
    const shown = file.includes(pattern) ? names : names.filter((name) => name.includes(pattern));
    if (shown.length === 0) continue;
    if (dirname(file) !== folder) lines.push('', `## ${dirname(file)}`);
    folder = dirname(file);
    lines.push('', `### ${basename(file)}`, '', ...shown.map((name) => `* ${name}`));
  }
  return `${lines.slice(1).join('\n')}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(index(process.argv[2] ?? ''));
