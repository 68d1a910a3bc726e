import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Gateway } from '../fixtures/gateway.ts';

/** A model with a classification head that scores pairs of texts, compared with transformers (test/golden/make.py). */

const test = suite('cross-encoder');

const goldenFile = (name: string): string =>
  fileURLToPath(new URL(`../golden/models/${name}`, import.meta.url));
const golden: { readonly pair: readonly [string, string]; readonly logit_of_pair: number } = JSON.parse(
  readFileSync(goldenFile('roberta-rank.json'), 'utf8'),
);
const MAX_DIFFERENCE = 1e-5;

const gateway = await Gateway.during(test, goldenFile('roberta-rank-f32.gguf'), [
  ...['--kv-cache-type', 'f32', '--served-model-name', 'tiny', '--backend', 'cpu'],
]);

const ofFolder = await Gateway.during(test, goldenFile('roberta-rank'), ['--backend', 'cpu']);

async function answerOf(path: string, body: object): Promise<{ status: number; text: string }> {
  const response = await gateway.post(path, { model: 'tiny', ...body });
  return { status: response.status, text: await response.text() };
}

async function scoresOf(query: string, documents: readonly string[]): Promise<number[]> {
  const { status, text } = await answerOf('/v1/score', { text_1: query, text_2: documents });
  assert.is(status, 200, text);
  return (JSON.parse(text) as { data: { score: number }[] }).data.map(({ score }) => score);
}

test("a score is the sigmoid of transformers' logit, whatever is scored beside it, and orders documents", async () => {
  const [query, document] = golden.pair;
  const [score = Number.NaN] = await scoresOf(query, [document]);
  assert.ok(Math.abs(score - 1 / (1 + Math.exp(-golden.logit_of_pair))) < MAX_DIFFERENCE, `${score}`);
  const documents = ['Nowhere.', document, '', 'It may be there, or not.', 'No.'];
  const scores = await scoresOf(query, documents);
  assert.is(scores[1], score);
  const { text } = await answerOf('/v1/rerank', { query, documents });
  const { results } = JSON.parse(text) as { results: { index: number; relevance_score: number }[] };
  const order = [...scores.keys()].sort((one, other) => (scores[other] ?? 0) - (scores[one] ?? 0));
  assert.equal(
    results.map(({ index }) => index),
    order,
  );
  assert.equal(
    results.map(({ relevance_score }) => relevance_score),
    order.map((index) => scores[index]),
  );
});

test('a runner that is killed in the middle shows in no score', async () => {
  const documents = Array.from({ length: 400 }, (_, index) => `${index} is a number.`);
  const wanted = await scoresOf('Which?', documents);
  const restarts = await gateway.restarts();
  const scores = scoresOf('Which?', documents);
  await gateway.healthWhere(({ runner }) => runner.open_requests > 0, 'the pairs to be with the runner');
  await gateway.killRunner();
  assert.equal(await scores, wanted);
  assert.is(await gateway.restarts(), restarts + 1);
});

test('its file says that it makes no vectors', async () => {
  const { status, text } = await answerOf('/v1/embeddings', { input: 'a' });
  assert.is(status, 400);
  assert.match(text, "The model's file says pooling_type 4, which is not supported");
});

test('a folder, which says nothing of vectors, makes none either', async () => {
  const response = await ofFolder.post('/v1/embeddings', { model: 'roberta-rank', input: 'a' });
  assert.is(response.status, 400);
  assert.match(await response.text(), "The model's file has a classification head and names no pooling");
});

test.run();
