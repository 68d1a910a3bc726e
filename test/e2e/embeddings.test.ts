import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { CPU_RUNNER } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { Random } from '../fixtures/random.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';

/** Embeddings through the usual clients, compared with those of transformers (test/golden/make.py). */

const test = suite('vectors of texts');

const MODEL = goldenFile('qwen3-f32.gguf');
const VOCAB_SIZE = 272;
/** Against transformers with the F32 model, if the cache is F32 too. */
const MAX_DIFFERENCE = 1e-4;
const FLAGS = ['--kv-cache-type', 'f32', '--served-model-name', 'tiny'];

interface Golden {
  readonly prompt: readonly number[];
  readonly greedy: readonly number[];
  readonly vectors: Readonly<Record<'last' | 'mean' | 'cls', readonly number[]>>;
}

const golden = JSON.parse(readFileSync(goldenFile('qwen3.json'), 'utf8')) as Golden;
const goldenIds = [...golden.prompt, ...golden.greedy];

function goldenFile(name: string): string {
  return fileURLToPath(new URL(`../golden/models/${name}`, import.meta.url));
}

const gateway = await Gateway.during(test, MODEL, [...FLAGS, '--backend', 'cpu', '--runner', CPU_RUNNER]);
const openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none', maxRetries: 0 });

function ofLengthOne(vector: readonly number[]): number[] {
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}

function differenceOf(a: readonly number[], b: readonly number[]): number {
  assert.is(a.length, b.length);
  return Math.max(...a.map((value, index) => Math.abs(value - (b[index] ?? Number.NaN))));
}

async function vectorsOf(input: string[] | number[] | number[][], more = {}): Promise<number[][]> {
  const { data } = await openai.embeddings.create({ model: 'tiny', input, ...more });
  assert.equal(
    data.map(({ index }) => index),
    data.map((_, index) => index),
  );
  return data.map(({ embedding }) => embedding);
}

test('the official OpenAI client has the vectors of transformers, as numbers and as bytes', async () => {
  const answer = await openai.embeddings.create({ model: 'tiny', input: goldenIds, user: 'somebody' });
  assert.is(answer.model, 'tiny');
  assert.equal(answer.usage, { prompt_tokens: goldenIds.length, total_tokens: goldenIds.length });
  const [vector = []] = await vectorsOf(goldenIds);
  assert.ok(differenceOf(vector, ofLengthOne(golden.vectors.last)) < MAX_DIFFERENCE);
  const [floats = []] = await vectorsOf(goldenIds, { encoding_format: 'float' });
  assert.equal([...Float32Array.from(floats)], vector);
  const [short = []] = await vectorsOf(goldenIds, { dimensions: 16 });
  assert.ok(differenceOf(short, ofLengthOne(golden.vectors.last.slice(0, 16))) < MAX_DIFFERENCE);
});

test('the official Ollama client has the same, scaled and as they are', async () => {
  const ollama = new Ollama({ host: gateway.url });
  const texts = ['The sky is blue.', 'Grass is green.'];
  const { embeddings, prompt_eval_count } = await ollama.embed({ model: 'tiny', input: texts });
  const same = await vectorsOf(texts, { encoding_format: 'float' });
  assert.equal(embeddings, same);
  assert.ok(prompt_eval_count > 0);
  const { embedding } = await ollama.embeddings({ model: 'tiny', prompt: texts[0] ?? '' });
  assert.ok(Math.abs(Math.hypot(...embedding) - 1) > 0.1);
  assert.ok(differenceOf(ofLengthOne(embedding), same[0] ?? []) < 1e-6);
});

test('mean and cls, set on the server, match transformers', async () => {
  for (const pooling of ['mean', 'cls'] as const) {
    const other = await (
      await Gateway.start(MODEL, [...FLAGS, '--backend', 'cpu', '--pooling', pooling])
    ).ready();
    try {
      const response = await other.post('/v1/embeddings', { model: 'tiny', input: goldenIds });
      const { data } = (await response.json()) as { data: { embedding: number[] }[] };
      assert.ok(
        differenceOf(data[0]?.embedding ?? [], ofLengthOne(golden.vectors[pooling])) < MAX_DIFFERENCE,
      );
    } finally {
      await other.stop();
    }
  }
});

