import OpenAI, { BadRequestError, NotFoundError } from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';

const test = suite('the official openai client');

let gateway: Gateway;
let client: OpenAI;

test.before(async () => {
  gateway = await (await Gateway.start(DEFAULT_MODEL)).ready();
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
test.after(async () => {
  await gateway.stop();
});

const messages = [{ role: 'user' as const, content: 'What is the capital of France?' }];

test('streams a chat and gets its usage', async () => {
  const [model] = (await client.models.list()).data;
  assert.ok(model);
  const stream = await client.chat.completions.create({
    model: model.id,
    messages,
    temperature: 0,
    max_completion_tokens: 32,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = '';
  let finishReason: string | null | undefined;
  let usage: OpenAI.CompletionUsage | null | undefined;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? '';
    finishReason = chunk.choices[0]?.finish_reason ?? finishReason;
    usage = chunk.usage ?? usage;
  }
  assert.match(text, 'Paris');
  assert.ok(finishReason === 'stop' || finishReason === 'length');
  assert.ok(usage && usage.prompt_tokens > 10 && usage.completion_tokens > 0);
  assert.is(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);

  const whole = await client.chat.completions.create({
    model: model.id,
    messages,
    temperature: 0,
    max_completion_tokens: 32,
  });
  assert.is(whole.choices[0]?.message.content, text, 'streamed and whole are the same answer');
  assert.equal(whole.usage?.completion_tokens, usage.completion_tokens);
});

test('stops at a stop string', async () => {
  const whole = await client.chat.completions.create({
    model: 'smollm2',
    messages,
    temperature: 0,
    max_completion_tokens: 32,
    stop: ['Paris'],
  });
  assert.is(whole.choices[0]?.finish_reason, 'stop');
  assert.not.match(whole.choices[0]?.message.content ?? '', 'Paris');
});

test('gets errors it can parse', async () => {
  const tooHot = await raised(client.chat.completions.create({ model: 'smollm2', messages, temperature: 9 }));
  assert.instance(tooHot, BadRequestError);
  assert.is((tooHot as BadRequestError).param, 'temperature');
  assert.match((tooHot as BadRequestError).message, 'temperature must be at most 2.0 (got 9.0)');
  const long = [{ role: 'user' as const, content: 'word '.repeat(10_000) }];
  const tooLong = await raised(client.chat.completions.create({ model: 'smollm2', messages: long }));
  assert.is((tooLong as BadRequestError).code, 'context_length_exceeded');
  assert.instance(await raised(client.chat.completions.create({ model: 'gpt-4', messages })), NotFoundError);
});

async function raised(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return assert.unreachable('it should have failed');
}

test.run();
