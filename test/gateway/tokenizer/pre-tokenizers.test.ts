import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { preTokenizers } from '../../../gateway/tokenizer/pre-tokenizers.ts';
import { Random } from '../../fixtures/random.ts';

const test = suite('pre-tokenizers');

function words(name: string, text: string): string[] {
  return [...text.matchAll(preTokenizers.get(name) as RegExp)].map(([word]) => word);
}

test('gpt-2 cuts as published', () => {
  assert.equal(words('gpt-2', "I'll pay 1234 coins,  ok?\n"), [
    'I',
    "'ll",
    ' pay',
    ' 1234',
    ' coins',
    ',',
    ' ',
    ' ok',
    '?',
    '\n',
  ]);
  assert.equal(words('gpt-2', "WE'LL"), ['WE', "'", 'LL']);
  assert.equal(words('gpt-2', 'a   b'), ['a', '  ', ' b']);
});

test('smollm sets each digit apart, so that space before it ends a word', () => {
  assert.equal(words('smollm', 'a  12 b'), ['a', '  ', '1', '2', ' b']);
  assert.equal(words('smollm', ' 1'), [' ', '1']);
  assert.equal(words('smollm', '½٣Ⅷ'), ['½', '٣', 'Ⅷ']);
  assert.equal(words('smollm', 'v1.2'), ['v', '1', '.', '2']);
});

test("white space is Unicode's, not JavaScript's", () => {
  const space = [...'\t\n\v\f\r \u0085\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000'];
  const notSpace = [...'\ufeff\u200b\u180e\u2060\u001c\u001f\u0000'];
  for (const name of preTokenizers.keys()) {
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

test('every text is cut without loss', () => {
  const random = new Random();
  for (let run = 0; run < 2_000; run++) {
    let text = '';
    for (let i = random.below(40); i > 0; i--) {
      text += String.fromCharCode(random.below(random.pick([0x80, 0x300, 0x10000])));
    }
    for (const name of preTokenizers.keys())
      assert.is(words(name, text).join(''), text, `seed ${random.seed}, run ${run}`);
  }
});

test.run();
