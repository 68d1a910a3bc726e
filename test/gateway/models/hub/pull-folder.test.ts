import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type HubOptions, pullFromHub } from '../../../../gateway/models/hub/pull-from-hub.ts';
import { maxShards } from '../../../../gateway/models/huggingface/folder-files.ts';
import { fileLimits } from '../../../../gateway/models/huggingface/json-file.ts';
import { modelIdOf } from '../../../../gateway/models/model.ts';
import { listModels, resolveModel } from '../../../../gateway/models/model-cache.ts';
import { PullError } from '../../../../gateway/models/pull-report.ts';
import { readModel } from '../../../../gateway/models/read-model.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { COMMIT, FakeHub, gitId, type HubEntry, sha256 } from '../../../fixtures/fake-hub.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';
import { PATIENCE_MS } from '../../../fixtures/within.ts';

const test = suite<{ hub: FakeHub; cache: string }>('pull of a folder');
const folder = temporaryFolder();
const NAME = 'hf:owner/repo';
const INDEX = 'model.safetensors.index.json';
const SHARDS = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'] as const;
const golden = fileURLToPath(new URL('../../../golden/models/qwen2', import.meta.url));
const weights = readFileSync(join(golden, 'model.safetensors'));
const smallFiles = readdirSync(golden).filter((name) => name !== 'model.safetensors');
const limits = { maxVainAttempts: 1, firstDelayMs: 1, stallTimeoutMs: PATIENCE_MS };
let output = '';
let runs = 0;

test.before.each(async (context) => {
  context.hub = await FakeHub.start(Buffer.from('another file'));
  for (const name of smallFiles)
    context.hub.files.set(name, { content: readFileSync(join(golden, name)), isSmall: true });
  context.hub.files.set('model.safetensors', { content: weights });
  context.cache = join(folder.path, `hub-${runs++}`);
  process.env.HF_HUB_CACHE = context.cache;
  process.env.RUNNEL_CACHE = join(context.cache, 'runnel');
  output = '';
});
test.after.each(({ hub }) => hub.stop());

function pull(hub: FakeHub, change: Partial<HubOptions> = {}): Promise<string> {
  const log = { write: (text: string) => (output += text) };
  return pullFromHub(NAME, { endpoint: hub.url, token: undefined, output: log, limits, ...change });
}

/** The error of a pull. Checks that no model is left, not even a part of one. */
async function faultOf(hub: FakeHub): Promise<PullError> {
  const error = await errorOf(() => pull(hub));
  assert.instance(error, PullError, error.stack ?? '');
  assert.match(error.message, /^[^\n]+\.$/);
  assert.throws(() => resolveModel(NAME), /has not been fetched yet/);
  assert.equal(listModels(), []);
  return error as PullError;
}

/** Splits the weights into two files with an index. */
function split(hub: FakeHub, shards: readonly string[] = SHARDS): void {
  hub.files.delete('model.safetensors');
  const names = Object.fromEntries(shards.map((shard, tensor) => [`tensor.${tensor}`, shard]));
  hub.files.set(INDEX, { content: Buffer.from(JSON.stringify({ weight_map: names })), isSmall: true });
  for (const shard of SHARDS) hub.files.set(shard, { content: Buffer.from(`weights of ${shard}`) });
}

test('a folder lands in the cache of the hub’s own tools, is found, listed and read, and is quick the second time', async ({
  hub,
  cache,
}) => {
  assert.throws(() => resolveModel(NAME), 'run `npx runnel pull hf:owner/repo` first');
  const path = await pull(hub);
  const repo = join(cache, 'models--owner--repo');
  assert.is(path, join(repo, 'snapshots', COMMIT));
  assert.equal(readdirSync(path), readdirSync(golden));
  for (const name of readdirSync(golden))
    assert.ok(readFileSync(join(path, name)).equals(readFileSync(join(golden, name))), name);
  assert.is(readlinkSync(join(path, 'model.safetensors')), `../../blobs/${sha256(weights)}`);
  const config = readFileSync(join(golden, 'config.json'));
  assert.is(readlinkSync(join(path, 'config.json')), `../../blobs/${gitId(config)}`);
  assert.is(resolveModel(NAME), path);
  const bytes = readdirSync(golden).reduce((sum, name) => sum + readFileSync(join(golden, name)).length, 0);
  assert.equal(listModels(), [{ name: NAME, bytes, path }]);
  assert.is((await readModel(path)).architecture, 'qwen2');
  assert.is(modelIdOf(path), 'repo');

  output = '';
  const numAsked = hub.storeAsked.length;
  assert.is(await pull(hub), path);
  assert.is(output, `${NAME} is already there.\n`);
  assert.is(hub.storeAsked.length, numAsked);
});