/** As sentence-transformers saves a model: by AutoModel, which leaves out what names of tensors begin with, and modules. */
function writeSentenceFolder(path: string): void {
  cpSync(goldenFile('qwen3'), path, { recursive: true });
  const weights = readFileSync(join(path, 'model.safetensors'));
  const headerEnd = 8 + Number(weights.readBigUInt64LE());
  const header = Buffer.from(weights.toString('utf8', 8, headerEnd).replaceAll('"model.', '"'));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(
    join(path, 'model.safetensors'),
    Buffer.concat([length, header, weights.subarray(headerEnd)]),
  );
  const types = ['Transformer', 'Pooling', 'Normalize'];
  const modules = types.map((type, idx) => ({
    idx,
    name: String(idx),
    path: idx === 0 ? '' : `${idx}_${type}`,
    type: `sentence_transformers.models.${type}`,
  }));
  writeFileSync(join(path, 'modules.json'), JSON.stringify(modules));
  mkdirSync(join(path, '1_Pooling'));
  writeFileSync(
    join(path, '1_Pooling/config.json'),
    JSON.stringify({ word_embedding_dimension: 64, pooling_mode_mean_tokens: true }),
  );
}

test('a folder that sentence-transformers saved has the vectors that it says', async () => {
  const path = join(temporaryFolder().path, 'sentences');
  writeSentenceFolder(path);
  const other = await (await Gateway.start(path, [...FLAGS, '--backend', 'cpu'])).ready();
  try {
    const response = await other.post('/v1/embeddings', { model: 'tiny', input: goldenIds });
    const { data } = (await response.json()) as { data: { embedding: number[] }[] };
    assert.ok(differenceOf(data[0]?.embedding ?? [], ofLengthOne(golden.vectors.mean)) < MAX_DIFFERENCE);
  } finally {
    await other.stop();
  }
});

test('errors are those of the SDK, with the place of the text', async () => {
  const tooLong = Array.from({ length: 513 }, () => 5);
  const thrown: unknown = await openai.embeddings
    .create({ model: 'tiny', input: [[5], tooLong] })
    .catch((error: unknown) => error);
  assert.instance(thrown, OpenAI.BadRequestError);
  assert.is((thrown as InstanceType<typeof OpenAI.BadRequestError>).param, 'input.1');
  const unknown: unknown = await openai.embeddings
    .create({ model: 'other', input: 'a' })
    .catch((error: unknown) => error);
  assert.instance(unknown, OpenAI.NotFoundError);
});

test('a runner that is killed in the middle shows in no vector', async () => {
  const random = new Random();
  console.log(`RUNNEL_TEST_SEED=${random.seed}`);
  const input = Array.from({ length: 400 }, () =>
    Array.from({ length: 1 + random.below(500) }, () => random.below(VOCAB_SIZE)),
  );
  const wanted = await vectorsOf(input);
  const { runner: before } = await gateway.health();
  const vectors = vectorsOf(input);
  await gateway.healthWhere(({ runner }) => runner.open_requests > 0, 'the texts to be with the runner');
  if (before.pid !== null) process.kill(before.pid, 'SIGKILL');
  assert.equal(await vectors, wanted);
  const { runner } = await gateway.health();
  assert.is(runner.restarts, before.restarts + 1);
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  assert.match(metrics, /worker_requests_total\{outcome="embedded",model="[^"]+"\} \d{3}/);
});

test('a client that leaves takes its texts back', async () => {
  const controller = new AbortController();
  const input = Array.from({ length: 1500 }, (_, index) => Array.from({ length: 150 }, () => index % 100));
  const asked = openai.embeddings.create({ model: 'tiny', input }, { signal: controller.signal });
  const ended = asked.then(
    () => 'an answer',
    (error: unknown) => error,
  );
  await gateway.healthWhere(({ runner }) => runner.open_requests > 0, 'the texts to be with the runner');
  controller.abort();
  assert.instance(await ended, OpenAI.APIUserAbortError);
  await gateway.idle();
  await until(PATIENCE_MS, 'the cache to be free', async () => {
    const { runner } = await gateway.health();
    return runner.kv_blocks_free === runner.kv_blocks;
  });
});

test.run();
