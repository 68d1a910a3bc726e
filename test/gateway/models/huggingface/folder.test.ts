import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ModelFileError } from '../../../../gateway/errors/thrown.ts';
import { loadModel, ModelSlot } from '../../../../gateway/models/model-slot.ts';
import { readModel } from '../../../../gateway/models/read-model.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { assertLinear } from '../../../fixtures/linear.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';
import { tinyTokenizerJson } from '../../../fixtures/tiny-tokenizer-json.ts';

const test = suite('Hugging Face folder');
const folder = temporaryFolder();

type Files = Readonly<Record<string, unknown>>;

const whole: Files = {
  'config.json': {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    vocab_size: 300,
    max_position_embeddings: 512,
    torch_dtype: 'bfloat16',
    eos_token_id: 263,
  },
  'generation_config.json': { eos_token_id: [263, 262] },
  'tokenizer_config.json': { bos_token: { content: '<|bos|>' }, eos_token: '<|im_end|>', chat_template: 'T' },
  'tokenizer.json': tinyTokenizerJson(),
  'model.safetensors': '',
};
let written = 0;

/** The given files replace those of a complete folder; undefined leaves a file out. Text is written as it is. */
function folderWith(files: Files = {}): string {
  const path = join(folder.path, `parent-${written++}`, 'model');
  mkdirSync(path, { recursive: true });
  for (const [name, value] of Object.entries({ ...whole, ...files })) {
    if (value === undefined) continue;
    const isRaw = typeof value === 'string' || value instanceof Uint8Array;
    writeFileSync(join(path, name), isRaw ? value : JSON.stringify(value));
  }
  return path;
}

async function fault(files: Files, exitCode = 65): Promise<string> {
  const path = folderWith(files);
  const error = await errorOf(() => readModel(path));
  assert.instance(error, ModelFileError, error.stack ?? '');
  assert.is((error as ModelFileError).exitCode, exitCode);
  assert.ok(error.message.includes(path), error.message);
  assert.ok(error.message.length < 2000 && error.message.endsWith('.'), error.message);
  return error.message;
}

test('a folder gives what a GGUF file gives', async () => {
  const path = folderWith();
  const model = await loadModel(path);
  assert.is(model.id, 'model');
  assert.is(model.architecture, 'llama');
  assert.is(model.contextLength, 512);
  assert.is(model.quantKind, 'BF16');
  assert.is(model.tokenizer.kind, 'hf-json');
  assert.is(model.tokenizer.vocabSize, 300);
  assert.is(model.tokenizer.bosId, 262);
  assert.is(model.tokenizer.eosId, 263);
  assert.equal(model.stopIds, [263, 262]);
  assert.ok(model.chatTemplate !== undefined);
  assert.equal(model.tokenizer.encode('hello', { addSpecial: true, parseSpecial: false }), [259]);
  assert.equal([...model.tokenizer.bytes(299)], [], 'an id that the tokenizer does not name');
  model.tokenizer.close();
});

test('the template may be in a separate file or one of several', async () => {
  assert.is((await readModel(folderWith())).template, 'T');
  assert.is((await readModel(folderWith({ 'chat_template.jinja': 'J' }))).template, 'J');
  const several = [
    { name: 'tool_use', template: 'U' },
    { name: 'default', template: 'D' },
  ];
  assert.is(
    (await readModel(folderWith({ 'tokenizer_config.json': { chat_template: several } }))).template,
    'D',
  );
  assert.is((await readModel(folderWith({ 'tokenizer_config.json': undefined }))).template, undefined);
});

test('tokenizer.json is looked for beside the model, where the gateway was started, and beside its folder', async () => {
  const path = folderWith({ 'tokenizer.json': undefined });
  const paths = [
    join(path, 'tokenizer.json'),
    join(process.cwd(), 'tokenizer.json'),
    join(path, '..', 'tokenizer.json'),
  ];
  const error = await errorOf(() => readModel(path));
  assert.match(error.message, `Tokenizer not found. Searched paths: ${paths.join(', ')}.`);
  writeFileSync(join(path, '..', 'tokenizer.json'), JSON.stringify(tinyTokenizerJson()));
  assert.is((await readModel(path)).tables.kind, 'hf-json');
});

