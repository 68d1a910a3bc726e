/**
 * Published vocabularies: ids must equal those of Hugging Face's tokenizers (test/golden/make_vocabulary_golden.py),
 * both from tokenizer.json and from the GGUF metadata of the same vocabulary.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { decodeAll, StreamingDecoder } from '../../../gateway/generation/text-decoder.ts';
import { tokenizerOfGguf } from '../../../gateway/models/gguf-tables.ts';
import { BpeTokenizer } from '../../../gateway/tokenizer/bpe-tokenizer.ts';
import { tablesOfTokenizerJson } from '../../../gateway/tokenizer/huggingface/tokenizer-json.ts';
import { ggufOf } from '../../fixtures/gguf-of-tokenizer-json.ts';
import { Random } from '../../fixtures/random.ts';
import { fetchedVocabularies, readVocabulary } from '../../vocabularies/vocabularies.ts';

interface Golden {
  readonly file: string;
  readonly plain: readonly string[];
  readonly special: readonly string[];
  readonly decoded: readonly string[];
}

const test = suite('vocabularies');
const golden = (name: string) =>
  JSON.parse(readFileSync(new URL(`../../golden/${name}.json`, import.meta.url), 'utf8'));
const goldens: Readonly<Record<string, Golden>> = golden('vocabulary-ids');
const shortTexts: readonly string[] = golden('vocabulary-texts');
const texts = [...shortTexts, mixedText(2 ** 20)];

const none = { bosToken: undefined, eosToken: undefined, addBos: undefined, addEos: undefined };
/** The name that a converter gives the pre-tokenizer. undefined for SentencePiece. */
const preNames: Readonly<Record<string, string | undefined>> = {
  gpt2: 'gpt-2',
  llama3_1: 'llama-bpe',
  qwen3: 'qwen2',
  deepseek_v3: 'deepseek-v3',
  mistral_nemo: 'tekken',
  gpt4o: 'gpt-4o',
};
/** gpt-oss merges whole words first, which the name of its pre-tokenizer does not say: see named.ts. */
const notConverted: readonly string[] = ['gptoss'];

/** The same text as in the script. */
function mixedText(numBytes: number): string {
  let text = '';
  let state = 1;
  for (let size = 0; size < numBytes; ) {
    state = Number((BigInt(state) * 1103515245n + 12345n) % 2n ** 31n);
    const next = shortTexts[(state >> 8) % shortTexts.length] as string;
    text += next;
    size += Buffer.byteLength(next);
  }
  return text;
}

function digest(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 8);
}

const digestOfIds = (ids: readonly number[]) => digest(new Uint8Array(Uint32Array.from(ids).buffer));

assert.ok(shortTexts.length >= 500);
console.log(`${fetchedVocabularies().length} vocabularies`);

for (const name of fetchedVocabularies()) {
  const expected = goldens[name] as Golden;
  const file = readVocabulary(name);
  const json = JSON.parse(file.toString('utf8'));
  const tables = tablesOfTokenizerJson(file, none);
  const tokenizer = await BpeTokenizer.of(tables);

  test(`${name}: ids of ${texts.length} texts, one of them of a megabyte`, () => {
    assert.is(
      createHash('sha256').update(file).digest('hex'),
      expected.file,
      'another file than that of the golden ids',
    );
    for (const [index, text] of texts.entries()) {
      const plain = tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
      const what = JSON.stringify(text.slice(0, 80));
      assert.is(digestOfIds(plain), expected.plain[index], `plain ${index} ${what}: ${plain.slice(0, 40)}`);
      const special = tokenizer.encode(text, { addSpecial: true, parseSpecial: true });
      assert.is(
        digestOfIds(special),
        expected.special[index],
        `special ${index} ${what}: ${special.slice(0, 40)}`,
      );
      assert.is(digest(decodeAll(tokenizer, plain)), expected.decoded[index], `decoded ${index} ${what}`);
      assert.ok(tokenizer.leastTokens(text) <= plain.length, `least tokens ${index} ${what}`);
    }
  });

  test(`${name}: pieces of any cut are the whole, without U+FFFD inside valid text`, () => {
    const random = new Random();
    for (const text of shortTexts) {
      const ids = tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
      const whole = decodeAll(tokenizer, ids);
      const decoder = new StreamingDecoder(tokenizer, true);
      let pieces = '';
      for (let at = 0; at < ids.length; ) {
        const end = at + 1 + random.below(4);
        for (const id of ids.slice(at, end)) {
          const piece = decoder.decode(id);
          assert.ok(
            text.includes('\uFFFD') || !piece.includes('\uFFFD'),
            `seed ${random.seed} ${JSON.stringify(text)}`,
          );
          pieces += piece;
        }
        at = end;
      }
      assert.is(pieces + decoder.flush(), whole, `seed ${random.seed}`);
    }
  });

  test(`${name}: control tokens in text stay text unless asked for`, () => {
    for (const literal of tokenizer.controlLiterals.slice(0, 300)) {
      const ids = tokenizer.encode(`a${literal}b`, { addSpecial: false, parseSpecial: false });
      assert.not.ok(
        ids.some((id) => id !== tables.unknownId && tokenizer.isControl(id)),
        `${literal}: ${ids}`,
      );
    }
  });

  if (notConverted.includes(name)) continue;
  test(`${name}: the same ids from the metadata of a GGUF file`, async () => {
    // If a text contains SentencePiece's mark for spaces itself, user-defined tokens of spaces in a GGUF file end at it.
    const alike = texts.filter((text) => preNames[name] !== undefined || !text.includes('▁'));
    const converted = await BpeTokenizer.of(tokenizerOfGguf(ggufOf(json, tables, preNames[name])).tables);
    for (const options of [
      { addSpecial: false, parseSpecial: false },
      { addSpecial: true, parseSpecial: true },
    ]) {
      for (const text of alike)
        assert.equal(
          converted.encode(text, options),
          tokenizer.encode(text, options),
          JSON.stringify(text.slice(0, 80)),
        );
    }
    for (let id = 0; id < tokenizer.vocabSize; id += 7) {
      if (!tokenizer.isControl(id)) assert.equal(converted.bytes(id), tokenizer.bytes(id), `token ${id}`);
    }
  });
}

test("GPT-2's own vectors", async () => {
  const tokenizer = await BpeTokenizer.of(tablesOfTokenizerJson(readVocabulary('gpt2'), none));
  const encode = (text: string, parseSpecial = false) =>
    tokenizer.encode(text, { addSpecial: false, parseSpecial });
  assert.equal(encode('Hello.'), [15496, 13]);
  assert.equal(encode('Hello world'), [15496, 995]);
  assert.equal(encode('<|endoftext|>', true), [50256]);
  assert.not.ok(encode('<|endoftext|>').includes(50256));
});

test.run();
