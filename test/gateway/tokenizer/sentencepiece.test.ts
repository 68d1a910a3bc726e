import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { tinyModel } from '../../fixtures/tiny-model.ts';

const test = suite('sentencepiece');
const plain = { addSpecial: false, parseSpecial: false };

/** The types of tokens in a GGUF file. */
const types = { normal: 1, unknown: 2, control: 3, byte: 6 };

test('a character becomes its byte tokens if all of them exist, and otherwise one unknown token', async () => {
  const tokens = ['<unk>', '<s>', '▁', 'a', '<0xC3>', '<0xA9>', '<0xE2>', '<0x82>'];
  const kinds = [types.unknown, types.control, types.normal, types.normal, ...Array(4).fill(types.byte)];
  const { tokenizer } = await tinyModel({
    'tokenizer.ggml.model': { type: 'string', value: 'llama' },
    'tokenizer.ggml.tokens': { type: 'array', of: 'string', value: tokens },
    'tokenizer.ggml.token_type': { type: 'array', of: 'int32', value: kinds },
    'tokenizer.ggml.scores': { type: 'array', of: 'float32', value: tokens.map(() => 0) },
    'tokenizer.ggml.unknown_token_id': { type: 'uint32', value: 0 },
    'tokenizer.ggml.bos_token_id': { type: 'uint32', value: 1 },
    'tokenizer.ggml.eos_token_id': { type: 'uint32', value: 1 },
  });
  assert.equal(tokenizer.encode('aéa', plain), [2, 3, 4, 5, 3]);
  assert.equal(tokenizer.encode('a€a', plain), [2, 3, 0, 3], 'the last byte of € has no token');
});

test.run();
