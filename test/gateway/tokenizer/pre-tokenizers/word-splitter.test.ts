import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { expressionNamed, expressions } from '../../../../gateway/tokenizer/pre-tokenizers/expressions.ts';
import { preTokenizers } from '../../../../gateway/tokenizer/pre-tokenizers/named.ts';
import { WordSplitter } from '../../../../gateway/tokenizer/pre-tokenizers/word-splitter.ts';
import { assertLinear } from '../../../fixtures/linear.ts';
import { Random } from '../../../fixtures/random.ts';
import { recordedCases } from '../../../fixtures/recorded-cases.ts';

const test = suite('word-splitter');
const splitters = new Map([...preTokenizers].map(([name, { stages }]) => [name, new WordSplitter(stages)]));

function words(name: string, text: string): string[] {
  const splitter = splitters.get(name) as WordSplitter;
  const found: string[] = [];
  for (const piece of splitter.pieces(text)) {
    for (let at = 0; at < piece.length; ) {
      const end = splitter.wordEnd(piece, at);
      if (end <= at) throw new Error(`${name}: ${JSON.stringify(text)} is not cut at ${at} of a piece`);
      found.push(piece.slice(at, end));
      at = end;
    }
  }
  return found;
}

recordedCases(test, import.meta.url, (line) => {
  const at = line.indexOf(' ');
  return JSON.stringify(words(line.slice(0, at), JSON.parse(line.slice(at))));
});

test("white space is Unicode's, not JavaScript's", () => {
  const space = [...'\t\n\v\f\r \u0085\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000'];
  const notSpace = [...'\ufeff\u200b\u180e\u2060\u001c\u001f\u0000'];
  for (const name of ['gpt-2', 'smollm']) {
    for (const char of space)
      assert.equal(
        words(name, `a${char}${char}b`),
        ['a', char, ...(char === ' ' ? [' b'] : [char, 'b'])],
        `${name} ${JSON.stringify(char)}`,
      );
    for (const char of notSpace)
      assert.equal(words(name, `a ${char}b`), ['a', ` ${char}`, 'b'], `${name} ${JSON.stringify(char)}`);
  }
});

test('an expression is known by its text, however it writes line breaks', () => {
  assert.is(expressionNamed(expressions.llama3), 'llama3');
  assert.is(
    expressionNamed(expressions.deepseek3.replaceAll('\\r', '\r').replaceAll('\\n', '\n')),
    'deepseek3',
  );
  assert.is(expressionNamed('(a+)+$'), undefined);
});

test('many characters of anything take time in proportion', async () => {
  for (const piece of [
    'a',
    'A',
    ' ',
    '\n',
    ' \n',
    '1',
    '½',
    '.',
    '字',
    'é',
    'e\u0301',
    '\u0301',
    "'",
    '<sentinel:',
    'IMGIMGA',
  ]) {
    const largest = Math.floor(2 ** 16 / piece.length);
    for (const name of preTokenizers.keys())
      await assertLinear(`${name} ${JSON.stringify(piece)}`, largest, (count) =>
        words(name, `${piece.repeat(count)}!`),
      );
  }
});

test('every text is cut without loss', () => {
  const random = new Random();
  for (let run = 0; run < 500; run++) {
    let text = '';
    for (let i = random.below(40); i > 0; i--) {
      text += String.fromCharCode(random.below(random.pick([0x80, 0x300, 0x10000])));
    }
    for (const name of preTokenizers.keys())
      assert.is(words(name, text).join(''), text, `seed ${random.seed}, run ${run}`);
  }
});

test.run();
