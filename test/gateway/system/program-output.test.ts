import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { programOutput } from '../../../gateway/system/program-output.ts';
import { PATIENCE_MS, within } from '../../fixtures/within.ts';

function outputOf(line: string, timeoutMs: number, signal?: AbortSignal) {
  const limits = { timeoutMs, maxBytes: 4096, ...(signal === undefined ? {} : { signal }) };
  return within(PATIENCE_MS, 'the end', programOutput('/bin/sh', ['-c', line], limits));
}

const test = suite('program output');

test('both streams are handed over as they are, with how the program ended', async () => {
  const said = { stdout: 'one\n', stderr: 'two\n' };
  const line = 'echo one; echo two >&2;';
  assert.equal(await outputOf(line, PATIENCE_MS), { ...said, fault: undefined });
  assert.equal(await outputOf(`${line} exit 3`, PATIENCE_MS), { ...said, fault: 'it ended with status 3' });
  assert.equal(await outputOf(`${line} kill -SEGV $$`, PATIENCE_MS), {
    ...said,
    fault: 'it was ended by SIGSEGV',
  });
});

test('a program that does not end, or says too much, is killed', async () => {
  assert.is((await outputOf('exec sleep 1000', 300)).fault, 'it did not answer within 300 ms');
  assert.match((await outputOf('exec yes', PATIENCE_MS)).fault ?? '', /maxBuffer exceeded/);
  assert.match((await outputOf('exec sleep 1000', PATIENCE_MS, AbortSignal.abort())).fault ?? '', /aborted/);
});

test('a background child that holds the pipes is not awaited', async () => {
  const { stdout, fault } = await outputOf('sleep 1000 & echo $!', 1000);
  assert.is(fault, 'it did not answer within 1000 ms');
  const pid = Number(stdout);
  // On a busy machine the shell is killed before it says anything; a signal to 0 would reach this process.
  if (pid > 0) process.kill(pid, 'SIGKILL');
});

test.run();