test('a folder is read again when its weights have changed, and not before', async () => {
  const path = folderWith();
  const slot = new ModelSlot(path);
  await slot.refresh();
  const model = slot.current;
  await slot.refresh();
  assert.is(slot.current, model);
  rmSync(join(path, 'model.safetensors'));
  writeFileSync(join(path, 'model.safetensors'), 'others');
  await slot.refresh();
  assert.is.not(slot.current, model);
  slot.close();
});

test('weights are safetensors; a pickle is refused with the reason', async () => {
  assert.match(
    await fault({ 'model.safetensors': undefined }),
    'neither model.safetensors nor model.safetensors.index.json',
  );
  const pickle = { 'model.safetensors': undefined, 'pytorch_model.bin': 'x' };
  assert.match(await fault(pickle), 'a pickle (pytorch_model.bin), which can run programs');
  const sharded = folderWith({ 'model.safetensors': undefined, 'model.safetensors.index.json': '{}' });
  assert.is((await readModel(sharded)).architecture, 'llama');
});

test('an architecture that needs an operation that no runner has is refused with the operation', async () => {
  for (const [model_type, missing] of [
    ['jina-bert-v2', 'ALiBi, biases of scores by distance'],
    ['new', 'NTK scaling of rotations in an encoder'],
  ]) {
    const refusal = await fault({ 'config.json': { ...(whole['config.json'] as object), model_type } });
    const sentence = `architecture "${model_type}", which is not supported: it needs ${missing}; supported: `;
    assert.match(refusal, sentence);
  }
});

test('Mixtral is a llama, and other names of GGUF differ in a character', async () => {
  for (const [model_type, architecture] of [
    ['mixtral', 'llama'],
    ['nomic_bert', 'nomic-bert'],
    ['gpt_oss', 'gpt-oss'],
  ]) {
    const config = { ...(whole['config.json'] as object), model_type };
    assert.is((await readModel(folderWith({ 'config.json': config }))).architecture, architecture);
  }
});

test('RoBERTa is a bert whose positions begin behind that of padding', async () => {
  const roberta = {
    ...(whole['config.json'] as object),
    model_type: 'xlm-roberta',
    max_position_embeddings: 514,
  };
  const model = await readModel(folderWith({ 'config.json': roberta }));
  assert.equal([model.architecture, model.contextLength], ['bert', 512]);
  for (const [pad_token_id, first] of [
    [0, 1],
    [512, 513],
  ] as const) {
    const config = { ...roberta, model_type: 'roberta', pad_token_id };
    assert.is((await readModel(folderWith({ 'config.json': config }))).contextLength, 514 - first);
  }
  for (const pad_token_id of [-2, 513])
    assert.match(
      await fault({ 'config.json': { ...roberta, pad_token_id } }),
      `its pad_token_id is ${pad_token_id}, but max_position_embeddings is 514`,
    );
});

test('missing or invalid files are named', async () => {
  const config = (changes: object) => ({
    'config.json': { ...(whole['config.json'] as object), ...changes },
  });
  assert.match(await fault({ 'config.json': undefined }, 66), 'there is no config.json in it');
  assert.match(
    await fault(config({ model_type: 'xverse' })),
    'architecture "xverse", which is not supported;',
  );
  assert.match(await fault(config({ vocab_size: undefined })), 'does not say vocab_size');
  assert.match(
    await fault(config({ max_position_embeddings: undefined })),
    'does not say max_position_embeddings',
  );
  assert.match(await fault(config({ vocab_size: 2 ** 40 })), 'at vocab_size');
  assert.match(
    await fault({ ...config({ vocab_size: 200, eos_token_id: null }), 'generation_config.json': undefined }),
    'has the token 264, but its config.json says',
  );
  assert.match(await fault(config({ eos_token_id: 300 })), 'eos_token_id is 300');
  assert.match(
    await fault({ 'generation_config.json': { eos_token_id: 'x' } }),
    'generation_config.json in it',
  );
});

const SECRET = 'root:x:0:0:a secret';
const LINKED = [
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'chat_template.jinja',
  'modules.json',
] as const;

