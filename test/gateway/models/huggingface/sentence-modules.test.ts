import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ModelFileError } from '../../../../gateway/errors/thrown.ts';
import * as embeddings from '../../../../gateway/generation/embeddings.ts';
import { fileLimits } from '../../../../gateway/models/huggingface/json-file.ts';
import type { ModelPooling } from '../../../../gateway/models/model.ts';
import { readModel } from '../../../../gateway/models/read-model.ts';
import type { Pooling } from '../../../../gateway/runner/runner.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { recordedCases } from '../../../fixtures/recorded-cases.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';
import { tinyTokenizerJson } from '../../../fixtures/tiny-tokenizer-json.ts';

const test = suite('modules of sentence-transformers');
const folder = temporaryFolder();

const TRANSFORMER = { idx: 0, name: '0', path: '', type: 'sentence_transformers.models.Transformer' };
const POOLING = { idx: 1, name: '1', path: '1_Pooling', type: 'sentence_transformers.models.Pooling' };
const NORMALIZE = { idx: 2, name: '2', path: '2_Normalize', type: 'sentence_transformers.models.Normalize' };
const MODULES = 'modules.json';
const CONFIG = '1_Pooling/config.json';
let written = 0;

/** Reads a folder with these files. Text is written as it is, anything else as JSON. */
function read(
  files: Readonly<Record<string, unknown>>,
): Promise<{ readonly pooling: ModelPooling | undefined }> {
  const path = join(folder.path, `model-${written++}`);
  const config = { model_type: 'llama', vocab_size: 300, max_position_embeddings: 512 };
  const all = {
    'config.json': config,
    'tokenizer.json': tinyTokenizerJson(),
    'model.safetensors': '',
    ...files,
  };
  for (const [name, value] of Object.entries(all)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    const isRaw = typeof value === 'string' || value instanceof Uint8Array;
    writeFileSync(join(path, name), isRaw ? value : JSON.stringify(value));
  }
  return readModel(path);
}

function poolingOf(pooling: ModelPooling | undefined, asked?: Pooling): Pooling {
  return embeddings.poolingOf({ architecture: 'llama', pooling }, { scoresPairs: false }, asked);
}

async function poolingWith(line: string): Promise<string> {
  const [config, modules = [TRANSFORMER, POOLING, NORMALIZE]] = JSON.parse(line);
  const { pooling } = await read({ [MODULES]: modules, [CONFIG]: config });
  assert.is(poolingOf(pooling, 'mean'), 'mean', '--pooling comes before it');
  try {
    return poolingOf(pooling);
  } catch (error) {
    return (error as Error).message;
  }
}

recordedCases(test, import.meta.url, poolingWith);

test('a folder without modules.json says nothing, whatever else is in it', async () => {
  assert.is((await read({})).pooling, undefined);
  assert.is((await read({ [CONFIG]: { pooling_mode_mean_tokens: true } })).pooling, undefined);
  assert.is(poolingOf(undefined), 'last');
});

test('hostile files are refused by name, with a sentence', async () => {
  const fault = async (files: Readonly<Record<string, unknown>>): Promise<string> => {
    const error = await errorOf(() => read({ [MODULES]: [TRANSFORMER, POOLING], ...files }));
    assert.instance(error, ModelFileError, error.stack ?? '');
    assert.is((error as ModelFileError).exitCode, 65);
    assert.ok(error.message.length < 1000 && error.message.endsWith('.'), error.message);
    return error.message;
  };
  for (const name of [MODULES, CONFIG] as const) {
    assert.match(await fault({ [name]: '' }), `: ${name} in it is not JSON`);
    assert.match(await fault({ [name]: Uint8Array.of(0x7b, 0xff, 0x7d) }), `: ${name} in it is not UTF-8`);
    for (const value of ['7', 'null', '"mean"', '['.repeat(100_000)]) await fault({ [name]: value });
    const limit = fileLimits[name];
    assert.match(
      await fault({ [name]: ' '.repeat(limit + 1) }),
      `: ${name} in it has ${limit + 1} bytes; at most ${limit} are allowed`,
    );
  }
  for (const modules of [{}, [7], [{}], [{ type: 7 }], [{ type: 'x'.repeat(201) }], Array(17).fill(POOLING)])
    assert.match(await fault({ [MODULES]: modules }), `${MODULES} in it has an unexpected value`);
  for (const config of [
    [],
    { pooling_mode_cls_token: 'yes' },
    { pooling_mode: ['cls'] },
    { include_prompt: 0 },
  ])
    assert.match(await fault({ [CONFIG]: config }), `${CONFIG} in it has an unexpected value`);
  assert.match(await fault({}), `${MODULES} in it names ${CONFIG}, which does not exist`);
});

test.run();
