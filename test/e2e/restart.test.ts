/** The real runner is replaced, crashes, and is left by its clients, under streams that must not notice. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { pacedRunner } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { RawClient } from '../fixtures/raw-client.ts';
import { llamaFile } from '../fixtures/served-llama.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until, within } from '../fixtures/within.ts';

const test = suite('restart');
const folder = temporaryFolder();
/** So slow are the steps that a stream is open until several runners have been replaced. */
const STEP_MS = 20;
/** Room for some two hundred tokens of the model. */
const SMALL_CACHE_BYTES = 25_000;
const NUM_LEAVING = Number(process.env.RUNNEL_TEST_STORM ?? 20);

const config = join(folder.path, 'config.json');
const recording = join(folder.path, 'session.frames');
const reports = join(folder.path, 'crashes');
const settings = { threads: 2, record: recording, 'crash-reports-dir': reports, 'kv-cache-bytes': 2 ** 26 };

interface Blocks {
  readonly runner: { readonly kv_blocks: number; readonly kv_blocks_free: number };
}

async function blocks(): Promise<Blocks['runner']> {
  return ((await gateway.health()) as unknown as Blocks).runner;
}

writeFileSync(config, JSON.stringify(settings));
const model = folder.write('small.gguf', llamaFile({ heads: 1 }));
const gateway = await Gateway.during(test, model, ['--config', config, '--runner', pacedRunner(STEP_MS)]);

async function answer(index: number): Promise<string> {
  const prompt = `Once upon a time, number ${index} of the lighthouses`;
  const body = { job_id: `job ${index}`, prompt, max_tokens: 300, seed: index, token_ids: true };
  const { text, last } = await readNativeAnswer(await gateway.post('/execute', body));
  assert.is(last.event, 'end');
  return text;
}

const answers = (): Promise<string[]> => Promise.all([1, 2, 3, 4].map(answer));

test('a new runner, with new settings or not, changes no byte of a stream', async () => {
  const alone = await answers();
  const during = answers();
  for (let round = 0; round < 2; round++) {
    const response = await gateway.post('/runner/restart', { wait: true });
    assert.is(response.status, 200, await response.text());
  }
  assert.is((await gateway.health()).runner.open_requests, 4, 'the streams are still open');
  const before = await blocks();
  writeFileSync(config, JSON.stringify({ ...settings, 'kv-cache-bytes': 2 ** 25, 'max-queued-tokens': 9 }));
  gateway.process.kill('SIGHUP');
  await until(PATIENCE_MS, 'A smaller cache', async () => (await blocks()).kv_blocks < before.kv_blocks);
  assert.equal(await within(PATIENCE_MS, 'The answers', during), alone);
  await gateway.logged(/settings_not_applied/);
  await gateway.logged(/("event":"runner_replacing".*){3}/s);
  assert.is(gateway.log.match(/"event":"runner_replacing"/g)?.length, 3, 'each is told, once');
  const { runner } = await gateway.health();
  assert.is(runner.restarts, 3);
});

test('settings that cannot be used change nothing', async () => {
  const { runner } = await gateway.health();
  writeFileSync(config, '{"threads": "many"}');
  const refused = await gateway.post('/runner/restart', {});
  assert.is(refused.status, 409);
  assert.match(await refused.text(), 'threads');
  gateway.process.kill('SIGHUP');
  await until(PATIENCE_MS, 'A word in the log', () => gateway.log.includes('settings_unusable'));
  assert.is((await gateway.health()).runner.pid, runner.pid);
});

test('a crash leaves a report with the recording to replay', async () => {
  const { runner } = await gateway.health();
  if (runner.pid === null) throw new Error('there is no runner');
  process.kill(runner.pid, 'SIGSEGV');
  await until(PATIENCE_MS, 'Another runner', async () => (await gateway.health()).runner.restarts === 4);
  await gateway.ready();
  const { crashes } = (await (await fetch(`${gateway.url}/runner/crashes`)).json()) as {
    crashes: { signal: string; recording: string; numerics_id: string }[];
  };
  assert.is(crashes.length, 1, 'runners that were replaced did not crash');
  assert.is(crashes[0]?.signal, 'SIGSEGV');
  assert.match(crashes[0]?.numerics_id ?? '', 'i8-1');
  assert.ok(existsSync(crashes[0]?.recording ?? ''));
  assert.ok((crashes[0]?.recording ?? '').startsWith(reports));
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  assert.match(metrics, /^runnel_runner_crashes_total\{reason="SIGSEGV",model="[^"]+"\} 1$/m);
});

test(`${NUM_LEAVING} clients that leave with the first token give all blocks back`, async () => {
  const { kv_blocks } = await blocks();
  const port = Number(new URL(gateway.url).port);
  for (let index = 0; index < NUM_LEAVING; index++) {
    const client = await RawClient.connect(port);
    client.post('/execute', { job_id: `leaving ${index}`, prompt: `Story ${index} of`, max_tokens: 500 });
    await until(PATIENCE_MS, 'A token', () => client.received.includes('event: token'));
    client.socket.resetAndDestroy();
  }
  await until(PATIENCE_MS, 'All blocks', async () => (await blocks()).kv_blocks_free === kv_blocks);
  assert.is((await gateway.health()).runner.open_requests, 0);
});

test('a stream that the cache of a new runner cannot hold ends with VRAM_OOM, and the runner serves on', async () => {
  const body = { job_id: 'large', prompt: 'Once upon a time', max_tokens: 2048, min_tokens: 500, seed: 1 };
  let restarted: Promise<Response> | undefined;
  const { text, last } = await readNativeAnswer(await gateway.post('/execute', body), () => {
    if (restarted !== undefined) return;
    writeFileSync(config, JSON.stringify({ ...settings, 'kv-cache-bytes': SMALL_CACHE_BYTES }));
    restarted = gateway.post('/runner/restart', { wait: true });
  });
  assert.is((await restarted)?.status, 200);
  assert.ok(text.length > 0);
  assert.is(last.event, 'error');
  assert.is(last.data.code, 'VRAM_OOM');
  assert.is(last.data.retriable, false);
  assert.match(String(last.data.message), /a runner whose KV cache holds \d+ tokens, and needs more/);
  assert.ok((await answer(5)).length > 0);
});

test.run();
