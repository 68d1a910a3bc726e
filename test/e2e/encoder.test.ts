import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Gateway } from '../fixtures/gateway.ts';
import { Random } from '../fixtures/random.ts';

/** A model that makes vectors of texts and writes none, compared with transformers (test/golden/make.py). */

const test = suite('encoder');

const goldenFile = (name: string): string =>
  fileURLToPath(new URL(`../golden/models/${name}`, import.meta.url));
const golden: { readonly prompt: readonly number[]; readonly vectors: { readonly mean: readonly number[] } } =
  JSON.parse(readFileSync(goldenFile('bert.json'), 'utf8'));
const VOCAB_SIZE = 272;
const MAX_DIFFERENCE = 1e-4;

const gateway = await Gateway.during(test, goldenFile('bert-f32.gguf'), [
  ...['--kv-cache-type', 'f32', '--served-model-name', 'tiny', '--backend', 'cpu'],
]);

async function vectorsOf(input: readonly (readonly number[])[]): Promise<number[][]> {
  const response = await gateway.post('/v1/embeddings', { model: 'tiny', input });
  const text = await response.text();
  assert.is(response.status, 200, text);
  return (JSON.parse(text) as { data: { embedding: number[] }[] }).data.map(({ embedding }) => embedding);
}

test('its vectors are those of transformers, by the pooling of its file', async () => {
  const { mean } = golden.vectors;
  const length = Math.hypot(...mean);
  const [vector = []] = await vectorsOf([golden.prompt]);
  const differences = vector.map((value, index) => Math.abs(value - (mean[index] ?? Number.NaN) / length));
  assert.is(differences.length, mean.length);
  assert.ok(Math.max(...differences) < MAX_DIFFERENCE);
});

test('a runner that is killed in the middle shows in no vector, and the next one serves', async () => {
  const random = new Random();
  console.log(`RUNNEL_TEST_SEED=${random.seed}`);
  const input = Array.from({ length: 300 }, () =>
    Array.from({ length: 1 + random.below(512) }, () => random.below(VOCAB_SIZE)),
  );
  const wanted = await vectorsOf(input);
  const restarts = await gateway.restarts();
  const vectors = vectorsOf(input);
  await gateway.healthWhere(({ runner }) => runner.open_requests > 0, 'the texts to be with the runner');
  await gateway.killRunner();
  assert.equal(await vectors, wanted);
  assert.is(await gateway.restarts(), restarts + 1);
});

test('what asks it to write is refused', async () => {
  const response = await gateway.post('/v1/completions', { model: 'tiny', prompt: 'Hello', max_tokens: 1 });
  assert.is(response.status, 400);
  assert.match(
    await response.text(),
    'The model is an encoder, which makes vectors of texts and writes none',
  );
});

test.run();
