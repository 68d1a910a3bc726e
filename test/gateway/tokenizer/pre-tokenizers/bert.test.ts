/** Each character of Unicode becomes what Hugging Face's tokenizers make of it: test/golden/make_wordpiece_golden.py. */
import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type BertRules,
  isSpace,
  normalized,
  wordEnd,
} from '../../../../gateway/tokenizer/pre-tokenizers/bert.ts';

const test = suite('bert');
const golden: { characters: Readonly<Record<string, string>> } = JSON.parse(
  readFileSync(new URL('../../../golden/wordpiece.json', import.meta.url), 'utf8'),
);
const none: BertRules = { cleans: false, isolatesHan: false, stripsAccents: false, lowers: false };

/** All characters that this version of Node knows: it may know fewer than the library. Of private ones two of each 256 suffice. */
const known: readonly string[] = Array.from({ length: 0x11_0000 }, (_, code) => code)
  .filter((code) => code < 0xd800 || code > 0xdfff)
  .filter((code) => !/\p{Cn}/u.test(String.fromCodePoint(code)))
  .filter((code) => (code & 0xff) < 2 || !/\p{Co}/u.test(String.fromCodePoint(code)))
  .map((code) => String.fromCodePoint(code));
assert.ok(known.length > 140_000);

function fieldOf(name: string): readonly string[] {
  return (golden.characters[name] as string).split(' ');
}

function setOf(name: string): ReadonlySet<string> {
  const set = new Set<string>();
  for (const range of fieldOf(name)) {
    const [first = 0, last = first] = range.split('-').map((code) => Number.parseInt(code, 16));
    for (let code = first; code <= last; code++) set.add(String.fromCodePoint(code));
  }
  return set;
}

function textsOf(name: string): ReadonlyMap<string, string> {
  const text = (codes: string) =>
    String.fromCodePoint(...codes.split('.').map((code) => Number.parseInt(code, 16)));
  return new Map(
    fieldOf(name).map((entry) => {
      const [from = '', to = ''] = entry.split('>');
      return [text(from), text(to)];
    }),
  );
}

function wordsOf(text: string): string[] {
  const words: string[] = [];
  for (let at = 0; at < text.length; ) {
    const end = wordEnd(text, at);
    const word = text.slice(at, end);
    if (!isSpace(word)) words.push(word);
    at = end;
  }
  return words;
}

/** Hangul syllables decompose by a formula. */
function jamoOf(char: string): string | undefined {
  const index = (char.codePointAt(0) as number) - 0xac00;
  if (index < 0 || index >= 19 * 588) return undefined;
  const tail = index % 28;
  const codes = [0x1100 + Math.floor(index / 588), 0x1161 + Math.floor((index % 588) / 28)];
  return String.fromCodePoint(...codes, ...(tail === 0 ? [] : [0x11a7 + tail]));
}

/** Asserts for each known character what becomes of it, and names the characters that become something else. */
function requireAll(actual: (char: string) => unknown, expected: (char: string) => unknown): void {
  const wrong = known.filter((char) => actual(char) !== expected(char));
  assert.equal(
    wrong.slice(0, 20).map((char) => (char.codePointAt(0) as number).toString(16)),
    [],
  );
}

test('control characters are removed, white space and punctuation cut words, and Chinese characters stand alone', () => {
  const [removed, spaces, punctuation, han] = ['removed', 'spaces', 'punctuation', 'han'].map(setOf);
  requireAll(
    (char) => normalized(`a${char}b`, { ...none, cleans: true }) === 'ab',
    (char) => removed?.has(char),
  );
  requireAll(
    (char) => wordsOf(`a${char}b`).join(' '),
    (char) => (spaces?.has(char) ? 'a b' : punctuation?.has(char) ? `a ${char} b` : `a${char}b`),
  );
  requireAll(
    (char) => normalized(char, { ...none, isolatesHan: true }),
    (char) => (han?.has(char) ? ` ${char} ` : char),
  );
});

test('characters decompose and lose their marks, and capital letters become small ones', () => {
  const marks = setOf('marks');
  const stripped = textsOf('stripped');
  requireAll(
    (char) => normalized(char, { ...none, stripsAccents: true }),
    (char) => (marks.has(char) ? '' : (stripped.get(char) ?? jamoOf(char) ?? char)),
  );
  const lowered = textsOf('lowered');
  requireAll(
    (char) => normalized(`a${char}`, { ...none, lowers: true }),
    (char) => `a${lowered.get(char) ?? char}`,
  );
});

test('half of a surrogate pair is removed like the replacement character', () => {
  assert.is(normalized('a\ud800b\udc00', { ...none, cleans: true }), 'ab');
});

test.run();
