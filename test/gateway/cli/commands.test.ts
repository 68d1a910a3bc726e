import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { detokenize } from '../../../gateway/cli/detokenize.ts';
import { generate } from '../../../gateway/cli/generate.ts';
import { list } from '../../../gateway/cli/list.ts';
import { pull } from '../../../gateway/cli/pull.ts';
import { tokenize } from '../../../gateway/cli/tokenize.ts';
import { COMMIT, FakeHub } from '../../fixtures/fake-hub.ts';
import { writeGguf } from '../../fixtures/gguf-writer.ts';
import { runCommand as run } from '../../fixtures/run-command.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { tinyId, tinyMetadata } from '../../fixtures/tiny-vocabulary.ts';

const test = suite('commands');
const folder = temporaryFolder();
const model = folder.write(
  'tiny.gguf',
  writeGguf({ metadata: tinyMetadata({ 'tokenizer.ggml.add_bos_token': { type: 'bool', value: true } }) }),
);

test('tokenize prints the ids as JSON', async () => {
  assert.equal(await run(tokenize.run, '--model', model, 'hello<|im_end|>'), {
    exitCode: 0,
    stdout: `${JSON.stringify([tinyId('hello'), ...Buffer.from('<|im_end|>')])}\n`,
    stderr: '',
  });
  const special = await run(
    tokenize.run,
    '--model',
    model,
    '--add-special',
    '--parse-special',
    'a<|im_end|>',
  );
  assert.equal(JSON.parse(special.stdout), [tinyId('<|bos|>'), 97, tinyId('<|im_end|>')]);
});

test('tokenize --json prints the ids and the text of each', async () => {
  const { exitCode, stdout } = await run(tokenize.run, '--model', model, '--json', 'hello é');
  assert.is(exitCode, 0);
  assert.equal(JSON.parse(stdout), {
    token_ids: [tinyId('hello'), 32, 0xc3, 0xa9],
    tokens: ['hello', ' ', '\uFFFD', '\uFFFD'],
  });
});

test('tokenize reads a file, byte order mark and last line feed included', async () => {
  const file = folder.write('text.txt', '\uFEFFa\n');
  const { exitCode, stdout } = await run(tokenize.run, '--model', model, '--file', file);
  assert.is(exitCode, 0);
  assert.equal(JSON.parse(stdout), [0xef, 0xbb, 0xbf, 97, 10]);
});

test('a text may be empty, or look like a flag after --', async () => {
  assert.is((await run(tokenize.run, '--model', model, '')).stdout, '[]\n');
  assert.is((await run(tokenize.run, '--model', model, '--', '-a')).stdout, '[45,97]\n');
});

test('detokenize accepts ids or tokenize’s output, and names an invalid id', async () => {
  const ids = [tinyId('hello'), 32, 0xc3, 0xa9];
  const expected = { exitCode: 0, stdout: 'hello é\n', stderr: '' };
  assert.equal(await run(detokenize.run, '--model', model, ...ids.map(String)), expected);
  assert.equal(await run(detokenize.run, '--model', model, JSON.stringify(ids)), expected);
  const json = await run(detokenize.run, '--model', model, '--json', '10');
  assert.is(json.stdout, '{"text":"\\n"}\n');
  assert.is((await run(detokenize.run, '--model', model, '[]')).stdout, '\n');
  for (const bad of [[], ['x'], ['1.5'], ['-1'], ['1', '[2]'], ['99999999']]) {
    const { exitCode, stderr } = await run(detokenize.run, '--model', model, '--', ...bad);
    assert.is(exitCode, 64, bad.join(' '));
    assert.match(stderr, /^[^\n]+\n$/);
  }
});

