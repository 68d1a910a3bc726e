/** Ids must equal those of Hugging Face's tokenizers: test/golden/make_wordpiece_golden.py. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { decodeAll } from '../../../gateway/generation/text-decoder.ts';
import { readGguf } from '../../../gateway/models/gguf.ts';
import { tokenizerOfGguf } from '../../../gateway/models/gguf-tables.ts';
import { loadModel } from '../../../gateway/models/model-slot.ts';
import { BpeTokenizer } from '../../../gateway/tokenizer/bpe-tokenizer.ts';
import { tablesOfTokenizerJson } from '../../../gateway/tokenizer/huggingface/tokenizer-json.ts';
import { finish, shortTextChars } from '../../../gateway/tokenizer/tokenizer.ts';
import { encodedByTurns } from '../../fixtures/encoding-by-turns.ts';
import { type WriterValue, writeGguf } from '../../fixtures/gguf-writer.ts';
import { Random } from '../../fixtures/random.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { tinyMetadata } from '../../fixtures/tiny-vocabulary.ts';
import { within } from '../../fixtures/within.ts';

interface File {
  readonly added_tokens: readonly Readonly<Record<string, unknown>>[];
  readonly model: { readonly vocab: Readonly<Record<string, number>> };
}

interface Golden {
  readonly texts: readonly string[];
  readonly vocabularies: Readonly<
    Record<'uncased' | 'cased', { file: File; plain: number[][]; special: (number[] | null)[] }>
  >;
  readonly variants: Readonly<Record<string, { normalizer: unknown; plain: (number[] | null)[] }>>;
}

const test = suite('wordpiece');
const golden: Golden = JSON.parse(
  readFileSync(new URL('../../golden/wordpiece.json', import.meta.url), 'utf8'),
);
const { texts, vocabularies, variants } = golden;
const none = { bosToken: undefined, eosToken: undefined, addBos: undefined, addEos: undefined };
const plain = { addSpecial: false, parseSpecial: false };
const special = { addSpecial: true, parseSpecial: true };
const literals = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
const [unknownId, clsId, sepId] = [1, 2, 3] as const;
const patienceMs = 120_000;
const folder = temporaryFolder();
const id = (value: number): WriterValue => ({ type: 'uint32', value });
assert.ok(texts.length >= 400);

function tablesOf(file: unknown) {
  return tablesOfTokenizerJson(Buffer.from(JSON.stringify(file)), none);
}

/** The metadata that llama.cpp's converter writes for the vocabulary. A key that is undefined is left out. */
function metadataOf(file: File, changes: Readonly<Record<string, WriterValue | undefined>> = {}) {
  const tokens = Object.entries(file.model.vocab).sort(([, one], [, other]) => one - other);
  const phantom = tokens.map(([token]) => {
    if (literals.includes(token)) return token;
    return token.startsWith('##') ? token.slice(2) : `▁${token}`;
  });
  const types = tokens.map(([token]) => (literals.includes(token) ? 3 : 1));
  return tinyMetadata({
    'tokenizer.ggml.pre': undefined,
    'tokenizer.ggml.merges': undefined,
    'tokenizer.ggml.bos_token_id': undefined,
    'tokenizer.ggml.eos_token_id': undefined,
    'tokenizer.ggml.model': { type: 'string', value: 'bert' },
    'tokenizer.ggml.tokens': { type: 'array', of: 'string', value: phantom },
    'tokenizer.ggml.token_type': { type: 'array', of: 'int32', value: types },
    'tokenizer.ggml.cls_token_id': id(clsId),
    'tokenizer.ggml.seperator_token_id': id(sepId),
    'tokenizer.ggml.unknown_token_id': id(unknownId),
    'tokenizer.ggml.padding_token_id': id(0),
    'tokenizer.ggml.mask_token_id': id(4),
    ...Object.fromEntries(Object.entries(changes).map(([key, value]) => [`tokenizer.ggml.${key}`, value])),
  });
}

function ggufOf(file: File, changes: Readonly<Record<string, WriterValue | undefined>> = {}) {
  const fd = openSync(folder.write('model.gguf', writeGguf({ metadata: metadataOf(file, changes) })), 'r');
  try {
    return tokenizerOfGguf(readGguf(fd, fstatSync(fd).size));
  } finally {
    closeSync(fd);
  }
}

function requireIds(tokenizer: BpeTokenizer, name: 'uncased' | 'cased'): void {
  const expected = vocabularies[name];
  for (const [index, text] of texts.entries()) {
    const what = `${index} ${JSON.stringify(text.slice(0, 80))}`;
    const ids = expected.plain[index] as number[];
    assert.equal(tokenizer.encode(text, plain), ids, `plain ${what}`);
    assert.equal(
      tokenizer.encode(text, special),
      expected.special[index] ?? [clsId, ...ids, sepId],
      `special ${what}`,
    );
  }
}

