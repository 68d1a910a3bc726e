import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../../../fixtures/app.ts';

const test = suite('ollama embed');

interface Answer {
  readonly model: string;
  readonly embeddings: readonly (readonly number[])[];
  readonly total_duration: number;
  readonly load_duration: number;
  readonly prompt_eval_count: number;
}

test('embed gives a vector of a length of 1 for each text, with counts and times', async () => {
  const { post, runner } = testApp();
  const response = await post('/api/embed', { model: 'bytes', input: ['\u0003\u0004', '\u0001'] });
  assert.is(response.status, 200);
  const { model, embeddings, total_duration, load_duration, prompt_eval_count } =
    (await response.json()) as Answer;
  assert.is(model, 'bytes');
  const single = (value: number) => Number(Math.fround(value).toPrecision(9));
  assert.equal(embeddings, [
    [single(0.6), single(0.8), 0, 0],
    [1, 0, 0, 0],
  ]);
  assert.ok(total_duration >= load_duration && load_duration >= 0);
  assert.is(prompt_eval_count, 3);
  assert.is(runner.requests[0]?.api, 'ollama');
});

test('embed loads the model for nothing, takes names with a tag, and dimensions', async () => {
  const { post, runner } = testApp();
  for (const input of [{}, { input: '' }, { input: [] }]) {
    const { embeddings } = (await (await post('/api/embed', { model: 'bytes', ...input })).json()) as Answer;
    assert.equal(embeddings, []);
  }
  assert.is(runner.requests.length, 0);
  const body = {
    model: 'bytes:latest',
    input: [String.fromCharCode(3, 4, 12)],
    dimensions: 1,
    keep_alive: '5m',
  };
  const response = await post('/api/embed', body);
  assert.equal(((await response.json()) as Answer).embeddings, [[1]]);
  assert.is(response.headers.get('x-runnel-ignored'), 'keep_alive');
});

test('embed cuts a text that is too long, and refuses it by its place where it shall not', async () => {
  const { post, runner } = testApp();
  const input = ['a', 'b'.repeat(700)];
  assert.is((await post('/api/embed', { model: 'bytes', input })).status, 200);
  assert.is(runner.requests.at(-1)?.promptIds.length, 512);
  const small = await post('/api/embed', { model: 'bytes', input, options: { num_ctx: 8 } });
  assert.is(small.status, 200);
  assert.is(runner.requests.at(-1)?.promptIds.length, 8);
  const refused = await post('/api/embed', { model: 'bytes', input, truncate: false });
  assert.is(refused.status, 400);
  assert.match(((await refused.json()) as { error: string }).error, /input\.1 takes 700/);
  const wrong = await post('/api/embed', { model: 'bytes', input: [1] });
  assert.is(wrong.status, 400);
});

test('the older route gives the vector of one text as long as the model makes it', async () => {
  const { post, runner } = testApp();
  runner.vectorOf = () => [3, 4, 0.1, 0];
  const { embedding } = (await (await post('/api/embeddings', { model: 'bytes', prompt: 'a' })).json()) as {
    embedding: number[];
  };
  assert.equal(embedding, [3, 4, 0.100000001, 0]);
  const empty = await post('/api/embeddings', { model: 'bytes' });
  assert.equal(await empty.json(), { embedding: [] });
  assert.is(runner.requests.length, 1);
});

test.run();