test('a link out of the folder is not followed, and its content not repeated', async () => {
  const secret = join(folder.path, 'secret');
  writeFileSync(secret, SECRET);
  const refusalOf = async (path: string): Promise<string> => {
    const error = await errorOf(() => readModel(path));
    assert.instance(error, ModelFileError, error.stack ?? '');
    assert.not.match(error.message, 'secret');
    return error.message;
  };
  for (const name of LINKED) {
    const path = folderWith({ [name]: undefined });
    symlinkSync(secret, join(path, name));
    assert.match(await refusalOf(path), `${name} in it is a link to a file outside of it`);
  }
  const pooled = folderWith({
    'modules.json': [{ type: 'a.Transformer' }, { type: 'a.Pooling', path: '1_Pooling' }],
  });
  mkdirSync(join(folder.path, 'elsewhere'));
  writeFileSync(join(folder.path, 'elsewhere', 'config.json'), SECRET);
  symlinkSync(join(folder.path, 'elsewhere'), join(pooled, '1_Pooling'));
  assert.match(await refusalOf(pooled), '1_Pooling/config.json in it is a link to a file outside of it');
});

test('links are followed within the folder, in the snapshot of a repository, and into the hub’s cache', async () => {
  const inside = folderWith({ 'chat_template.jinja': undefined, other: 'J' });
  symlinkSync('other', join(inside, 'chat_template.jinja'));
  assert.is((await readModel(inside)).template, 'J');
  const outer = join(folder.path, 'link-to-a-model');
  symlinkSync(inside, outer);
  assert.is((await readModel(outer)).template, 'J');
  const snapshots = join(folder.path, 'hub/models--a--b/snapshots');
  const snapshot = join(snapshots, '0'.repeat(40));
  mkdirSync(snapshots, { recursive: true });
  mkdirSync(join(snapshots, '../blobs'));
  renameSync(folderWith({ 'chat_template.jinja': undefined }), snapshot);
  const blob = join(snapshots, '../blobs/hash');
  writeFileSync(blob, 'B');
  symlinkSync('../../blobs/hash', join(snapshot, 'chat_template.jinja'));
  assert.is((await readModel(snapshot)).template, 'B');
  const copied = folderWith({ 'chat_template.jinja': undefined });
  symlinkSync(blob, join(copied, 'chat_template.jinja'));
  const { HF_HUB_CACHE } = process.env;
  try {
    process.env.HF_HUB_CACHE = join(folder.path, 'hub');
    assert.is((await readModel(copied)).template, 'B');
    process.env.HF_HUB_CACHE = join(folder.path, 'nowhere');
    assert.match((await errorOf(() => readModel(copied))).message, 'is a link to a file outside of it');
  } finally {
    if (HF_HUB_CACHE === undefined) delete process.env.HF_HUB_CACHE;
    else process.env.HF_HUB_CACHE = HF_HUB_CACHE;
  }
});

test('an error about a file does not repeat its content', async () => {
  for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json']) {
    const message = await fault({ [name]: SECRET });
    assert.match(message, `${name} in it is not JSON`);
    assert.not.match(message, /root|secret/);
  }
});

test('hostile files are refused with a sentence, in time in proportion to their size', async () => {
  for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'generation_config.json']) {
    assert.match(await fault({ [name]: '' }), `${name} in it is not JSON`);
    assert.match(await fault({ [name]: '{"model_type":' }), `${name} in it is not JSON`);
    assert.match(await fault({ [name]: Uint8Array.of(0x7b, 0xff, 0x7d) }), `${name} in it is not UTF-8`);
    assert.match(
      await fault({ [name]: '[]' }),
      name === 'tokenizer.json' ? 'its tokenizer.json is not valid' : 'has an unexpected value',
    );
    await assertLinear(`${name} that opens`, 100_000, (depth) => fault({ [name]: '['.repeat(depth) }));
    await assertLinear(`${name} that nests`, 100_000, (depth) =>
      fault({ [name]: '['.repeat(depth) + ']'.repeat(depth) }),
    );
  }
  assert.match(
    await fault({ 'config.json': ' '.repeat(2 ** 20 + 1) }),
    '1048577 bytes; at most 1048576 are allowed',
  );
  await assertLinear('tokens with one id', 100_000, async (length) => {
    const vocab = Object.fromEntries(Array.from({ length }, (_, index) => [`t${index}`, 5]));
    const sentence = await fault({ 'tokenizer.json': tinyTokenizerJson({}, { vocab }) });
    assert.match(sentence, 'both have the id 5');
  });
  await assertLinear('merges', 100_000, async (length) => {
    const merges = Array.from({ length }, () => 'a a');
    assert.match(await fault({ 'tokenizer.json': tinyTokenizerJson({}, { merges }) }), 'occurs twice');
  });
});

test.run();
