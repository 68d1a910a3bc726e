/** Ids must equal those of Hugging Face's tokenizers: test/golden/make_tokenizer_golden.py. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { decodeAll } from '../../../gateway/generation/text-decoder.ts';
import { readGguf } from '../../../gateway/models/gguf.ts';
import { tokenizerOfGguf } from '../../../gateway/models/gguf-tables.ts';
import { type GgufValue, Metadata } from '../../../gateway/models/metadata.ts';
import { resolveModel } from '../../../gateway/models/model-cache.ts';
import { BpeTokenizer } from '../../../gateway/tokenizer/bpe-tokenizer.ts';
import { encodedByTurns } from '../../fixtures/encoding-by-turns.ts';

interface Golden {
  readonly pre: string;
  readonly cases: readonly { readonly text: string; readonly plain: number[]; readonly special: number[] }[];
}

const test = suite('tokenizer golden');

/** The default model's vocabulary with another pre-tokenizer. */
function tokenizerWith(pre: string) {
  const fd = openSync(resolveModel('smollm2'), 'r');
  const metadata = readGguf(fd, fstatSync(fd).size);
  closeSync(fd);
  const keys = ['model', 'tokens', 'token_type', 'merges', 'bos_token_id', 'eos_token_id'];
  const values = new Map<string, GgufValue>([['tokenizer.ggml.pre', { type: 'string', value: pre }]]);
  for (const key of keys.map((name) => `tokenizer.ggml.${name}`))
    values.set(key, metadata.get(key) as GgufValue);
  return BpeTokenizer.of(tokenizerOfGguf(new Metadata(values)).tables);
}

for (const pre of ['smollm', 'gpt-2']) {
  const golden: Golden = JSON.parse(
    readFileSync(new URL(`../../golden/tokenizer-${pre}.json`, import.meta.url), 'utf8'),
  );
  const tokenizer = await tokenizerWith(pre);
  const missing = new Set(tokenizer.missingBytes);

  test(`${pre}: the ids of ${golden.cases.length} texts`, () => {
    assert.is(golden.pre, pre);
    assert.ok(golden.cases.length >= 120);
    for (const { text, plain, special } of golden.cases) {
      const name = JSON.stringify(text);
      assert.equal(
        tokenizer.encode(text, { addSpecial: false, parseSpecial: false }),
        plain,
        `plain ${name}`,
      );
      assert.equal(
        tokenizer.encode(text, { addSpecial: false, parseSpecial: true }),
        special,
        `special ${name}`,
      );
    }
  });

  test(`${pre}: the ids of texts that are encoded in steps, several side by side`, () => {
    const texts = golden.cases.map(({ text }) => text);
    // Long words, which are merged in buffers of their own, and others that share theirs.
    for (const long of ['a', 'ab', ' ', '👋', '1', '!?']) texts.push(long.repeat(10_000));
    texts.push(texts.join(''), texts.join(' '));
    for (const parseSpecial of [false, true]) {
      const options = { addSpecial: false, parseSpecial };
      const { ids, numRounds } = encodedByTurns(tokenizer, texts, parseSpecial);
      assert.ok(numRounds > 10, `${numRounds} rounds`);
      for (const [index, { text, plain, special }] of golden.cases.entries())
        assert.equal(ids[index], parseSpecial ? special : plain, JSON.stringify(text));
      for (const [index, text] of texts.entries())
        assert.equal(ids[index], tokenizer.encode(text, options), JSON.stringify(text.slice(0, 40)));
    }
  });

  test(`${pre}: decoding gives the text back, but for bytes that the vocabulary lacks`, () => {
    for (const { text, plain } of golden.cases) {
      const kept = Buffer.from(text, 'utf8').filter((byte) => !missing.has(byte));
      assert.is(decodeAll(tokenizer, plain), Buffer.from(kept).toString('utf8'));
    }
  });
}

test.run();
