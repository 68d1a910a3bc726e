import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { CPU_RUNNER, CUDA_RUNNER_EMULATED } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { llamaFile } from '../fixtures/served-llama.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { within } from '../fixtures/within.ts';

/** cuda-runner on the emulated GPU, where cpu-runner has tests of its own: vectors of texts, and replays. */

const TIMEOUT_MS = 60_000;
const goldenModel = (name: string): string =>
  fileURLToPath(new URL(`../golden/models/${name}`, import.meta.url));
const QWEN3 = goldenModel('qwen3-f32.gguf');
const BERT = goldenModel('bert-f32.gguf');

const test = suite('emulated GPU');

test('vectors of texts have the bits of the CPU', async () => {
  const flags = ['--kv-cache-type', 'f32', '--served-model-name', 'tiny'];
  const start = async (...more: string[]) => (await Gateway.start(QWEN3, [...flags, ...more])).ready();
  const gateways: Gateway[] = [];
  try {
    gateways.push(await start('--backend', 'cuda', '--cuda-runner', CUDA_RUNNER_EMULATED));
    gateways.push(await start('--backend', 'cpu', '--runner', CPU_RUNNER));
    const body = {
      model: 'tiny',
      input: ['The sky is blue.', 'Grass is green.', 'a'],
      encoding_format: 'base64',
    };
    const [onGpu, onCpu] = await Promise.all(
      gateways.map(async (gateway) => (await gateway.post('/v1/embeddings', body)).text()),
    );
    assert.match(onGpu as string, '"embedding":"');
    assert.is(onGpu, onCpu);
  } finally {
    await Promise.all(gateways.map((gateway) => gateway.stop()));
  }
});

test('one gateway computes a model that writes on the GPU and an encoder on the CPU', async () => {
  const runners = ['--backend', 'auto', '--cuda-runner', CUDA_RUNNER_EMULATED, '--runner', CPU_RUNNER];
  const models = ['--model', `writer=${QWEN3}`, '--model', `encoder=${BERT}`];
  const started = await Gateway.startOn(undefined, ['--port', '0', ...models, ...runners]);
  try {
    const gateway = await started.ready();
    const computed = async (path: string, body: object) => {
      const response = await gateway.post(path, body);
      assert.is(response.status, 200, await response.text());
    };
    await computed('/v1/completions', { model: 'writer', prompt: 'a', max_tokens: 2 });
    await computed('/v1/embeddings', { model: 'encoder', input: 'a' });
    const { models: loaded } = (await (await fetch(`${gateway.url}/api/ps`)).json()) as {
      models: readonly { name: string; size_vram: number }[];
    };
    const onGpu = loaded.filter(({ size_vram }) => size_vram > 0).map(({ name }) => name);
    assert.equal([loaded.length, ...onGpu], [2, 'writer:latest']);
  } finally {
    await started.stop();
  }
});

test('a recording of cuda-runner replays on it with the same bits', async () => {
  const folder = temporaryFolder();
  const file = join(folder.path, 'cuda.frames');
  const model = folder.write('small.gguf', llamaFile());
  const args = ['serve', '--model', model, '--json-frames', '--record', file];
  const runner = spawn(CUDA_RUNNER_EMULATED, args, { stdio: ['pipe', 'ignore', 'ignore'] });
  const sampling = { temperature: 0.8, seed: '18446744073709551615', frequency_penalty: 0.3 };
  const requests: [number[], number][] = [
    [[1, 2, 3, 4], 60],
    [[5, 6], 20],
    [[1, 2, 3, 4], 40],
  ];
  for (const [index, [token_ids, max_tokens]] of requests.entries()) {
    const generate = { request_id: index + 1, token_ids, max_tokens, sampling, top_logprobs: 2 };
    runner.stdin.write(`${JSON.stringify({ generate })}\n`);
  }
  runner.stdin.end();
  assert.is((await within(TIMEOUT_MS, 'The exit', once(runner, 'exit')))[0], 0);
  const replayed = spawnSync(CUDA_RUNNER_EMULATED, ['replay', file], { encoding: 'utf8' });
  assert.is(replayed.status, 0, replayed.stderr);
  assert.match(replayed.stdout, /^[1-9]\d* steps, 120 tokens, all equal\.\n/);
});

test.run();
