import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ModelFileError } from '../../../../gateway/errors/model-file-error.ts';
import { poolingOf } from '../../../../gateway/generation/embeddings.ts';
import { fileLimits } from '../../../../gateway/models/huggingface/json-file.ts';
import type { ModelPooling } from '../../../../gateway/models/model.ts';
import { readModel } from '../../../../gateway/models/read-model.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';
import { tinyTokenizerJson } from '../../../fixtures/tiny-tokenizer-json.ts';

const test = suite('modules of sentence-transformers');
const folder = temporaryFolder();

const TRANSFORMER = { idx: 0, name: '0', path: '', type: 'sentence_transformers.models.Transformer' };
const POOLING = { idx: 1, name: '1', path: '1_Pooling', type: 'sentence_transformers.models.Pooling' };
const NORMALIZE = { idx: 2, name: '2', path: '2_Normalize', type: 'sentence_transformers.models.Normalize' };
const DENSE = { idx: 2, name: '2', path: '2_Dense', type: 'sentence_transformers.models.Dense' };
const MODULES = 'modules.json';
const CONFIG = '1_Pooling/config.json';
const MODES = [
  'cls_token',
  'mean_tokens',
  'max_tokens',
  'mean_sqrt_len_tokens',
  'weightedmean_tokens',
  'lasttoken',
];
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

/** The modes as sentence-transformers writes them, with these on. */
function modes(...on: readonly string[]): object {
  return Object.fromEntries(MODES.map((mode) => [`pooling_mode_${mode}`, on.includes(mode)]));
}

async function poolingWith(config: unknown, modules: unknown = [TRANSFORMER, POOLING, NORMALIZE]) {
  return (await read({ [MODULES]: modules, [CONFIG]: config })).pooling;
}

/** The error that an embedding request gets. */
async function refusal(config: unknown, modules?: unknown): Promise<string> {
  const pooling = await poolingWith(config, modules);
  assert.is(poolingOf({ pooling }, 'mean'), 'mean', '--pooling comes before it');
  return (await errorOf(() => poolingOf({ pooling }))).message;
}

test('the mode of the folder is that of its vectors, with and without a module that scales them', async () => {
  assert.is(
    await poolingWith({ word_embedding_dimension: 64, ...modes('lasttoken'), include_prompt: true }),
    'last',
  );
  assert.is(await poolingWith(modes('mean_tokens'), [TRANSFORMER, POOLING]), 'mean');
  assert.is(await poolingWith(modes('cls_token')), 'cls');
  assert.is(await poolingWith({ pooling_mode: 'LastToken', pooling_mode_mean_tokens: true }), 'last');
  assert.is(await poolingWith({}), 'mean', 'as sentence-transformers has it');
  assert.is(await poolingWith({ ...modes('lasttoken'), include_prompt: false }), 'last');
  const renamed = [{ type: 'Transformer' }, { type: 'elsewhere.Pooling', path: '1_Pooling' }];
  assert.is(await poolingWith(modes('cls_token'), renamed), 'cls');
});

test('a folder without modules.json says nothing, whatever else is in it', async () => {
  assert.is((await read({})).pooling, undefined);
  assert.is((await read({ [CONFIG]: modes('mean_tokens') })).pooling, undefined);
  assert.is(poolingOf({ pooling: undefined }), 'last');
});

test('unsupported pooling is refused with the supported ones, unless --pooling is set', async () => {
  const known = 'which is not supported; choose another with --pooling: last, mean, cls.';
  for (const [config, modules, said] of [
    [modes('max_tokens'), undefined, `${CONFIG} says max`],
    [modes('weightedmean_tokens'), undefined, `${CONFIG} says weightedmean`],
    [modes('mean_sqrt_len_tokens'), undefined, `${CONFIG} says mean_sqrt_len_tokens`],
    [modes('cls_token', 'mean_tokens'), undefined, `${CONFIG} says cls and mean`],
    [{ pooling_mode_lasttoken: true }, undefined, `${CONFIG} says mean and lasttoken`],
    [modes(), undefined, `${CONFIG} says no mode`],
    [{ pooling_mode: 'cls+mean' }, undefined, `${CONFIG} says cls+mean`],
    [
      { ...modes('mean_tokens'), include_prompt: false },
      undefined,
      `${CONFIG} says mean with include_prompt false`,
    ],
    [modes('lasttoken'), [TRANSFORMER, POOLING, DENSE, NORMALIZE], `${MODULES} has the module "Dense"`],
    [modes('lasttoken'), [TRANSFORMER], `${MODULES} has 0 modules for pooling`],
    [modes('lasttoken'), [], `${MODULES} has 0 modules for pooling`],
    [modes('lasttoken'), [TRANSFORMER, POOLING, POOLING], `${MODULES} has 2 modules for pooling`],
    ...['../1_Pooling', '/etc', '2_Pooling', ''].map((path): [object, object[], string] => [
      modes('lasttoken'),
      [TRANSFORMER, { ...POOLING, path }],
      `${MODULES} has its pooling in "${join(path, 'config.json')}", not ${CONFIG}`,
    ]),
  ] as const)
    assert.is(await refusal(config, modules), `The model's ${said}, ${known}`);
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
