import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { decodeAll } from '../../../gateway/generation/text-decoder.ts';
import type { BpeTokenizer } from '../../../gateway/tokenizer/bpe-tokenizer.ts';
import { charOfByte } from '../../../gateway/tokenizer/vocabulary.ts';
import { assertLinear } from '../../fixtures/linear.ts';
import { Random } from '../../fixtures/random.ts';
import { tinyModel } from '../../fixtures/tiny-model.ts';
import { tinyId, tinyTokens } from '../../fixtures/tiny-vocabulary.ts';

const test = suite('byte-level');
const plain = { addSpecial: false, parseSpecial: false };
const { tokenizer } = await tinyModel();
const encode = (text: string, options = plain) => tokenizer.encode(text, options);
const bytesOf = (text: string) => [...Buffer.from(text, 'utf8')];

test('merges the lowest rank first, the leftmost of equals', () => {
  assert.equal(encode('hello'), [tinyId('hello')]);
  assert.equal(encode('hello hello'), [tinyId('hello'), tinyId('Ġhello')]);
  assert.equal(encode('hel'), [tinyId('he'), tinyId('l')]);
  assert.equal(encode('lll'), [tinyId('ll'), tinyId('l')]);
  assert.equal(encode('aaaaa'), [tinyId('aa'), tinyId('aa'), tinyId('a')]);
  assert.equal(encode(''), []);
});

test('text outside the merges becomes its bytes', () => {
  assert.equal(encode('é\u0000\uFEFF'), bytesOf('é\u0000\uFEFF'));
  assert.equal(encode('\uD800'), bytesOf('\uFFFD'));
});

test('control tokens are text unless asked for; user-defined tokens are always split out', () => {
  const literal = 'a<|im_end|>b';
  assert.equal(encode(literal), bytesOf(literal));
  assert.equal(encode(literal, { addSpecial: false, parseSpecial: true }), [97, tinyId('<|im_end|>'), 98]);
  assert.equal(encode('a<tool>b'), [97, tinyId('<tool>'), 98]);
  assert.equal(encode('<|im_end|>!', { addSpecial: false, parseSpecial: true }), [tinyId('<|im_end|>!')]);
  assert.equal(encode('<<|im_end|>', { addSpecial: false, parseSpecial: true }), [60, tinyId('<|im_end|>')]);
  assert.equal(tokenizer.controlLiterals, ['<|bos|>', '<|im_start|>', '<|im_end|>', '<|im_end|>!']);
});

test('tokens that begin or end texts are control tokens whatever type the file gives them', async () => {
  const types = tinyTokens.map((token) => (token.startsWith('<') && token.length > 1 ? 4 : 1));
  const model = await tinyModel({
    'tokenizer.ggml.token_type': { type: 'array', of: 'int32', value: types },
  });
  assert.equal(model.tokenizer.encode('<|im_end|>', plain), bytesOf('<|im_end|>'));
  assert.equal(model.tokenizer.controlLiterals, ['<|bos|>', '<|im_end|>']);
  assert.ok(model.tokenizer.isControl(tinyId('<|im_end|>')));
});

test('BOS and EOS are added when asked for and the file says so', async () => {
  const yes = { type: 'bool', value: true } as const;
  const special = { addSpecial: true, parseSpecial: false };
  assert.equal(encode('a', special), [97]);
  const both = await tinyModel({ 'tokenizer.ggml.add_bos_token': yes, 'tokenizer.ggml.add_eos_token': yes });
  assert.equal(both.tokenizer.encode('a', special), [tinyId('<|bos|>'), 97, tinyId('<|im_end|>')]);
  assert.equal(both.tokenizer.encode('a', plain), [97]);
});

test('bytes of a token; an id outside the vocabulary is a RangeError', () => {
  assert.equal([...tokenizer.bytes(tinyId('Ġhello'))], bytesOf(' hello'));
  assert.equal([...tokenizer.bytes(255)], [255]);
  assert.equal([...tokenizer.bytes(tinyId('<|im_end|>'))], bytesOf('<|im_end|>'));
  assert.not.ok(tokenizer.isControl(tinyId('<tool>')));
  for (const id of [-1, tinyTokens.length, 0.5, Number.NaN])
    assert.throws(() => tokenizer.bytes(id), RangeError);
});

test('a token written outside the byte alphabet stands for itself', async () => {
  const value = [...tinyTokens, '<pad 0>'];
  const model = await tinyModel({
    'tokenizer.ggml.tokens': { type: 'array', of: 'string', value },
    'tokenizer.ggml.token_type': undefined,
  });
  assert.equal([...model.tokenizer.bytes(tinyTokens.length)], bytesOf('<pad 0>'));
});

test('bytes without a token are known, and give no id', async () => {
  const value = tinyTokens.map((token) => (token === charOfByte[4] ? 'replaced' : token));
  const model = await tinyModel({ 'tokenizer.ggml.tokens': { type: 'array', of: 'string', value } });
  const lacking = model.tokenizer as BpeTokenizer;
  assert.equal(lacking.missingBytes, [4]);
  assert.equal(lacking.encode('a\u0004a', plain), [97, 97]);
  assert.equal((tokenizer as BpeTokenizer).missingBytes, []);
});

test('the least number of tokens is what a text has when all of them are the longest', async () => {
  const longest = '<|im_start|>';
  assert.is(tokenizer.leastTokens(''), 0);
  assert.is(tokenizer.leastTokens(longest.repeat(5)), 5);
  assert.is(tokenizer.leastTokens(`${longest.repeat(5)}x`), 6);
  assert.is(tokenizer.leastTokens('é'.repeat(6)), 1);
  const value = tinyTokens.map((token) => (token === charOfByte[4] ? 'replaced' : token));
  const model = await tinyModel({ 'tokenizer.ggml.tokens': { type: 'array', of: 'string', value } });
  assert.is(model.tokenizer.leastTokens('\u0004'.repeat(1000)), 0, 'bytes without a token give none');
});

test('random text comes back from its ids', () => {
  const random = new Random();
  const pieces = [
    'hello',
    ' ',
    'a',
    '\n',
    'é',
    '👋',
    '\uFEFF',
    '0',
    '<|im_end|>',
    '<tool>',
    '\u0000',
    'ה',
    '.',
  ];
  for (let run = 0; run < 2_000; run++) {
    let text = '';
    for (let i = random.below(30); i > 0; i--) text += random.pick(pieces);
    for (const parseSpecial of [false, true]) {
      const ids = encode(text, { addSpecial: false, parseSpecial });
      const bytes = Buffer.concat(ids.map((id) => tokenizer.bytes(id)));
      assert.is(bytes.toString('utf8'), text, `seed ${random.seed}, run ${run}`);
      assert.ok(tokenizer.leastTokens(text) <= ids.length, `seed ${random.seed}, run ${run}`);
      if (!parseSpecial) assert.is(decodeAll(tokenizer, ids), text);
    }
  }
});

test('a megabyte of anything takes time in proportion', async () => {
  const bytes = 2 ** 20;
  for (const piece of ['a', ' ', '\n', '👨‍👩‍👧', '\uD800', '<', "'", '0', 'hello world. ', '<|im_end|']) {
    const largest = Math.floor(bytes / Buffer.byteLength(piece));
    await assertLinear(JSON.stringify(piece), largest, (count) =>
      encode(piece.repeat(count), { addSpecial: false, parseSpecial: true }),
    );
  }
});

test.run();
