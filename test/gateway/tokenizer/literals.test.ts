import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { LiteralFinder } from '../../../gateway/tokenizer/added-tokens.ts';
import { TokenizerError } from '../../../gateway/tokenizer/tables.ts';
import { errorOf } from '../../fixtures/errors.ts';

const test = suite('literals');

/** The segments of a text, with literals in brackets. */
async function split(literals: readonly string[], text: string): Promise<string[]> {
  const finder = await LiteralFinder.of(literals.map((literal, index) => [literal, index] as const));
  return [...finder.split(text)].map((segment) => {
    if (segment.match === undefined) return segment.text;
    assert.is(literals[segment.match], segment.text);
    return `[${segment.text}]`;
  });
}

test('finds literals leftmost first, and of those at one place the longest', async () => {
  assert.equal(await split(['<a>', '<b>'], 'x<a><b>y'), ['x', '[<a>]', '[<b>]', 'y']);
  assert.equal(await split(['ab', 'abc', 'abcde'], 'abcdabcdeab'), ['[abc]', 'd', '[abcde]', '[ab]']);
  assert.equal(await split(['abc', 'bcdef'], 'abcdef'), ['[abc]', 'def']);
  assert.equal(await split(['aab'], 'aaab'), ['a', '[aab]']);
});

test('text without literals is one segment, and no text none', async () => {
  assert.equal(await split([], 'text'), ['text']);
  assert.equal(await split(['x'], 'text '), ['te', '[x]', 't ']);
  assert.equal(await split(['x'], ''), []);
  assert.equal(await split(['xyz'], 'xy'), ['xy']);
});

test('literals that are empty, too long or too many are refused', async () => {
  const finder = (literals: readonly string[]) =>
    LiteralFinder.of(literals.map((literal) => [literal, 1] as const));
  await finder(['x'.repeat(256)]);
  for (const literals of [[''], ['x'.repeat(257)], new Array<string>(5_000).fill('x'.repeat(256))]) {
    assert.instance(await errorOf(() => finder(literals)), TokenizerError);
  }
});

test.run();
