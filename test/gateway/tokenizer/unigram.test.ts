/** Ids must equal those of Hugging Face's tokenizers: test/golden/make_unigram_golden.py. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { decodeAll } from '../../../gateway/generation/text-decoder.ts';
import { readGguf } from '../../../gateway/models/gguf.ts';
import { tokenizerOfGguf } from '../../../gateway/models/gguf-tables.ts';
import { loadModel } from '../../../gateway/models/model-slot.ts';
import { BpeTokenizer } from '../../../gateway/tokenizer/bpe-tokenizer.ts';
import { CharsmapNormalizer } from '../../../gateway/tokenizer/charsmap.ts';
import { tablesOfTokenizerJson } from '../../../gateway/tokenizer/huggingface/tokenizer-json.ts';
import { finish, shortTextChars } from '../../../gateway/tokenizer/tokenizer.ts';
import { encodedByTurns } from '../../fixtures/encoding-by-turns.ts';
import { type WriterValue, writeGguf } from '../../fixtures/gguf-writer.ts';
import { assertLinear } from '../../fixtures/linear.ts';
import { Random } from '../../fixtures/random.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { tinyMetadata } from '../../fixtures/tiny-vocabulary.ts';
import { within } from '../../fixtures/within.ts';

interface File {
  readonly added_tokens: readonly unknown[];
  readonly normalizer: { readonly precompiled_charsmap: string };
  readonly model: { readonly vocab: readonly (readonly [string, number])[] };
}

interface Variant {
  readonly of: 'plain' | 'bytes';
  readonly changes: Readonly<Record<string, unknown>>;
  readonly plain: readonly (readonly number[])[];
  /** With special tokens; null if no more differs than <s> and </s> around the text. */
  readonly special: readonly (readonly number[] | null)[];
}

interface Golden {
  readonly texts: readonly string[];
  readonly files: Readonly<Record<'plain' | 'bytes', File>>;
  readonly variants: Readonly<Record<string, Variant>>;
  readonly pair: readonly [string, string];
  readonly pairs: readonly {
    readonly post_processor: unknown;
    readonly ids: readonly number[];
    readonly types: readonly number[];
  }[];
  readonly graphemes: { readonly attached: string; readonly prepended: string };
}

const test = suite('unigram');
const golden: Golden = JSON.parse(
  readFileSync(new URL('../../golden/unigram.json', import.meta.url), 'utf8'),
);
const { texts, files, variants, graphemes } = golden;
const none = { bosToken: undefined, eosToken: undefined, addBos: undefined, addEos: undefined };
const plain = { addSpecial: false, parseSpecial: false };
const special = { addSpecial: true, parseSpecial: true };
const [bosId, padId, eosId, unknownId] = [0, 1, 2, 3] as const;
const patienceMs = 120_000;
const folder = temporaryFolder();
assert.ok(texts.length >= 500);

function tablesOf(file: unknown) {
  return tablesOfTokenizerJson(Buffer.from(JSON.stringify(file)), none);
}

function fileOf(name: string) {
  const { of, changes } = variants[name] as Variant;
  return { ...files[of], ...changes };
}

