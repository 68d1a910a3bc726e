import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ROOT } from '../../../deploy/source-urls.ts';
import { bytesOfTree, MAX_SENT_BYTES, openedPaths, sizeReport } from './contents.ts';

const test = suite('contents of a cuda kit');

const MEBIBYTE = 1 << 20;

test('the models that its programs name are in it, and no tokenizer or template that other tests read', () => {
  const paths = new Set(openedPaths(ROOT));
  const source = (path: string) => readFileSync(join(ROOT, path), 'utf8');
  const table = /kGoldenModels = \{(.*?)\n\};/s.exec(source('test/fixtures/golden_models.h'))?.[1] ?? '';
  const models = [...table.matchAll(/\{"([^"]+)", "([^"]+)"/g)];
  assert.ok(models.length >= 17, 'the table of models was found');
  for (const [, name, golden] of models)
    for (const file of [`${name}-f32.gguf`, `${name}-q8_0.gguf`, name, `${golden}.json`])
      assert.ok(paths.has(`test/golden/models/${file}`), file);
  const names = [...source('test/exactness/tiny_models.h').matchAll(/"([a-z0-9-]+-(?:f32|q8_0))"/g)];
  assert.ok(names.length >= 18, 'the files of exactness were found');
  for (const [, name] of names) assert.ok(paths.has(`test/golden/models/${name}.gguf`), name);
  for (const file of source('test/cuda-runner/golden_models_test.cc').matchAll(
    /golden_model_path\("(.+?)"\)/g,
  ))
    assert.ok(paths.has(`test/golden/models/${file[1]}`), file[1]);
  for (const type of ['f32', 'f16', 'q4_0', 'q4_1', 'q8_0', 'window'])
    for (const end of ['gguf', 'json']) assert.ok(paths.has(`test/golden/tiny-llama-${type}.${end}`), type);
  for (const path of ['jinja.json', 'nano-vllm-trace.jsonl', 'models/bert', 'models/roberta-f32.gguf'])
    assert.not.ok(paths.has(`test/golden/${path}`), path);
});

test('its size is reported with that of the tree, and what is too much', () => {
  assert.is(sizeReport(20 * MEBIBYTE, 30 * MEBIBYTE), '20.0 MiB, with this tree 50.0 MiB');
  assert.match(sizeReport(40 * MEBIBYTE, 36 * MEBIBYTE), 'without 12.0 MiB of its files');
  assert.ok(bytesOfTree(ROOT) > MEBIBYTE && MAX_SENT_BYTES === 64 * MEBIBYTE);
});

test.run();