test('each mistake is one sentence on stderr and its exit code', async () => {
  const cases: [number, string[]][] = [
    [64, []],
    [64, ['--model', model]],
    [64, ['--model', model, 'a', 'b']],
    [64, ['--model', model, '--file', model, 'a']],
    [64, ['--model', model, '--no-such-flag', 'a']],
    [64, ['--model']],
    [66, ['--model', model, '--file', join(folder.path, 'absent')]],
    [66, ['--model', join(folder.path, 'absent.gguf'), 'a']],
    [66, ['--model', folder.path, 'a']],
    [65, ['--model', folder.write('bad.gguf', 'bad'), 'a']],
  ];
  if (process.getuid?.() !== 0) {
    const secret = folder.write('secret', 'x');
    chmodSync(secret, 0);
    cases.push([77, ['--model', secret, 'a']], [77, ['--model', model, '--file', secret]]);
  }
  for (const [expected, args] of cases) {
    const { exitCode, stdout, stderr } = await run(tokenize.run, ...args);
    assert.is(exitCode, expected, `${args.join(' ')}: ${stderr}`);
    assert.is(stdout, '');
    assert.match(stderr, /^[^\n]+\n$/, args.join(' '));
  }
});

test('an argument that is not UTF-8 is refused, where Node has replaced it; a replacement character is text', () => {
  const tokenize = (text: string) =>
    spawnSync(
      'sh',
      ['-c', `exec node gateway/runnel.js tokenize --model "$0" "$(printf '${text}')"`, model],
      {
        encoding: 'utf8',
      },
    );
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

test('input that is not UTF-8 is refused', async () => {
  const latin1 = folder.write('latin1.txt', Buffer.from('caf\xe9', 'latin1'));
  const refused = { exitCode: 64, stdout: '' };
  assert.equal(await run(tokenize.run, '--model', model, '--file', latin1), {
    ...refused,
    stderr: `runnel: The file ${latin1} is not UTF-8 text; convert it to UTF-8 first.\n`,
  });
  const prompts = folder.write('latin1.json', Buffer.from('["caf\xe9"]', 'latin1'));
  assert.equal(await run(generate.run, '--model', model, '--prompts-file', prompts), {
    ...refused,
    stderr: `runnel: The file ${prompts} is not UTF-8 text; convert it to UTF-8 first.\n`,
  });
  const halves = folder.write('halves.json', '["\\ud83d\\ude00", "x\\udc00"]');
  assert.equal(await run(generate.run, '--model', model, '--prompts-file', halves), {
    ...refused,
    stderr: `runnel: prompt 2 of ${halves} contains \\udc00, one half of a surrogate pair, which is not a character.\n`,
  });
  // U+FFFD in a file is a valid character, although it also replaces invalid bytes.
  const mark = folder.write('mark.txt', '\uFFFD');
  assert.is((await run(tokenize.run, '--model', model, '--file', mark)).exitCode, 0);
});

test('generate refuses to want more tokens at least than at most', async () => {
  const flags = ['--model', model, '--min-tokens', '9', '--max-tokens', '8'];
  assert.equal(await run(generate.run, ...flags, 'hello'), {
    exitCode: 64,
    stdout: '',
    stderr: 'runnel: --min-tokens must be at most --max-tokens, got 9 and 8.\n',
  });
});

test('pull wants one name of the catalogue', async () => {
  for (const args of [[], ['no-such-model'], ['smollm2', 'smollm2'], ['--force', 'smollm2']]) {
    const { exitCode, stdout, stderr } = await run(pull.run, ...args);
    assert.is(exitCode, 64);
    assert.is(stdout, '');
    assert.match(stderr, /^[^\n]+\n$/);
  }
  assert.match((await run(pull.run)).stderr, 'smollm2');
});

test('pull takes an endpoint for a hub only, and a name of a hub that is one', async () => {
  const cases: [string[], RegExp][] = [
    [['--endpoint', 'http://localhost:1', 'smollm2'], /--endpoint is for names that begin with hf:/],
    [['hf:owner/repo/../model.gguf'], /names no model of a hub/],
    [['hf:owner/repo/model.gguf', 'hf:owner/repo/other.gguf'], /pull takes one name/],
    [['--endpoint', 'localhost', 'hf:owner/repo/model.gguf'], /is not an http or https URL/],
  ];
  for (const [args, message] of cases) {
    const { exitCode, stderr } = await run(pull.run, ...args);
    assert.is(exitCode, 64, stderr);
    assert.match(stderr, message);
  }
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

test.run();
