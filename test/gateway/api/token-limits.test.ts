import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../../fixtures/app.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';

/** The limits of the server, --max-tokens-in and --max-tokens-out, on every route that generates. */

const test = suite('token limits');

const messages = [{ role: 'user', content: 'x'.repeat(20) }];
const prompt = 'x'.repeat(20);
/** The path, a body with a prompt of at least 20 tokens, and the field that says how many tokens the answer may have. */
const ROUTES: readonly [string, Record<string, unknown>, string][] = [
  ['/execute', { job_id: 'a', prompt }, 'max_tokens'],
  ['/execute', { job_id: 'b', prompt_ids: [...prompt].map(() => 120) }, 'max_tokens'],
  ['/v1/chat/completions', { model: 'bytes', messages }, 'max_tokens'],
  ['/v1/completions', { model: 'bytes', prompt }, 'max_tokens'],
  ['/v1/responses', { model: 'bytes', input: prompt }, 'max_output_tokens'],
  ['/v1/messages', { model: 'bytes', messages, max_tokens: 500 }, 'max_tokens'],
  ['/api/generate', { model: 'bytes', prompt, stream: false }, 'options'],
  ['/api/chat', { model: 'bytes', messages, stream: false }, 'options'],
];

test('a prompt above --max-tokens-in is a 400 that says both numbers; one of just that length is taken', async () => {
  for (const [path, body] of ROUTES) {
    const open = testApp();
    open.runner.script = [[EOS_ID]];
    await (await open.post(path, body)).text();
    const length = open.runner.requests[0]?.promptIds.length ?? 0;
    assert.ok(length >= 20, path);
    const { runner, post } = testApp({ tokenLimits: { maxTokensIn: length - 1 } });
    const refused = await post(path, body);
    assert.is(refused.status, 400, path);
    const text = await refused.text();
    assert.match(text, `This server's maximum prompt length is ${length - 1} tokens, but `, path);
    assert.match(text, ` takes ${length}; send less`, path);
    assert.is(runner.requests.length, 0, path);
    const taken = testApp({ tokenLimits: { maxTokensIn: length } });
    taken.runner.script = [[EOS_ID]];
    assert.is((await taken.post(path, body)).status, 200, path);
  }
});

test('an answer has at most --max-tokens-out tokens, whatever its request asks for', async () => {
  for (const [path, body, field] of ROUTES) {
    const { runner, post } = testApp({ tokenLimits: { maxTokensOut: 7 } });
    runner.script = [[EOS_ID]];
    const of = (value: number) =>
      field === 'options' ? { options: { num_predict: value } } : { [field]: value };
    for (const asked of [{}, of(100), of(7), of(3)]) await (await post(path, { ...body, ...asked })).text();
    assert.equal(
      runner.requests.map(({ maxTokens }) => maxTokens),
      [7, 7, 7, 3],
      path,
    );
  }
});

test('an answer that --max-tokens-out ends says that its tokens were used up', async () => {
  const { runner, post } = testApp({ tokenLimits: { maxTokensOut: 2 } });
  runner.script = [[97, 98], [EOS_ID]];
  const asked = { model: 'bytes', messages, max_tokens: 100 };
  const chat = await (await post('/v1/chat/completions', asked)).json();
  assert.is(chat.choices[0].finish_reason, 'length');
  const message = await (await post('/v1/messages', asked)).json();
  assert.is(message.stop_reason, 'max_tokens');
});

test('min_tokens above --max-tokens-out is refused with the limit', async () => {
  const { post } = testApp({ tokenLimits: { maxTokensOut: 7 } });
  for (const [path, body] of ROUTES.slice(0, 4)) {
    const refused = await post(path, { ...body, max_tokens: 100, min_tokens: 8 });
    assert.is(refused.status, 400, path);
    assert.match(
      await refused.text(),
      "This server's maximum answer length is 7 tokens, but min_tokens asks for 8",
      path,
    );
  }
});

test('texts that become vectors are no prompts: the context alone bounds them', async () => {
  const { post } = testApp({ tokenLimits: { maxTokensIn: 5, maxTokensOut: 5 } });
  assert.is((await post('/v1/embeddings', { model: 'bytes', input: prompt })).status, 200);
});

test.run();
