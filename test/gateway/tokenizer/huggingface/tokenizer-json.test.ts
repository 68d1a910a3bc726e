import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { decodeAll } from '../../../../gateway/generation/text-decoder.ts';
import { BpeTokenizer } from '../../../../gateway/tokenizer/bpe-tokenizer.ts';
import {
  type SpecialTokens,
  tablesOfTokenizerJson,
} from '../../../../gateway/tokenizer/huggingface/tokenizer-json.ts';
import { TokenizerError } from '../../../../gateway/tokenizer/tables.ts';
import { finish } from '../../../../gateway/tokenizer/tokenizer.ts';
import { recordedCases } from '../../../fixtures/recorded-cases.ts';
import { tinySentencePieceJson, tinyTokenizerJson } from '../../../fixtures/tiny-tokenizer-json.ts';

const test = suite('tokenizer.json');
const none: SpecialTokens = {
  bosToken: undefined,
  eosToken: undefined,
  addBos: undefined,
  addEos: undefined,
};
const plain = { addSpecial: false, parseSpecial: false };
const parsed = { addSpecial: false, parseSpecial: true };

function tokenizerOf(json: unknown, special = none): Promise<BpeTokenizer> {
  return BpeTokenizer.of(tablesOfTokenizerJson(Buffer.from(JSON.stringify(json)), special));
}

function texts(tokenizer: BpeTokenizer, text: string, options = plain): string[] {
  return tokenizer.encode(text, options).map((id) => Buffer.from(tokenizer.bytes(id)).toString());
}

function fault(json: unknown): string {
  try {
    tablesOfTokenizerJson(Buffer.from(JSON.stringify(json)), none);
  } catch (error) {
    assert.instance(error, TokenizerError, (error as Error).stack ?? '');
    return (error as Error).message;
  }
  throw new Error('It is not refused.');
}

const added = (changes: Readonly<Record<string, unknown>>) =>
  tinyTokenizerJson({
    added_tokens: [{ id: 262, content: '<x>', special: true, normalized: false, ...changes }],
  });

test('byte-level words, special tokens only on request', async () => {
  const tokenizer = await tokenizerOf(tinyTokenizerJson());
  assert.is(tokenizer.kind, 'hf-json');
  assert.equal(texts(tokenizer, 'hello hello'), ['hello', ' hello']);
  assert.equal(texts(tokenizer, 'a<tool>a'), ['a', '<tool>', 'a']);
  assert.equal(texts(tokenizer, 'aa<|im_end|>', parsed), ['aa', '<|im_end|>']);
  assert.not.ok(tokenizer.encode('<|im_end|>', plain).some((id) => tokenizer.isControl(id)));
  assert.equal(tokenizer.controlLiterals, ['<|bos|>', '<|im_end|>']);
});

test('a token that takes white space with it, or stands alone, does so', async () => {
  const strips = await tokenizerOf(added({ lstrip: true, rstrip: true }));
  assert.equal(texts(strips, 'a  <x> \n a', parsed), ['a', '<x>', 'a']);
  const prompt = [
    { text: '<x>', parseSpecial: true },
    { text: '\n a ', parseSpecial: false },
    { text: '<x>', parseSpecial: true },
  ];
  assert.is(finish(strips.encodeSegments(prompt, false)).length, 3, 'also from the segment beside it');
  // The token has an id that no merge gives.
  const whole = await tokenizerOf(added({ content: 'ab', special: false, single_word: true }));
  assert.equal(whole.encode('ab-ab', plain), [262, 45, 262]);
  for (const [text, ids] of [
    ['abb', [97, 98, 98]],
    ['bab', [98, 97, 98]],
    ['ab1', [97, 98, 49]],
    ['_ab', [95, 97, 98]],
  ] as const)
    assert.equal(whole.encode(text, plain), ids, text);
});

test('an lstrip token after nothing but white space leaves no empty text, which would get a space prefix', async () => {
  const json = tinySentencePieceJson({
    normalizer: null,
    pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: false },
    added_tokens: [{ id: 1, content: '<s>', special: true, normalized: false, lstrip: true }],
  });
  const tokenizer = await tokenizerOf(json);
  assert.equal(texts(tokenizer, ' \n <s>a', parsed), ['<s>', ' a']);
  assert.equal(texts(tokenizer, 'a <s> <s>', parsed), [' a', '<s>', '<s>']);
});

