import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readModel } from '../../../gateway/models/read-model.ts';
import { BpeTokenizer } from '../../../gateway/tokenizer/bpe-tokenizer.ts';
import { CPU_RUNNER } from '../../fixtures/default-model.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('synth --byte-tokenizer');

const SHAPE = ['--arch', 'llama', '--shape', '160m', '--type', 'q2_k'];
const VOCABULARY = 32_000;
const ENDS = ['<|im_end|>', '<|endoftext|>'];

test('the gateway reads the file: text becomes bytes, every token has a text, and there is a template', async () => {
  const path = join(temporaryFolder().path, 'model.gguf');
  execFileSync(CPU_RUNNER, ['synth', ...SHAPE, '--byte-tokenizer', path], { stdio: 'ignore' });
  const { tables, stopIds, template } = await readModel(path);
  assert.match(template ?? '', '<|im_start|>assistant');
  const tokenizer = await BpeTokenizer.of(tables);
  const text = 'aé \n🍎';
  const ids = tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
  assert.is(ids.length, Buffer.byteLength(text));
  assert.equal([...tokenizer.missingBytes], []);
  const idOf = (text: string) => tokenizer.encode(text, { addSpecial: false, parseSpecial: true })[0];
  assert.equal(stopIds, ENDS.map(idOf));
  assert.is(tables.texts.starts.length - 1, VOCABULARY);
});

test.run();
