import { closeSync, openSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Death } from '../../../../gateway/runner/supervision/exit-policy.ts';
import { SharedWeights } from '../../../../gateway/runner/supervision/shared-weights.ts';

const test = suite('shared weights');

const command = { file: 'runner', args: ['serve'], weightsKey: 'a' };
const other = { ...command, weightsKey: 'b' };
const killed: Death = {
  exit: { code: undefined, signal: 'SIGKILL', spawnError: undefined },
  verdict: undefined,
  failure: undefined,
  stderrTail: '',
  readyForMs: undefined,
  phase: undefined,
  step: 0,
  hasTokens: false,
  isOutOfMemory: false,
};

function weights() {
  const dropped: string[] = [];
  return { dropped, shared: new SharedWeights((reason) => dropped.push(reason)) };
}

test('a runner that cannot share its weights is started by its own command', () => {
  const { shared } = weights();
  const alone = { file: 'runner', args: ['serve'] };
  const lease = shared.lend(alone);
  assert.is(lease.source, 'private');
  assert.is(lease.command, alone);
  assert.is(
    shared.wait(alone, () => {}),
    undefined,
  );
});

test('while a runner packs, others of the same weights wait until it is ready or dead', () => {
  const { shared } = weights();
  let numStarts = 0;
  const start = () => (numStarts += 1);
  const first = shared.lend(command);
  assert.is(first.source, 'packed');
  assert.equal(first.command.args, ['serve', '--share-weights']);
  assert.is(shared.wait(other, start), undefined);
  assert.is(shared.lend(other).source, 'private');
  assert.ok(shared.wait(command, start));
  const left = shared.wait(command, start);
  left?.cancel();
  assert.is(numStarts, 0);
  shared.onDied(first, killed);
  assert.is(numStarts, 1, 'who no longer waits is not started');

  const second = shared.lend(command);
  assert.is(second.source, 'packed');
  shared.wait(command, start);
  shared.onReady(second, process.pid, undefined);
  assert.is(numStarts, 2);
  assert.is(shared.lend(command).source, 'packed', 'that one could not share');
});

test('what a runner offers is opened only if it is a file in memory of a living process', () => {
  const { shared, dropped } = weights();
  const file = openSync(import.meta.filename ?? process.execPath, 'r');
  shared.onReady(shared.lend(command), process.pid, file);
  assert.is(
    dropped.pop(),
    `Descriptor ${file} of runner ${process.pid}, which is to hold its weights, is no file in memory.`,
  );
  closeSync(file);
  shared.onReady(shared.lend(command), process.pid, file);
  assert.match(dropped.pop() ?? '', /cannot be opened: ENOENT/);
  assert.is(shared.lend(command).source, 'packed');
});

test.run();
