import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

/** The steps of `make test-cuda`, with programs that only record that they were called. */

const test = suite('on device');

const SCRIPT = fileURLToPath(new URL('on_device.sh', import.meta.url));

const GOOD = { 'cuda-runner': 0, 'cuda-device-tests': 0, 'exactness-cuda': 0 };

/** Runs the steps with these programs, each of which exits with the given status. PATH has only the programs of `tools`. */
function run(
  programs: Readonly<Record<string, number>>,
  tools: Readonly<Record<string, number>>,
): { status: number | null; stdout: string; calls: string[] } {
  const folder = temporaryFolder();
  const calls = join(folder.path, 'calls');
  mkdirSync(join(folder.path, 'build'));
  mkdirSync(join(folder.path, 'bin'));
  const write = (name: string, status: number): void => {
    folder.write(
      name,
      `#!/bin/sh\necho "$(basename "$0") $* $RUNNEL_RUNNER" >>'${calls}'\nexit ${status}\n`,
      0o755,
    );
  };
  for (const [name, status] of Object.entries(programs)) write(`build/${name}`, status);
  for (const [name, status] of Object.entries(tools)) write(`bin/${name}`, status);
  for (const name of ['dirname', 'basename', 'env'])
    symlinkSync(`/usr/bin/${name}`, join(folder.path, 'bin', name));
  const env = { PATH: join(folder.path, 'bin'), BUILD: join(folder.path, 'build') };
  const { status, stdout } = spawnSync('/bin/sh', [SCRIPT], { env, encoding: 'utf8' });
  const called = readFileSync(calls, 'utf8').trimEnd().replaceAll(`${folder.path}/`, '').split('\n');
  return { status, stdout, calls: called.map((call) => call.trim()) };
}

test('kernels and models run, then under each tool of the sanitizer, then exactness and the native API', () => {
  const { status, stdout, calls } = run(GOOD, { 'compute-sanitizer': 0, node: 0 });
  const sanitized = (tool: string) =>
    `compute-sanitizer --tool ${tool} --error-exitcode 1 build/cuda-device-tests`;
  assert.equal(calls, [
    'cuda-runner devices',
    'cuda-device-tests',
    sanitized('memcheck'),
    sanitized('racecheck'),
    sanitized('synccheck'),
    'exactness-cuda --cases 200',
    'node --import tsx test/run.ts e2e/native-api build/cuda-runner',
  ]);
  assert.match(stdout, /\n7 passed, 0 failed, 0 skipped\n$/);
  assert.is(status, 0);
});

test('a step that fails is named, and the others run all the same', () => {
  const { status, stdout, calls } = run(
    { ...GOOD, 'cuda-runner': 69, 'cuda-device-tests': 69 },
    { 'compute-sanitizer': 1, node: 0 },
  );
  assert.is(calls.length, 7);
  assert.match(stdout, 'FAIL a kernel runs: status 69\n');
  assert.match(stdout, 'FAIL kernels and models under racecheck: status 1\n');
  assert.match(stdout, /\n2 passed, 5 failed, 0 skipped\n$/);
  assert.is(status, 1);
});

test('missing tools are named and counted', () => {
  const { status, stdout } = run(GOOD, {});
  assert.match(
    stdout,
    '== kernels and models under synccheck: not run, compute-sanitizer is not installed\n',
  );
  assert.match(stdout, '== the native API: not run, Node is not installed\n');
  assert.match(stdout, /\n3 passed, 0 failed, 4 skipped\n$/);
  assert.is(status, 0);
});

test('without protobuf there is no serve, and nothing that needs it', () => {
  const { status, stdout } = run({ 'cuda-runner': 0, 'cuda-device-tests': 0 }, { node: 0 });
  assert.match(stdout, '== the native API: not run, protobuf is not installed\n');
  assert.match(stdout, /\n2 passed, 0 failed, 5 skipped\n$/);
  assert.is(status, 0);
});

test.run();