/** The metadata that llama.cpp's converter writes for the vocabulary. */
function metadataOf(
  { model: { vocab }, normalizer }: File,
  changes: Readonly<Record<string, WriterValue>> = {},
) {
  const types = vocab.map(([token], id) => {
    if (id === unknownId) return 2;
    if (id < unknownId || token === '<mask>') return 3;
    return /^<0x..>$/.test(token) ? 6 : 1;
  });
  const id = (value: number): WriterValue => ({ type: 'uint32', value });
  const isTrue: WriterValue = { type: 'bool', value: true };
  const charsmap = [...Buffer.from(normalizer.precompiled_charsmap, 'base64')];
  return tinyMetadata({
    'tokenizer.ggml.merges': undefined,
    'tokenizer.ggml.pre': { type: 'string', value: 'default' },
    'tokenizer.ggml.model': { type: 'string', value: 't5' },
    'tokenizer.ggml.tokens': {
      type: 'array',
      of: 'string',
      value: [...vocab.map(([token]) => token), '[PAD9]'],
    },
    'tokenizer.ggml.scores': {
      type: 'array',
      of: 'float32',
      value: [...vocab.map(([, score]) => score), -10_000],
    },
    'tokenizer.ggml.token_type': { type: 'array', of: 'int32', value: [...types, 5] },
    'tokenizer.ggml.precompiled_charsmap': { type: 'array', of: 'uint8', value: charsmap },
    'tokenizer.ggml.add_space_prefix': isTrue,
    'tokenizer.ggml.remove_extra_whitespaces': isTrue,
    'tokenizer.ggml.add_bos_token': isTrue,
    'tokenizer.ggml.add_eos_token': isTrue,
    'tokenizer.ggml.bos_token_id': id(bosId),
    'tokenizer.ggml.eos_token_id': id(eosId),
    'tokenizer.ggml.unknown_token_id': id(unknownId),
    'tokenizer.ggml.padding_token_id': id(padId),
    ...Object.fromEntries(Object.entries(changes).map(([key, value]) => [`tokenizer.ggml.${key}`, value])),
  });
}

function ggufOf(file: File, changes: Readonly<Record<string, WriterValue>> = {}) {
  const fd = openSync(folder.write('model.gguf', writeGguf({ metadata: metadataOf(file, changes) })), 'r');
  try {
    return tokenizerOfGguf(readGguf(fd, fstatSync(fd).size)).tables;
  } finally {
    closeSync(fd);
  }
}

for (const [name, variant] of Object.entries(variants)) {
  test(`${name}: the ids of ${texts.length} texts`, async () => {
    const tokenizer = await BpeTokenizer.of(tablesOf(fileOf(name)));
    for (const [index, text] of texts.entries()) {
      const what = `${index} ${JSON.stringify(text.slice(0, 80))}`;
      const ids = variant.plain[index] as number[];
      assert.equal(tokenizer.encode(text, plain), ids, `plain ${what}`);
      const expected = variant.special[index] ?? [bosId, ...ids, eosId];
      assert.equal(tokenizer.encode(text, special), expected, `special ${what}`);
    }
  });
}

test('GGUF metadata gives the ids of the library, too', async () => {
  for (const [name, of] of [
    ['xlm-roberta', 'plain'],
    ['bytes', 'bytes'],
  ] as const) {
    const converted = await BpeTokenizer.of(ggufOf(files[of]));
    assert.is(converted.kind, 'gguf-ugm');
    for (const [index, text] of texts.entries()) {
      const ids = (variants[name] as Variant).plain[index] as number[];
      const what = `${name} ${index} ${JSON.stringify(text.slice(0, 80))}`;
      assert.equal(converted.encode(text, plain), ids, what);
      assert.equal(converted.encode(text, { ...special, parseSpecial: false }), [bosId, ...ids, eosId], what);
    }
  }
});

test('a character without a token has the least score less ten, and unused tokens do not count', async () => {
  // The library gives these ids. With ordinary scores, which are negative, the exact number decides nothing.
  for (const [score, ids] of [
    [5, [6]],
    [12, [5, unknownId]],
  ] as const) {
    const vocab = [
      ...['<s>', '<pad>', '</s>', '<unk>', '▁'].map((token) => [token, 0] as const),
      ['a', score],
      ['ab', -1],
    ];
    const model = { type: 'Unigram', unk_id: unknownId, vocab };
    const pre_tokenizer = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'never' };
    const file = {
      ...files.plain,
      added_tokens: [],
      post_processor: null,
      normalizer: null,
      pre_tokenizer,
      model,
    };
    const tokenizer = await BpeTokenizer.of(tablesOf(file));
    assert.equal(tokenizer.encode('ab', plain), ids);
    const { normalizer } = files.plain;
    const converted = ggufOf({ model, normalizer } as unknown as File, {
      add_space_prefix: { type: 'bool', value: false },
    });
    assert.equal((await BpeTokenizer.of(converted)).encode('ab', plain), ids);
  }
});