test('a word that is a token is not merged if the model ignores merges, however long it is', async () => {
  const lengths = [3, 63, 64, 65, 255, 256, 1024, 1025];
  const words = lengths.map((length) => 'z'.repeat(length));
  const { model } = tinyTokenizerJson() as { model: { vocab: Readonly<Record<string, number>> } };
  const vocab = { ...model.vocab, ...Object.fromEntries(words.map((word, at) => [word, 300 + at])) };
  const merging = await tokenizerOf(tinyTokenizerJson({ added_tokens: [] }, { vocab }));
  const ignoring = await tokenizerOf(tinyTokenizerJson({ added_tokens: [] }, { vocab, ignore_merges: true }));
  for (const [at, word] of words.entries()) {
    assert.equal(ignoring.encode(word, plain), [300 + at], `${word.length} bytes`);
    assert.is(merging.encode(word, plain).length, word.length);
  }
});

test('a token written as a control token is one, whatever the file says', async () => {
  const tokenizer = await tokenizerOf(added({ content: '<｜User｜>', special: false }));
  assert.equal(tokenizer.controlLiterals, ['<｜User｜>']);
});

test('special tokens come from the post-processor unless the folder decides', async () => {
  const json = tinySentencePieceJson();
  const ids = async (special: Partial<SpecialTokens>) => {
    const tokenizer = await tokenizerOf(json, { ...none, ...special });
    return tokenizer.encode('', { addSpecial: true, parseSpecial: false });
  };
  assert.equal(await ids({}), [1]);
  assert.equal(await ids({ bosToken: '<s>', addBos: false }), []);
  assert.equal(await ids({ bosToken: '<s>', addBos: true, eosToken: '</s>', addEos: true }), [1, 2]);
});

test("SentencePiece's kind: a space in front, bytes of what is unknown, and back", async () => {
  const tokenizer = await tokenizerOf(tinySentencePieceJson());
  assert.equal(texts(tokenizer, 'ab a'), [' ab', ' a']);
  assert.is(tokenizer.encode('é', plain).length, 3, 'the space and two bytes');
  for (const text of ['ab é 👋 a', ' a', '', '  ', 'a\nb'])
    assert.is(decodeAll(tokenizer, tokenizer.encode(text, plain)), text, JSON.stringify(text));
  assert.equal(texts(tokenizer, 'a<s>a', parsed), [' a', '<s>', ' a']);
});

test('a token that reaches into the next word is found where it stands', async () => {
  const tokenizer = await tokenizerOf(tinySentencePieceJson());
  assert.equal(texts(tokenizer, 'a> <a'), [' a', '> <', 'a']);
  assert.equal(texts(tokenizer, 'a> ab'), [' a', '> ', 'ab']);
  assert.equal(texts(tokenizer, '> <> <'), [' ', '> <', '> <']);
});

test('Metaspace puts the space where it says', async () => {
  const metaspace = (prepend_scheme: string) =>
    tokenizerOf(
      tinySentencePieceJson({
        normalizer: null,
        pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme, split: false },
      }),
    );
  assert.equal(texts(await metaspace('first'), 'a<s>a', parsed), [' a', '<s>', 'a']);
  assert.equal(texts(await metaspace('always'), 'a<s>a', parsed), [' a', '<s>', ' a']);
  assert.equal(texts(await metaspace('never'), 'a', plain), ['a']);
  assert.equal(texts(await metaspace('first'), ' a', plain), [' a']);
});

const wordPiece = JSON.parse(readFileSync(new URL('../../../golden/wordpiece.json', import.meta.url), 'utf8'))
  .vocabularies.uncased.file;

const unigram = {
  pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true },
  model: {
    type: 'Unigram',
    unk_id: 0,
    vocab: [
      ['<unk>', 0],
      ['▁a', -1],
    ],
  },
};

recordedCases(test, import.meta.url, (line) => {
  const { whole, model, added: token, wordPiece: pieces, unigram: scored, ...changes } = JSON.parse(line);
  if (whole !== undefined) return fault(whole);
  if (pieces !== undefined)
    return fault({ ...wordPiece, ...pieces, model: { ...wordPiece.model, ...pieces.model } });
  if (scored !== undefined)
    return fault({ ...unigram, ...scored, model: { ...unigram.model, ...scored.model } });
  return fault(token === undefined ? tinyTokenizerJson(changes, model) : added(token));
});

test('a score may be a whole number, and a token may have any place', async () => {
  const tokenizer = await tokenizerOf(unigram);
  assert.equal(tokenizer.encode('a b', plain), [1, 0]);
});

test('a token named __proto__ is a token', async () => {
  const json = JSON.parse(JSON.stringify(tinyTokenizerJson()).replace('"aa":261', '"__proto__":261'));
  json.model.merges = [];
  assert.is(Buffer.from((await tokenizerOf(json)).bytes(261)).toString(), '__proto__');
});

test.run();
