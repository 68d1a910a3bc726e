import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { generate } from '../../../gateway/cli/generate.ts';
import { list } from '../../../gateway/cli/list.ts';
import { pull } from '../../../gateway/cli/pull.ts';
import { detokenize, tokenize } from '../../../gateway/cli/tokenize.ts';
import { verify } from '../../../gateway/cli/verify/verify.ts';
import { COMMIT, FakeHub } from '../../fixtures/fake-hub.ts';
import { writeGguf } from '../../fixtures/gguf-writer.ts';
import { ran } from '../../fixtures/ran.ts';
import { recordedCases, wordsOf } from '../../fixtures/recorded-cases.ts';
import { runCommand as run } from '../../fixtures/run-command.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { tinyMetadata } from '../../fixtures/tiny-vocabulary.ts';

const test = suite('commands');
const folder = temporaryFolder();
const model = folder.write(
  'tiny.gguf',
  writeGguf({ metadata: tinyMetadata({ 'tokenizer.ggml.add_bos_token': { type: 'bool', value: true } }) }),
);

const FILES = {
  MODEL: model,
  BAD: folder.write('bad.gguf', 'bad'),
  TEXT: folder.write('text.txt', '\uFEFFa\n'),
  LATIN1: folder.write('latin1.txt', Buffer.from('caf\xe9', 'latin1')),
  OTHERS: folder.write('others.json', '[{"weights":"w","numerics":"n","version":1}]'),
  PROMPTS: folder.write('latin1.json', Buffer.from('["caf\xe9"]', 'latin1')),
  HALVES: folder.write('halves.json', '["\\ud83d\\ude00", "x\\udc00"]'),
  // U+FFFD in a file is a valid character, although it also replaces invalid bytes.
  MARK: folder.write('mark.txt', '\uFFFD'),
  ABSENT: join(folder.path, 'absent'),
  FOLDER: folder.path,
};
const COMMANDS = { verify, tokenize, detokenize, generate, pull };

recordedCases(test, import.meta.url, async (line) => {
  const [name = '', ...words] = wordsOf(line);
  const args = words.map((word) => FILES[word as keyof typeof FILES] ?? word);
  const { exitCode, stdout, stderr } = await run(COMMANDS[name as keyof typeof COMMANDS].run, ...args);
  assert.ok(exitCode === 0 ? stdout.endsWith('\n') : stdout === '' && /^[^\n]+\n$/.test(stderr), line);
  // The words of Node's parser differ from version to version.
  const said = (stdout || stderr).replaceAll(folder.path, 'FOLDER').replace(/Option '.*/, 'Option …');
  return `${exitCode} ${JSON.stringify(said)}`;
});

test('a file that may not be read has status 77', async () => {
  if (process.getuid?.() === 0) return;
  const secret = folder.write('secret', 'x', 0);
  for (const args of [
    ['--model', secret, 'a'],
    ['--model', model, '--file', secret],
  ])
    assert.is((await run(tokenize.run, ...args)).exitCode, 77);
});

test('an argument that is not UTF-8 is refused, where Node has replaced it; a replacement character is text', () => {
  const tokenize = (text: string) =>
    ran('sh', ['-c', `exec node gateway/runnel.js tokenize --model "$0" "$(printf '${text}')"`, model]);
  const refused = tokenize('caf\\351');
  assert.is(refused.status, 64);
  assert.is(
    refused.stderr,
    'runnel: The argument "caf\uFFFD" is not UTF-8 text: write it in UTF-8, or put it into a file.\n',
  );
  assert.is(refused.stdout, '');
  const taken = tokenize('caf\\357\\277\\275');
  assert.is(taken.stderr, '');
  assert.equal(JSON.parse(taken.stdout), [...Buffer.from('caf\uFFFD')]);
});

test('the token of the hub comes from HF_TOKEN, and its address from HF_ENDPOINT', async () => {
  const hub = await FakeHub.start(Buffer.from('a model'));
  process.env.HF_HUB_CACHE = join(folder.path, 'hub');
  process.env.HF_TOKEN = 'hf_canary';
  process.env.HF_ENDPOINT = hub.url;
  try {
    const { exitCode, stdout, stderr } = await run(pull.run, 'hf:owner/repo/model.gguf');
    assert.is(exitCode, 0, stderr);
    assert.is(stdout, `${join(folder.path, 'hub/models--owner--repo/snapshots', COMMIT, 'model.gguf')}\n`);
    const json = await run(pull.run, '--json', 'hf:owner/repo/model.gguf');
    assert.equal(JSON.parse(json.stdout), { name: 'hf:owner/repo/model.gguf', path: stdout.trimEnd() });
    assert.is(hub.hubAsked[0]?.authorization, 'Bearer hf_canary');
    assert.not.match(stderr, 'hf_canary');
  } finally {
    for (const name of ['HF_TOKEN', 'HF_ENDPOINT']) delete process.env[name];
    await hub.stop();
  }
});

test('list shows what was pulled, from the catalogue and from hubs, with size and path', async () => {
  process.env.RUNNEL_CACHE = join(folder.path, 'cache');
  const smollm2 = join(folder.path, 'cache/models/smollm2.gguf');
  mkdirSync(dirname(smollm2), { recursive: true });
  writeFileSync(smollm2, Buffer.alloc(1_500_000));
  const fromHub = join(folder.path, 'hub/models--owner--repo/snapshots', COMMIT, 'model.gguf');
  const { exitCode, stdout } = await run(list.run);
  assert.is(exitCode, 0);
  assert.equal(stdout.split('\n'), [
    `smollm2                        1.5 MB  ${smollm2}`,
    `hf:owner/repo/model.gguf       0.0 MB  ${fromHub}`,
    '',
  ]);
  assert.equal(JSON.parse((await run(list.run, '--json')).stdout), [
    { name: 'smollm2', bytes: 1_500_000, path: smollm2 },
    { name: 'hf:owner/repo/model.gguf', bytes: 7, path: fromHub },
  ]);
  assert.is((await run(list.run, 'stray')).exitCode, 64);
});

test('pull --if-missing asks the hub for a model that is not there, and for no other', async () => {
  process.env.HF_HUB_CACHE = join(folder.path, 'hub-of-pods');
  const name = 'hf:owner/repo/model.gguf';
  const hub = await FakeHub.start(Buffer.from('a model'));
  const endpoint = ['--endpoint', hub.url];
  const first = await run(pull.run, '--if-missing', ...endpoint, name);
  assert.is(first.exitCode, 0, first.stderr);
  const numAsked = hub.hubAsked.length;
  assert.ok(numAsked > 0);
  assert.equal(await run(pull.run, '--if-missing', ...endpoint, name), { ...first, stderr: '' });
  assert.is(hub.hubAsked.length, numAsked);
  await hub.stop();
  assert.equal(await run(pull.run, '--if-missing', ...endpoint, name), { ...first, stderr: '' });
  assert.is((await run(pull.run, ...endpoint, name)).exitCode, 69, 'without the flag it asks');
  assert.is((await run(pull.run, '--if-missing', ...endpoint, 'hf:owner/repo/other.gguf')).exitCode, 69);
});

test.run();
