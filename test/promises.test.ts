import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';

/** Each test that promises.md names must exist. */

const test = suite('promises');

const HERE = fileURLToPath(new URL('.', import.meta.url));
const NUM_SCENARIOS = 37;

interface Promised {
  readonly promise: string;
  readonly file: string;
  readonly name: string;
}

function promisesOf(section: string): Promised[] {
  const rows = [...section.matchAll(/^\| (.+?) \| ([\w/-]+): (.+) \|$/gm)];
  assert.is(rows.length, section.split('\n').filter((line) => /^\| (?!promise|scenario)/.test(line)).length);
  return rows.map(([, promise = '', file = '', name = '']) => ({ promise, file, name }));
}

const page = readFileSync(`${HERE}promises.md`, 'utf8');

/** How to find the names of tests in a source. Names in comments and in other strings do not count. */
interface Kind {
  readonly fileOf: (name: string) => string;
  readonly namesIn: (source: string) => string[];
}

const KINDS: readonly Kind[] = [
  { fileOf: (name) => `${HERE}${name}.test.ts`, namesIn: namesOfSuites },
  { fileOf: (name) => `${HERE}${name}.cc`, namesIn: namesOfCases },
  // Exchanges that test/wire plays.
  { fileOf: (name) => `${HERE}${name}.txt`, namesIn: namesOfExchanges },
  // Programs that are one test each.
  { fileOf: (name) => (name === 'ctest' ? `${HERE}../CMakeLists.txt` : ''), namesIn: namesOfPrograms },
];

/**
 * Names of uvu tests: the name of a suite, and the first argument of a call, at the beginning of a line, of a suite or
 * of a variable that is either a suite or its skip().
 */
function namesOfSuites(source: string): string[] {
  const suites = [...source.matchAll(/^\s*const (\w+) = suite\b/gm)].map(([, name]) => name).join('|');
  const chosen = source.matchAll(
    new RegExp(`const (\\w+) = .*\\? (?:${suites}) : (?:${suites})\\.skip;`, 'g'),
  );
  const callers = ['const \\w+ = suite(?:<.*>)?', suites, ...[...chosen].map(([, name]) => name)].join('|');
  const calls = new RegExp(`^[ \\t]*(?:${callers})\\(\\s*(['"\`])((?:\\\\.|(?!\\1).)*)\\1`, 'gm');
  return [...source.matchAll(calls)].map(([, , name = '']) => unescaped(name));
}

/** Names of doctest tests: the text of a TEST_CASE. Adjacent string literals are one text. */
function namesOfCases(source: string): string[] {
  const cases = /^TEST_CASE\w*\(\s*(?:\w+,\s*)?((?:"(?:\\.|[^"\\])*"\s*)+)/gm;
  const texts = /"((?:\\.|[^"\\])*)"/g;
  return [...source.matchAll(cases)].map(([, parts = '']) =>
    [...parts.matchAll(texts)].map(([, text = '']) => unescaped(text)).join(''),
  );
}

/** Names of a wire file: what stands behind `===`. */
function namesOfExchanges(source: string): string[] {
  return [...source.matchAll(/^=== (.+)$/gm)].map(([, name = '']) => name);
}

function namesOfPrograms(source: string): string[] {
  return [...source.matchAll(/^\s*add_test\(NAME "(.*?)"/gm)].map(([, name = '']) => name);
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, '$1');
}

test('every test that is named is there, as a test', () => {
  const promises = promisesOf(page);
  assert.ok(promises.length > 100);
  const missing = promises.filter(({ promise, file, name }) => {
    const kind = KINDS.find(({ fileOf }) => existsSync(fileOf(file)));
    assert.ok(kind, `${promise}: there is no file ${file}`);
    return !kind.namesIn(readFileSync(kind.fileOf(file), 'utf8')).includes(name);
  });
  assert.equal(missing, []);
});

test('a name in a comment, in another call or as a part of another name is no test', () => {
  const suiteSource = [
    "const test = suite('things');",
    "test('one', () => {",
    "  // test('two', …)",
    "  assert.is(1, 1, 'three');",
    '});',
    'test(',
    "  'four’s \\'name\\'',",
    'test.before(() => {});',
    "other('five', () => {});",
    'const sometimes = isLinux ? test : test.skip;',
    "sometimes('six', () => {});",
  ].join('\n');
  assert.equal(namesOfSuites(suiteSource), ['things', 'one', "four’s 'name'", 'six']);
  const caseSource = [
    'TEST_CASE("a: b, "',
    '          "c \\"d\\"") {',
    '// TEST_CASE("e")',
    'CHECK("f");',
  ].join('\n');
  assert.equal(namesOfCases(caseSource), ['a: b, c "d"']);
});

test('each promise stands once, and each scenario of the worker crates has a line', () => {
  const [promises = '', scenarios = ''] = page.split('## Scenarios of the worker crates');
  const texts = promisesOf(promises).map(({ promise }) => promise);
  assert.is(new Set(texts).size, texts.length);
  assert.is(promisesOf(scenarios).length, NUM_SCENARIOS);
});

test.run();