test('weights in several files come with their list, and nothing else of the repository does', async ({
  hub,
}) => {
  split(hub);
  for (const name of ['modeling.py', 'pytorch_model.bin', 'README.md'])
    hub.files.set(name, { content: Buffer.from('other') });
  const path = await pull(hub);
  assert.equal(readdirSync(path).sort(), [...smallFiles, INDEX, ...SHARDS].sort());
  assert.is(readFileSync(join(path, SHARDS[1]), 'utf8'), `weights of ${SHARDS[1]}`);
});

test('how vectors are made of texts comes with the folder, where it says so, and is checked as its other files are', async ({
  hub,
}) => {
  const modules = [{ type: 'Transformer' }, { type: 'Pooling', path: '1_Pooling' }];
  const config = { pooling_mode_cls_token: true, pooling_mode_mean_tokens: false };
  const others = Object.entries({ 'modules.json': modules, '1_Pooling/config.json': config });
  for (const [name, value] of others)
    hub.files.set(name, { content: Buffer.from(JSON.stringify(value)), isSmall: true });
  hub.files.set('2_Dense/model.safetensors', { content: Buffer.from('not asked for') });
  const path = await pull(hub);
  assert.is((await readModel(path)).pooling, 'cls');
  assert.equal(readdirSync(path).sort(), [...readdirSync(golden), '1_Pooling', 'modules.json'].sort());
  assert.is(resolveModel(NAME), path);
  rmSync(join(path, '1_Pooling/config.json'));
  symlinkSync('/etc/hostname', join(path, '1_Pooling/config.json'));
  assert.throws(() => resolveModel(NAME), /has not been fetched yet/, 'a link out of the repository');
  const large = { bytes: fileLimits['1_Pooling/config.json'] + 1 };
  hub.files.set('1_Pooling/config.json', { content: Buffer.from('{}'), isSmall: true, promised: large });
  assert.match((await faultOf(hub)).message, 'hf:owner/repo/1_Pooling/config.json has 1048577 bytes');
});

test('a folder appears when complete; an interrupted download resumes', async ({ hub, cache }) => {
  const large = Buffer.from('the weights '.repeat(100_000));
  hub.files.set('model.safetensors', { content: large });
  hub.cuts = [400_000];
  assert.is((await faultOf(hub)).exitCode, 69);
  assert.not.ok(existsSync(join(cache, 'models--owner--repo/snapshots', COMMIT)));
  const path = await pull(hub);
  assert.match(hub.storeAsked.at(-1)?.range ?? '', /^bytes=[1-9]\d*-$/);
  assert.ok(readFileSync(join(path, 'model.safetensors')).equals(large));
});

test('a folder of which a file is gone, or leads elsewhere, is not found', async ({ hub }) => {
  split(hub);
  const path = await pull(hub);
  for (const name of ['config.json', 'tokenizer.json', INDEX, ...SHARDS]) {
    rmSync(join(path, name));
    assert.throws(() => resolveModel(NAME), /has not been fetched yet/, name);
    symlinkSync(name, join(path, name));
    assert.equal(listModels(), []);
    rmSync(join(path, name));
    symlinkSync('/etc/hostname', join(path, name));
    assert.throws(() => resolveModel(NAME), /has not been fetched yet/, name);
    assert.equal(listModels(), []);
    assert.is(await pull(hub), path);
    assert.is(resolveModel(NAME), path);
  }
});

test('a newer commit takes over when it is whole', async ({ hub }) => {
  const older = await pull(hub);
  hub.commit = 'f'.repeat(40);
  hub.files.set('model.safetensors', { content: Buffer.from('new weights'), promised: { bytes: 12 } });
  await errorOf(() => pull(hub));
  assert.is(resolveModel(NAME), older);
  hub.files.set('model.safetensors', { content: Buffer.from('new weights') });
  const newer = await pull(hub);
  assert.is.not(newer, older);
  assert.is(resolveModel(NAME), newer);
});

test('pickles are refused with the reason, and missing files by name', async ({ hub }) => {
  hub.files.delete('model.safetensors');
  assert.is(
    (await faultOf(hub)).message,
    `${NAME} has neither model.safetensors nor ${INDEX}; write ${NAME}/FILE.gguf for a GGUF file.`,
  );
  for (const pickle of ['pytorch_model.bin', 'pytorch_model.bin.index.json']) {
    hub.files.set(pickle, { content: Buffer.from('pickle') });
    const error = await faultOf(hub);
    assert.is(error.exitCode, 65);
    assert.match(error.message, `as a pickle alone (${pickle}), which can run programs when it is read`);
    hub.files.delete(pickle);
  }
  for (const name of ['tokenizer.json', 'config.json']) {
    hub.files.delete(name);
    const error = await faultOf(hub);
    assert.is(error.exitCode, 66);
    assert.match(error.message, name);
  }
});