for (const name of ['uncased', 'cased'] as const) {
  const { file, plain: plainIds } = vocabularies[name];
  const tokenizer = await BpeTokenizer.of(tablesOf(file));

  test(`${name}: the ids of ${texts.length} texts, from a tokenizer.json and from GGUF metadata`, async () => {
    requireIds(tokenizer, name);
    const { tables } = ggufOf(file);
    const converted = await BpeTokenizer.of(tables);
    requireIds(converted, name);
    assert.is(converted.kind, 'gguf-wpm');
    assert.equal([converted.bosId, converted.eosId], [clsId, sepId]);
    const pair = { prefixIds: [clsId], betweenIds: [sepId], suffixIds: [sepId], hasTypes: true };
    assert.equal(converted.pair, pair);
    for (let id = 0; id < tokenizer.vocabSize; id++) {
      assert.equal(converted.bytes(id), tokenizer.bytes(id), `token ${id}`);
      assert.is(converted.isControl(id), tokenizer.isControl(id), `token ${id}`);
    }
  });

  test(`${name}: steps make no difference, whatever is encoded between them`, () => {
    const long = ['a', 'ab', ' ', '東', '👋', '!?', 'é'].map((part) => part.repeat(10_000));
    const all = [...texts, ...long, texts.join(' ')];
    const { ids, numRounds } = encodedByTurns(tokenizer, all);
    assert.ok(numRounds > 4, `${numRounds} rounds`);
    assert.equal(ids.slice(0, texts.length), plainIds);
    for (const [index, text] of all.entries())
      assert.equal(ids[index], tokenizer.encode(text, plain), JSON.stringify(text.slice(0, 40)));
  });

  test(`${name}: a long text has the ids of its parts, and segments those of their text`, () => {
    for (const between of [' ', '\n', ',', '東']) {
      const joined = tokenizer.encode(between, plain);
      const expected = plainIds.flatMap((ids, index) => (index === 0 ? ids : [...joined, ...ids]));
      assert.equal(tokenizer.encode(texts.join(between), plain), expected, JSON.stringify(between));
    }
    const random = new Random();
    for (const [index, text] of texts.entries()) {
      const at = random.below(text.length + 1);
      const segments = [text.slice(0, at), text.slice(at)].map((part) => ({
        text: part,
        parseSpecial: false,
      }));
      assert.equal(
        finish(tokenizer.encodeSegments(segments, false)),
        plainIds[index],
        `seed ${random.seed}, text ${index}`,
      );
    }
  });

  test(`${name}: no text has fewer tokens than its lower bound`, async () => {
    const token = { id: 600, content: 'a b 東 c', special: true, normalized: false };
    const added = await BpeTokenizer.of(tablesOf({ ...file, added_tokens: [...file.added_tokens, token] }));
    const random = new Random();
    const parts = [...texts, ...literals, token.content, ' ', '\n', 'a', '東', 'é', '\u0301', '\u0001', ','];
    let numBounded = 0;
    for (let run = 0; run < 2000; run++) {
      let text = '';
      for (let i = random.below(12); i >= 0; i--) text += random.pick(parts);
      for (const each of [tokenizer, added])
        for (const parseSpecial of [false, true]) {
          const least = each.leastTokens(text);
          const { length } = each.encode(text, { addSpecial: false, parseSpecial });
          assert.ok(least <= length, `seed ${random.seed}, run ${run}: ${least} of ${length}`);
          if (least * 2 > length) numBounded++;
        }
    }
    assert.ok(numBounded > 300, `${numBounded} bounds are more than half`);
    assert.is(tokenizer.leastTokens('the embedding is 東京'), 5);
  });
}

test('each setting of the normalizer gives its own ids', async () => {
  for (const [name, { normalizer, plain: expected }] of Object.entries(variants)) {
    const base = vocabularies[name.startsWith('uncased') ? 'uncased' : 'cased'];
    const tokenizer = await BpeTokenizer.of(tablesOf({ ...base.file, normalizer }));
    assert.ok(expected.filter((ids) => ids !== null).length > 60, name);
    for (const [index, text] of texts.entries())
      assert.equal(
        tokenizer.encode(text, plain),
        expected[index] ?? base.plain[index],
        `${name} ${index} ${JSON.stringify(text.slice(0, 80))}`,
      );
  }
});