test('GGUF metadata says whether spaces are removed, and whether one is put in front', async () => {
  const isFalse: WriterValue = { type: 'bool', value: false };
  const changes = { add_space_prefix: isFalse, remove_extra_whitespaces: isFalse, add_bos_token: isFalse };
  const { form, prefixIds, suffixIds } = ggufOf(files.plain, changes);
  assert.ok(form.kind === 'unigram' && form.spacePrefix === 'never');
  assert.equal(form.changes, [{ kind: 'charsmap' }]);
  assert.equal([prefixIds, suffixIds], [[], [eosId]]);
});

test('steps make no difference, whatever is encoded between them', async () => {
  for (const name of ['xlm-roberta', 'whole']) {
    const tokenizer = await BpeTokenizer.of(tablesOf(fileOf(name)));
    const long = ['a', 'ab', ' ', '東', '👋', '!?', 'é', '⌘', 'e\u0301', '\r\n'].map((part) =>
      part.repeat(5_000),
    );
    const all = [...texts, ...long, texts.join(' ')];
    const { ids, numRounds } = encodedByTurns(tokenizer, all);
    assert.ok(numRounds > 4, `${numRounds} rounds`);
    for (const [index, text] of all.entries())
      assert.equal(ids[index], tokenizer.encode(text, plain), `${name} ${JSON.stringify(text.slice(0, 40))}`);
  }
});

test('a long text is normalized as its parts are', async () => {
  const { form } = tablesOf(fileOf('xlm-roberta'));
  assert.ok(form.kind === 'unigram' && form.charsmap !== undefined);
  const normalizer = new CharsmapNormalizer(form.charsmap);
  const random = new Random();
  const normalized = (text: string) => [...normalizer.parts(text)].join('');
  for (let run = 0; run < 30; run++) {
    const some = Array.from({ length: 80 }, () => random.pick(texts).slice(0, 100));
    // No grapheme goes on behind a control character.
    const whole = normalized(some.join('\0'));
    assert.is(whole, some.map(normalized).join('\0'), `seed ${random.seed}, run ${run}`);
  }
});

test('graphemes are those of the library', () => {
  const codes = (ranges: string) =>
    new Set(
      ranges.split(' ').flatMap((range) => {
        const [first = '', last = first] = range.split('-');
        const begin = Number.parseInt(first, 16);
        return Array.from({ length: Number.parseInt(last, 16) - begin + 1 }, (_, index) => begin + index);
      }),
    );
  const attached = codes(graphemes.attached);
  const prepended = codes(graphemes.prepended);
  assert.ok(attached.size > 1000);
  const { form } = tablesOf(fileOf('xlm-roberta'));
  assert.ok(form.kind === 'unigram' && form.charsmap !== undefined);
  const normalizer = new CharsmapNormalizer(form.charsmap);
  const normalized = (text: string) => [...normalizer.parts(text)].join('');
  // What replaces the first character of a grapheme of up to 5 bytes takes the place of all of it.
  for (let code = 0x80; code < 0x1_0000; code++) {
    if (code >= 0xd800 && code < 0xe000) continue;
    const character = String.fromCharCode(code);
    const single = normalized(character);
    assert.is(normalized(`½${character}`), attached.has(code) ? '1⁄2' : `1⁄2${single}`, code.toString(16));
    if (prepended.has(code)) assert.is(normalized(`${character}z`), 'p', code.toString(16));
  }
  assert.is(prepended.size, 12);
});

test('a pair of texts has the tokens and types of the library, by each post-processor', async () => {
  const [one, other] = golden.pair;
  for (const { post_processor, ids, types } of golden.pairs) {
    const tokenizer = await BpeTokenizer.of(tablesOf({ ...fileOf('xlm-roberta'), post_processor }));
    const { pair } = tokenizer;
    assert.ok(pair !== undefined);
    const first = [...pair.prefixIds, ...tokenizer.encode(one, plain), ...pair.betweenIds];
    const second = [...tokenizer.encode(other, plain), ...pair.suffixIds];
    assert.equal([...first, ...second], ids);
    assert.equal([...first.map(() => 0), ...second.map(() => (pair.hasTypes ? 1 : 0))], types);
  }
  const { pair } = ggufOf(files.plain);
  assert.equal(pair, {
    prefixIds: [bosId],
    betweenIds: [eosId, eosId],
    suffixIds: [eosId],
    hasTypes: false,
  });
});

