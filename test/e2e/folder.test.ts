/** A model in a folder with Hugging Face's layout, from the gateway's tokenizer to the runner's weights. */

import { cpSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { cpuRunner, runnel } from '../fixtures/ran.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

const test = suite('model folders');
const folder = temporaryFolder();
const models = 'test/golden/models';

test('a folder answers as the GGUF file of the same weights, also quantised', () => {
  for (const name of [
    'qwen2',
    'gpt2',
    'llama3',
    'glm4',
    'smollm3',
    'granite',
    'olmo2',
    'gemma2',
    'gpt-oss',
  ]) {
    const answerOf = (model: string, ...flags: string[]) => {
      const prompt = ['--temperature', '0', '--max-tokens', '24', '--json', 'hello there'];
      const { status, stdout, stderr } = runnel('generate', '--model', model, ...flags, ...prompt);
      assert.is(status, 0, stderr);
      return (JSON.parse(stdout) as { token_ids: number[] }[]).map(({ token_ids }) => token_ids);
    };
    const folderPath = join(models, name);
    assert.equal(answerOf(folderPath), answerOf(join(models, `${name}-f32.gguf`)), name);
    const quantised = answerOf(folderPath, '--quantize', 'q8_0');
    assert.equal(quantised, answerOf(join(models, `${name}-q8_0.gguf`)), name);
  }
});

test('a folder whose weights are a pickle is refused by gateway and runner in the same words', () => {
  const path = join(folder.path, 'pickled');
  cpSync(join(models, 'qwen2'), path, { recursive: true });
  renameSync(join(path, 'model.safetensors'), join(path, 'pytorch_model.bin'));
  const sentence =
    `The model ${path} cannot be used: its weights are a pickle (pytorch_model.bin), which can run programs ` +
    'when it is read; fetch or convert them as safetensors.';
  const byGateway = runnel('generate', '--model', path, 'x');
  const byRunner = cpuRunner('inspect', '--model', path);
  for (const { status, stderr } of [byGateway, byRunner]) {
    assert.is(status, 65);
    assert.ok(stderr.includes(sentence), stderr);
  }
  rmSync(path, { recursive: true });
});

test.run();