test('the list of weights cannot name files elsewhere, other kinds of files, too many, or none', async ({
  hub,
  cache,
}) => {
  const wrong = [
    '../model.safetensors',
    '/etc/model.safetensors',
    'sub/model.safetensors',
    '..%2fmodel.safetensors',
    '.hidden.safetensors',
    'model.bin',
    'model.safetensors?x=.safetensors',
    `${'x'.repeat(100)}.safetensors`,
    '',
  ];
  for (const name of wrong) {
    split(hub, [SHARDS[0], name]);
    const { exitCode, message } = await faultOf(hub);
    assert.is(exitCode, 65, name);
    assert.match(message, INDEX);
  }
  split(
    hub,
    Array.from({ length: maxShards + 1 }, (_, shard) => `${shard}.safetensors`),
  );
  assert.match(
    (await faultOf(hub)).message,
    `lists ${maxShards + 1} files of weights; 1 to ${maxShards} are read`,
  );
  split(hub, []);
  assert.match((await faultOf(hub)).message, 'lists 0 files');
  for (const content of [
    '[]',
    '{',
    '{"weight_map":7}',
    '{"weight_map":{"a":[]}}',
    `{"weight_map":{"a":${'['.repeat(1e5)}${']'.repeat(1e5)}}}`,
    '\xff',
  ]) {
    hub.files.set(INDEX, { content: Buffer.from(content, 'latin1'), isSmall: true });
    assert.is((await faultOf(hub)).exitCode, 65, content);
  }
  split(hub, [SHARDS[0], 'model-lost.safetensors']);
  const { exitCode, message } = await faultOf(hub);
  assert.equal([exitCode, message], [66, `${NAME} has no model-lost.safetensors.`]);
  assert.equal(
    readdirSync(cache).filter((name) => !name.startsWith('.')),
    ['models--owner--repo'],
  );
});

test('files of another size or hash than was promised are refused, and small ones that are large', async ({
  hub,
}) => {
  const config = hub.files.get('config.json') as HubEntry;
  const lies: [string, NonNullable<HubEntry['promised']>, 65 | 69, RegExp][] = [
    ['config.json', { bytes: config.content.length - 1 }, 65, /has more than the \d+ bytes/],
    ['config.json', { bytes: config.content.length + 1 }, 69, /the connection ended after/],
    ['config.json', { bytes: fileLimits['config.json'] + 1 }, 65, /at most 1048576 are allowed/],
    [
      'config.json',
      { id: 'a'.repeat(40) },
      65,
      /arrived with the git id [0-9a-f]{40}, but a{40} was promised/,
    ],
    ['config.json', { id: 'a'.repeat(39) }, 65, /gives no hash or no size/],
    ['model.safetensors', { bytes: weights.length - 1 }, 65, /has more than/],
    ['model.safetensors', { bytes: weights.length + 1 }, 69, /failed 1 times/],
    ['model.safetensors', { id: 'b'.repeat(64) }, 65, /b{64} was promised/],
    // The hash must not be a git hash, which is weaker: weights are never stored in git itself.
    ['model.safetensors', { id: gitId(weights) }, 65, /gives no hash or no size/],
  ];
  for (const [name, promised, exitCode, message] of lies) {
    const { content, ...file } = hub.files.get(name) as HubEntry;
    hub.files.set(name, { ...file, content, promised });
    const error = await faultOf(hub);
    assert.is(error.exitCode, exitCode, error.message);
    assert.match(error.message, message);
    hub.files.set(name, { ...file, content });
  }
  await pull(hub);
});

test('all files are of one commit', async ({ hub }) => {
  let numAnswers = 0;
  Object.defineProperty(hub, 'commit', { get: () => (numAnswers++ === 0 ? COMMIT : 'f'.repeat(40)) });
  const { exitCode, message } = await faultOf(hub);
  assert.is(exitCode, 69);
  assert.match(message, `does not say that hf:owner/repo/generation_config.json is of ${COMMIT}`);
});

test('two at once fetch once', async ({ hub }) => {
  const paths = await Promise.all([pull(hub), pull(hub)]);
  assert.is(paths[0], paths[1]);
  assert.is(hub.storeAsked.length, 1);
});

test('a commit that holds a folder and files has both', async ({ hub, cache }) => {
  mkdirSync(cache);
  const options = { endpoint: hub.url, token: undefined, output: { write: () => true }, limits };
  const file = await pullFromHub(`${NAME}/model.gguf`, options);
  assert.throws(() => resolveModel(NAME), /has not been fetched yet/);
  const path = await pull(hub);
  assert.is(file, join(path, 'model.gguf'));
  assert.equal(
    listModels().map(({ name }) => name),
    [NAME, `${NAME}/model.gguf`],
  );
});

test.run();
