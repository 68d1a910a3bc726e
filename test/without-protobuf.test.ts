import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { CPU_RUNNER, RUNNER_WITHOUT_PROTOBUF, TINY_MODEL } from './fixtures/default-model.ts';

/** cpu-runner as it is built where protobuf is not installed. */

const test = suite('without protobuf');

test('a runner without protobuf has nothing of it', () => {
  const inside = 'google8protobuf';
  assert.ok(readFileSync(CPU_RUNNER).includes(inside));
  assert.not.ok(readFileSync(RUNNER_WITHOUT_PROTOBUF).includes(inside));
});

test('a runner without protobuf generates, and refuses serve and replay by name', () => {
  const run = (...args: string[]) =>
    spawnSync(RUNNER_WITHOUT_PROTOBUF, args, { encoding: 'utf8', input: '' });
  const generate = ['generate', '--model', TINY_MODEL, '--tokens', '1,2,3', '--max-tokens', '4'];
  assert.is(run(...generate).stdout, execFileSync(CPU_RUNNER, generate, { encoding: 'utf8' }));
  const refused = { serve: ['--model', TINY_MODEL], replay: ['session.frames'] };
  for (const [command, args] of Object.entries(refused)) {
    const { status, stdout, stderr } = run(command, ...args);
    assert.equal([status, stdout], [64, '']);
    assert.is(
      stderr,
      `cpu-runner: ${command} is not in this runner, which was built without protobuf. ` +
        'Install protobuf-compiler and libprotobuf-dev, and build it again.\n',
    );
  }
});

test.run();
