import { closeSync, openSync, readdirSync, readlinkSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { closeMemory, makeKvMemory } from '../../../../gateway/runner/process/kv-memory.ts';
import type { Death } from '../../../../gateway/runner/supervision/exit-policy.ts';
import { SharedWeights } from '../../../../gateway/runner/supervision/shared-weights.ts';
import { deathBy } from '../../../fixtures/death.ts';
import { CPU_RUNNER } from '../../../fixtures/default-model.ts';

const test = suite('shared weights');

const command = { file: 'runner', args: ['serve'], weightsKey: 'a' };
const other = { ...command, weightsKey: 'b' };
const killed = deathBy({ signal: 'SIGKILL', readyForMs: undefined, hasTokens: false });

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

/** Weights that a runner has packed, offered and still maps. */
async function packed() {
  const { shared, dropped } = weights();
  const memory = await makeKvMemory(CPU_RUNNER);
  const packer = shared.lend(command);
  shared.onReady(packer, process.pid, memory.own);
  await closeMemory(memory.own);
  await closeMemory(memory.reader);
  assert.is(dropped.length, 0);
  return { shared, dropped, packer };
}

const unready = { readyForMs: undefined, hasTokens: false };
const ITSELF = 'A runner that was given the packed weights ended before it was ready.';
const OUT_OF_MEMORY = 'The kernel killed the runner for lack of memory.';

/** Deaths of the only runner that has the weights, and why these are dropped; undefined: the next one gets them. */
const DEATHS: readonly (readonly [name: string, death: Death, reason: string | undefined])[] = [
  ['exits', deathBy({ code: 70, ...unready }), ITSELF],
  ['crashes', deathBy({ signal: 'SIGSEGV', ...unready }), ITSELF],
  ['finds too little memory', deathBy({ code: 71, ...unready }), ITSELF],
  ['crashes once it is ready', deathBy({ signal: 'SIGSEGV' }), undefined],
  ['is killed', killed, undefined],
  ['is told to end', deathBy({ signal: 'SIGTERM', ...unready }), undefined],
  ['cannot be started', deathBy({ spawnError: 'no descriptors', ...unready }), undefined],
  ['is killed for lack of memory', { ...killed, isOutOfMemory: true }, OUT_OF_MEMORY],
  ['is killed for it once it is ready', deathBy({ signal: 'SIGKILL', isOutOfMemory: true }), OUT_OF_MEMORY],
];

for (const [name, death, reason] of DEATHS)
  test(`if a runner with the weights ${name}, they are ${reason ? 'dropped' : 'kept'}`, async () => {
    const { shared, dropped, packer } = await packed();
    shared.onDied(packer, killed);
    const lease = shared.lend(command);
    assert.is(lease.source, 'shared');
    shared.onDied(lease, death);
    assert.equal(dropped, reason === undefined ? [] : [reason]);
    assert.is(shared.lend(command).source, reason === undefined ? 'shared' : 'packed');
    await shared.close();
  });

function numMemories(): number {
  return readdirSync('/proc/self/fd').filter((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`).startsWith('/memfd:');
    } catch {
      return false;
    }
  }).length;
}

test('weights are packed anew when the system has freed those before, for which closing waits too', async () => {
  const { shared, packer } = await packed();
  assert.is(numMemories(), 1);
  let numLeft = -1;
  // A runner of another model.
  await new Promise<void>((resolve) => {
    assert.ok(
      shared.wait(other, () => {
        numLeft = numMemories();
        resolve();
      }),
    );
  });
  assert.is(numLeft, 0);
  assert.is(
    shared.wait(other, () => {}),
    undefined,
  );
  shared.onDied(packer, killed);
  const next = await packed();
  await next.shared.close();
  assert.is(numMemories(), 0);
});

test('weights that another runner has mapped outlive a lack of memory, and a time without starts', async () => {
  const { shared, dropped, packer } = await packed();
  for (const death of [
    deathBy({ signal: 'SIGKILL', isOutOfMemory: true }),
    deathBy({ code: 71, ...unready }),
  ])
    shared.onDied(shared.lend(command), death);
  shared.closeUnlessUsed();
  const third = shared.lend(command);
  assert.is(third.source, 'shared');
  assert.equal(dropped, []);
  shared.onDied(third, killed);
  shared.onDied(packer, killed);
  shared.closeUnlessUsed();
  assert.is(shared.lend(command).source, 'packed');
});

test.run();
