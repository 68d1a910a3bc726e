/**
 * The model file is replaced, broken or truncated while streams are open, and then its runner dies; or the runner
 * violates its sandbox. No runner is started until the file changes, all clients are told why, and then service
 * continues.
 */
import { readFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { CPU_RUNNER, FAULTY_RUNNER, TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway, stateOf } from '../fixtures/gateway.ts';
import { type NativeAnswer, readNativeAnswer } from '../fixtures/native-stream.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, within } from '../fixtures/within.ts';

/** In a small model: after the metadata, before the end of the tensors. */
const CUT_BYTES = 16 * 1024;

const folder = temporaryFolder();
const model = join(folder.path, 'model.gguf');
const plan = join(folder.path, 'plan');
/** Starts the planned program in place of the runner. */
const launcher = folder.write('runner', `#!/bin/sh\nexec $(cat ${plan}) "$@"\n`, 0o755);

const shipped = CPU_RUNNER;
const faulty = (fault: string): string => `${FAULTY_RUNNER} ${fault}`;

const test = suite<{ gateway: Gateway }>('model file');

test.before.each(() => replaceModel(readFileSync(TINY_MODEL)));
test.after.each(async ({ gateway }) => {
  await gateway?.stop();
});

/** Replaces the file in the recommended way: another file takes its name. */
function replaceModel(bytes: Uint8Array): void {
  renameSync(folder.write('next.gguf', bytes), model);
}

async function startWith(command: string): Promise<Gateway> {
  writeFileSync(plan, command);
  return (await Gateway.start(model, ['--runner', launcher, '--threads', '1'])).ready();
}

async function ask(gateway: Gateway): Promise<NativeAnswer> {
  const job = { job_id: 'job', prompt: 'Once upon a time', max_tokens: 40, min_tokens: 40 };
  const answer = gateway.post('/execute', job).then((response) => readNativeAnswer(response));
  return within(PATIENCE_MS, 'The end of the stream', answer);
}

/** The pid of a runner that has stopped at the planned place. */
async function stoppedRunner(gateway: Gateway, other?: number): Promise<number> {
  const isStopped = (pid: number | null): pid is number =>
    pid !== null && pid !== other && stateOf(pid) === 'T';
  const { runner } = await gateway.healthWhere(
    ({ runner: { pid } }) => isStopped(pid),
    'The stop of a runner',
  );
  assert.ok(runner.pid);
  return runner.pid;
}

/**
 * Checks that the stream has ended with the reason, that other clients get the same reason, and that no runner starts
 * until the file changes.
 */
async function assertRefused(gateway: Gateway, stream: Promise<NativeAnswer>, reason: RegExp): Promise<void> {
  const { last, indices } = await stream;
  assert.ok(indices.length > 0, 'it had begun');
  assert.equal([last.event, last.data.code, last.data.retriable], ['error', 'INFERENCE_FAILED', true]);
  assert.match(String(last.data.message), reason);
  const { status, runner } = await gateway.health();
  assert.equal([status, runner.state, runner.pid, runner.open_requests], ['unhealthy', 'failed', null, 0]);
  assert.match(runner.reason ?? '', reason);
  for (const response of [
    await fetch(`${gateway.url}/ready`),
    await gateway.post('/execute', { job_id: 'job', prompt: 'x' }),
  ]) {
    assert.is(response.status, 503);
    assert.ok(Number(response.headers.get('retry-after')) >= 1);
    assert.match(await response.text(), reason);
  }
}

async function assertServesAgain(gateway: Gateway): Promise<void> {
  writeFileSync(plan, shipped);
  replaceModel(readFileSync(TINY_MODEL));
  await gateway.ready();
  assert.is((await ask(gateway)).last.event, 'end');
}

/** Sets one layer less than the file has tensors for. The gateway does not check this. */
function withOneLayerLess(bytes: Buffer): Buffer {
  const key = 'llama.block_count';
  bytes.writeUInt32LE(1, bytes.indexOf(key) + key.length + 4);
  return bytes;
}

const broken = [
  {
    who: 'the gateway',
    bytes: readFileSync(TINY_MODEL).subarray(0, CUT_BYTES),
    reason: /model\.gguf/,
    restarts: 0,
  },
  {
    who: 'the runner alone',
    bytes: withOneLayerLess(readFileSync(TINY_MODEL)),
    reason: /blk\.1\./,
    restarts: 1,
  },
];

for (const { who, bytes, reason, restarts } of broken) {
  test(`replaced by a broken one that ${who} refuses: streams end with the reason`, async (context) => {
    const gateway = await startWith(faulty('stop@step:5'));
    context.gateway = gateway;
    const stream = ask(gateway);
    const pid = await stoppedRunner(gateway);
    replaceModel(bytes);
    writeFileSync(plan, shipped);
    process.kill(pid, 'SIGKILL');
    await assertRefused(gateway, stream, reason);
    assert.is((await gateway.health()).runner.restarts, restarts, 'it is not tried again and again');
    await assertServesAgain(gateway);
  });
}

test('cut short while a runner loads it: a death by SIGBUS, and the next one is not tried', async (context) => {
  const gateway = await startWith(faulty('stop@step:5'));
  context.gateway = gateway;
  const stream = ask(gateway);
  const first = await stoppedRunner(gateway);
  writeFileSync(plan, faulty('stop@load:3'));
  process.kill(first, 'SIGKILL');
  const second = await stoppedRunner(gateway, first);
  truncateSync(model, CUT_BYTES);
  process.kill(second, 'SIGCONT');
  await assertRefused(gateway, stream, /model\.gguf/);
  await gateway.logged(
    /The runner was ended by SIGBUS: the model file was cut short, or could not be read\./,
  );
  await assertServesAgain(gateway);
});

test('a runner that does what its sandbox forbids has no successor at the same file', async (context) => {
  const gateway = await startWith(faulty('breach@step:5'));
  context.gateway = gateway;
  await assertRefused(gateway, ask(gateway), /SIGSYS: it tried what its sandbox forbids/);
  assert.is((await gateway.health()).runner.restarts, 0);
  await assertServesAgain(gateway);
});

test.run();