test('a template that puts a pair together in another way is none for pairs', () => {
  const text = (id: string, type_id = 0) => ({ Sequence: { id, type_id } });
  const end = (type_id: number) => ({ SpecialToken: { id: '</s>', type_id } });
  const template = {
    type: 'TemplateProcessing',
    single: [text('A')],
    special_tokens: { '</s>': { ids: [eosId] } },
  };
  for (const pair of [
    undefined,
    [text('A')],
    [text('B'), text('A')],
    [text('A'), text('B'), text('B')],
    [text('A', 1), text('B')],
    [text('A'), end(1), text('B', 1)],
    [text('A'), text('B', 2)],
  ])
    assert.is(tablesOf({ ...fileOf('never'), post_processor: { ...template, pair } }).pair, undefined);
});

test('text that spells a control token has none', async () => {
  const tokenizer = await BpeTokenizer.of(tablesOf(fileOf('xlm-roberta')));
  for (const literal of ['<s>', '</s>', '<mask>', '<pad>', '<unk>'])
    assert.ok(!tokenizer.encode(`the ${literal}`, plain).some((id) => tokenizer.isControl(id)), literal);
  assert.ok(tokenizer.controlLiterals.includes('<unk>'));
  // The library would find it in normalized text.
  assert.ok(!tokenizer.encode('the ＜s＞', { ...special, addSpecial: false }).includes(bosId));
});

test('a text that ends in unknown characters has one control token behind it, so that it can be cut', async () => {
  const tokenizer = await BpeTokenizer.of(tablesOf(fileOf('xlm-roberta')));
  const ids = tokenizer.encode('the 𓀀', special);
  assert.equal(ids.slice(-2), [unknownId, eosId]);
  assert.equal(
    ids.slice(-2).map((id) => tokenizer.isControl(id)),
    [false, true],
  );
});

test('decoding gives words with spaces between them', async () => {
  const tokenizer = await BpeTokenizer.of(tablesOf(fileOf('xlm-roberta')));
  assert.is(decodeAll(tokenizer, tokenizer.encode(' the  runner', special)), 'the runner');
});

test('the time for a text is linear in its length', async () => {
  const tokenizer = await BpeTokenizer.of(tablesOf(fileOf('whole')));
  for (const part of ['a', 'the', '東京', '⌘', 'e\u0301', '\u0301', ' ', '\u3000a', '\u0600'])
    await assertLinear(JSON.stringify(part), 200_000, (length) =>
      tokenizer.encode(part.repeat(length / part.length), plain),
    );
});

test("its reader's ids of long texts are the gateway's", async () => {
  const metadata = metadataOf(files.plain);
  const { tokenizer } = await loadModel(folder.write('xlm-r.gguf', writeGguf({ metadata })));
  assert.is(tokenizer.kind, 'gguf-ugm');
  const text = texts.join(' ').repeat(2);
  assert.ok(text.length > shortTextChars);
  const encoded = await within(patienceMs, 'The ids', tokenizer.encodeTexts([text], special));
  assert.equal(
    encoded.map((ids) => 'length' in ids && [...ids]),
    [tokenizer.encode(text, special)],
  );
  tokenizer.close();
});

test('segments have the ids of their text', async () => {
  const tokenizer = await BpeTokenizer.of(tablesOf(fileOf('xlm-roberta')));
  const random = new Random();
  for (const [index, text] of texts.entries()) {
    const at = random.below(text.length + 1);
    const segments = [text.slice(0, at), text.slice(at)].map((part) => ({ text: part, parseSpecial: false }));
    const expected = (variants['xlm-roberta'] as Variant).plain[index];
    assert.equal(
      finish(tokenizer.encodeSegments(segments, false)),
      expected,
      `seed ${random.seed}, text ${index}`,
    );
  }
});

test.run();