test('a GGUF file that says so is lowered, or loses accents, whatever its vocabulary', () => {
  const bool = (value: boolean): WriterValue => ({ type: 'bool', value });
  const formOf = (name: 'uncased' | 'cased', changes: Readonly<Record<string, WriterValue>>) => {
    const { form } = ggufOf(vocabularies[name].file, changes).tables;
    return form.kind === 'wordpiece' && [form.lowers, form.stripsAccents];
  };
  assert.equal(formOf('uncased', {}), [true, true]);
  assert.equal(formOf('cased', {}), [false, false]);
  assert.equal(formOf('uncased', { 'normalizer.lowercase': bool(false) }), [false, false]);
  assert.equal(formOf('cased', { 'normalizer.lowercase': bool(true) }), [true, true]);
  assert.equal(formOf('uncased', { 'normalizer.strip_accents': bool(false) }), [true, false]);
});

test('capital letters in brackets do not make a vocabulary cased', () => {
  const { file } = vocabularies.uncased;
  const vocab = { ...file.model.vocab, '[unused0]': 600, '[PAD601]': 601 };
  const { form } = ggufOf({ ...file, model: { vocab } }).tables;
  assert.ok(form.kind === 'wordpiece' && form.lowers);
});

test('what begins and ends a text may have the names of other kinds', () => {
  const { file } = vocabularies.uncased;
  const { tables, stopIds } = ggufOf(file, {
    cls_token_id: undefined,
    seperator_token_id: undefined,
    bos_token_id: id(clsId),
    eos_token_id: id(sepId),
    add_bos_token: { type: 'bool', value: false },
  });
  assert.equal([tables.prefixIds, tables.suffixIds, stopIds], [[clsId], [sepId], [sepId]]);
});

test('GGUF metadata without what WordPiece needs is refused by name', () => {
  const { file } = vocabularies.uncased;
  const types = Array.from({ length: 600 }, (_, token) => (token === 7 ? 4 : 1));
  const cases: readonly (readonly [Readonly<Record<string, WriterValue | undefined>>, RegExp])[] = [
    [
      { cls_token_id: undefined },
      /^it has neither tokenizer\.ggml\.cls_token_id nor tokenizer\.ggml\.bos_token_id/,
    ],
    [
      { seperator_token_id: undefined },
      /neither tokenizer\.ggml\.seperator_token_id nor tokenizer\.ggml\.eos/,
    ],
    [{ unknown_token_id: undefined }, /^its vocabulary has no token for unknown words$/],
    [
      { unknown_token_id: { type: 'uint32', value: 600 } },
      /unknown_token_id is 600, but the vocabulary has 600/,
    ],
    [
      { token_type: { type: 'array', of: 'int32', value: types } },
      /^its token "▁." is user-defined, which is not/,
    ],
  ];
  for (const [changes, message] of cases) assert.throws(() => ggufOf(file, changes), message);
});

test('[CLS] and [SEP] of BertProcessing, or of RobertaProcessing, are put around a text', () => {
  const { file } = vocabularies.uncased;
  for (const type of ['BertProcessing', 'RobertaProcessing']) {
    const post_processor = { type, sep: ['[SEP]', sepId], cls: ['[CLS]', clsId] };
    const { prefixIds, suffixIds } = tablesOf({ ...file, post_processor });
    assert.equal([prefixIds, suffixIds], [[clsId], [sepId]], type);
  }
});

test('a text that ends in unknown words has one control token behind it, so that it can be cut', async () => {
  const tokenizer = await BpeTokenizer.of(tablesOf(vocabularies.uncased.file));
  const ids = tokenizer.encode('the ꙮ ꙮ', special);
  assert.equal(ids.slice(-3), [unknownId, unknownId, sepId]);
  assert.equal(
    ids.slice(-3).map((id) => tokenizer.isControl(id)),
    [false, false, true],
  );
  assert.ok(tokenizer.controlLiterals.includes('[UNK]'), 'but nobody can write it');
});

test('decoding puts a space between words and none inside of them', async () => {
  const tokenizer = await BpeTokenizer.of(tablesOf(vocabularies.uncased.file));
  const ids = tokenizer.encode('The embeddings, re-tokenized: ꙮ', special);
  assert.is(decodeAll(tokenizer, ids), 'the embeddings , re - tokenized : [UNK]');
});

test("a model whose file has WordPiece says so, and its reader's ids of long texts are the gateway's", async () => {
  const metadata = metadataOf(vocabularies.uncased.file);
  const { tokenizer } = await loadModel(folder.write('bert.gguf', writeGguf({ metadata })));
  assert.is(tokenizer.kind, 'gguf-wpm');
  assert.is(tokenizer.vocabSize, 600);
  const text = texts.join(' ').repeat(2);
  assert.ok(text.length > shortTextChars);
  const encoded = await within(patienceMs, 'The ids', tokenizer.encodeTexts([text], special));
  assert.equal(
    encoded.map((ids) => 'length' in ids && [...ids]),
    [tokenizer.encode(text, special)],
  );
  tokenizer.close();
});

test.run();
