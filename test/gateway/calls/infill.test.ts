import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { encodeWithGap, infillEnds, infillMarks } from '../../../gateway/calls/infill.ts';
import { BpeTokenizer } from '../../../gateway/tokenizer/bpe-tokenizer.ts';
import { tablesOfTokenizerJson } from '../../../gateway/tokenizer/huggingface/tokenizer-json.ts';
import { fillingModel, TURN_ID } from '../../fixtures/byte-model.ts';
import { fetchedVocabularies, readVocabulary } from '../../vocabularies/vocabularies.ts';

const test = suite('infill');

const none = { bosToken: undefined, eosToken: undefined, addBos: undefined, addEos: undefined };
/**
 * The ids in front of the text, of the suffix and of the gap, as the makers of the models say, and further ones that end what fills
 * the gap.
 */
const EXPECTED: Readonly<Record<string, readonly [number[], number[]] | undefined>> = {
  gpt2: undefined,
  llama3_1: undefined,
  // Qwen2.5-Coder's vocabulary; its own script for gaps ends at these.
  qwen3: [
    [151_659, 151_661, 151_660],
    [151_662, 151_663, 151_664],
  ],
  deepseek_v3: [[128_801, 128_800, 128_802], []],
};

for (const name of fetchedVocabularies().filter((each) => each in EXPECTED))
  test(`the marks and ends of ${name} are those that its makers name, or there are none`, async () => {
    const tokenizer = await BpeTokenizer.of(tablesOfTokenizerJson(readVocabulary(name), none));
    const [marks, ends = []] = EXPECTED[name] ?? [];
    assert.equal(infillMarks(tokenizer), marks);
    assert.equal(infillEnds(tokenizer), [...(marks ?? []), ...ends]);
  });

test('a prompt with a gap begins with BOS where the model wants it, and has it nowhere else', async () => {
  const { tokenizer } = fillingModel;
  const withBos: typeof tokenizer = {
    ...tokenizer,
    bosId: TURN_ID,
    encode: (text, options) => [...(options.addSpecial ? [TURN_ID] : []), ...tokenizer.encode(text, options)],
    encodeTexts: async (texts, options) => texts.map((text) => withBos.encode(text, options)),
  };
  const limit = { maxModelLen: 512 };
  const encoded = (model: typeof fillingModel) => encodeWithGap(['a', [98]], 'c', model, limit, {});
  const [text, suffix, gap] = infillMarks(tokenizer) ?? [];
  assert.equal(await encoded({ ...fillingModel, tokenizer: withBos }), [
    [TURN_ID, text, 97, suffix, 99, gap],
    [TURN_ID, text, 98, suffix, 99, gap],
  ]);
  assert.equal(await encoded(fillingModel), [
    [text, 97, suffix, 99, gap],
    [text, 98, suffix, 99, gap],
  ]);
});

test.run();
