import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { pullCommand } from '../../../gateway/commands/pull.ts';
import { tokenizeCommand } from '../../../gateway/commands/tokenize.ts';
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
  assert.equal(await run(tokenizeCommand, '--model', model, 'hello<|im_end|>'), {
    exitCode: 0,
    stdout: `${JSON.stringify([tinyId('hello'), ...Buffer.from('<|im_end|>')])}\n`,
    stderr: '',
  });
  const special = await run(
    tokenizeCommand,
    '--model',
    model,
    '--add-special',
    '--parse-special',
    'a<|im_end|>',
  );
  assert.equal(JSON.parse(special.stdout), [tinyId('<|bos|>'), 97, tinyId('<|im_end|>')]);
});

test('tokenize reads a file, byte order mark and last line feed included', async () => {
  const file = folder.write('text.txt', '\uFEFFa\n');
  const { exitCode, stdout } = await run(tokenizeCommand, '--model', model, '--file', file);
  assert.is(exitCode, 0);
  assert.equal(JSON.parse(stdout), [0xef, 0xbb, 0xbf, 97, 10]);
});

test('a text may be empty, or look like a flag after --', async () => {
  assert.is((await run(tokenizeCommand, '--model', model, '')).stdout, '[]\n');
  assert.is((await run(tokenizeCommand, '--model', model, '--', '-a')).stdout, '[45,97]\n');
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
    const { exitCode, stdout, stderr } = await run(tokenizeCommand, ...args);
    assert.is(exitCode, expected, `${args.join(' ')}: ${stderr}`);
    assert.is(stdout, '');
    assert.match(stderr, /^[^\n]+\n$/, args.join(' '));
  }
});

test('pull wants one name of the catalogue', async () => {
  for (const args of [[], ['no-such-model'], ['smollm2', 'smollm2'], ['--force', 'smollm2']]) {
    const { exitCode, stdout, stderr } = await run(pullCommand, ...args);
    assert.is(exitCode, 64);
    assert.is(stdout, '');
    assert.match(stderr, /^[^\n]+\n$/);
  }
  assert.match((await run(pullCommand)).stderr, 'smollm2');
});

test.run();
