import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { outputOf, reasonOf } from './program.ts';

const test = suite('bench programs');

const folder = temporaryFolder();

function failureOf(file: string, timeoutMs: number): Promise<string> {
  return outputOf(file, [], { timeoutMs }).then(
    () => assert.unreachable() as never,
    (error: Error) => error.message,
  );
}

test('the output of a program on both streams is returned', async () => {
  const file = folder.write('both', '#!/bin/sh\necho out\necho err >&2\n', 0o755);
  assert.equal(await outputOf(file, [], { timeoutMs: 10_000 }), { stdout: 'out\n', stderr: 'err\n' });
});

test('a status other than 0 is a failure, but for help', async () => {
  const file = folder.write('status', '#!/bin/sh\necho usage\necho "error: no model" >&2\nexit 3\n', 0o755);
  assert.is(await failureOf(file, 10_000), 'status ended with 3: error: no model');
  assert.is((await outputOf(file, [], { timeoutMs: 10_000, anyStatus: true })).stdout, 'usage\n');
});

test('a missing program and one that times out are reported', async () => {
  assert.is(await failureOf('/nowhere/llama-bench', 10_000), 'llama-bench is not there');
  const file = folder.write('slow', '#!/bin/sh\nexec sleep 600\n', 0o755);
  assert.is(await failureOf(file, 50), 'slow took longer than 0.05 s');
});

test('the fault is reported from its output, without the stack trace', () => {
  const stderr = 'loading\niqk_fa.h:1157: GGML_ASSERT(S > 0) failed\n#0  0x00007f in __wait4 ()\nNo stack.\n';
  const aborted = { code: null, signal: 'SIGABRT' } as const;
  assert.is(reasonOf(aborted, stderr), 'ended with SIGABRT: iqk_fa.h:1157: GGML_ASSERT(S > 0) failed');
});

test.run();
