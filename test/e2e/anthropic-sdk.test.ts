import Anthropic, { AnthropicError, type APIError, BadRequestError, NotFoundError } from '@anthropic-ai/sdk';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';

const test = suite('the official Anthropic client');

let gateway: Gateway;
let client: Anthropic;

test.before(async () => {
  gateway = await (await Gateway.start(DEFAULT_MODEL, ['--served-model-name', 'smollm2'])).ready();
  client = new Anthropic({ baseURL: gateway.url, apiKey: 'none', maxRetries: 0 });
});
test.after(async () => {
  await gateway.stop();
});

const request = {
  model: 'smollm2',
  max_tokens: 24,
  temperature: 0,
  messages: [{ role: 'user' as const, content: 'What is the capital of France?' }],
};

test('gets a message, whole and streamed alike', async () => {
  const whole = await client.messages.create(request);
  const [block] = whole.content;
  assert.is(block?.type, 'text');
  const text = block?.type === 'text' ? block.text : '';
  assert.match(text, 'Paris');
  const stream = client.messages.stream(request);
  let heard = '';
  stream.on('text', (delta) => {
    heard += delta;
  });
  const final = await stream.finalMessage();
  assert.is(heard, text);
  assert.equal(final.content, whole.content);
  assert.is(final.stop_reason, whole.stop_reason);
  assert.is(final.usage.output_tokens, whole.usage.output_tokens);
  const promptTokens = ({ usage }: Anthropic.Message): number =>
    usage.input_tokens + (usage.cache_read_input_tokens ?? 0);
  assert.is(promptTokens(final), promptTokens(whole));
  const counted = await client.messages.countTokens({ model: 'smollm2', messages: request.messages });
  assert.is(counted.input_tokens, promptTokens(whole));
});

test('goes on with a conversation, and stops at a stop sequence', async () => {
  const first = await client.messages.create(request);
  const { content, stop_reason, stop_sequence } = await client.messages.create({
    ...request,
    system: [{ type: 'text', text: 'Answer briefly.' }],
    messages: [
      ...request.messages,
      { role: 'assistant', content: first.content },
      { role: 'user', content: 'Say it again: what is the capital of France?' },
    ],
    stop_sequences: ['Paris'],
    metadata: { user_id: 'somebody' },
  });
  assert.equal([stop_reason, stop_sequence], ['stop_sequence', 'Paris']);
  assert.not.match(content[0]?.type === 'text' ? content[0].text : '', 'Paris');
});

test('raises errors it can parse', async () => {
  const tooHot = { ...request, temperature: 9 };
  const hot = await raised(client.messages.create(tooHot));
  assert.instance(hot, BadRequestError);
  assert.is((hot as APIError).type, 'invalid_request_error');
  assert.match((hot as APIError).message, 'temperature must be at most 2.0 (got 9.0)');
  assert.match((hot as APIError).requestID ?? '', /^[0-9a-f-]{36}$/);
  const unknown = await raised(client.messages.create({ ...request, model: 'claude' }));
  assert.instance(unknown, NotFoundError);
  const tools = [{ name: 'f', input_schema: { type: 'object' as const } }];
  assert.match(String(await raised(client.messages.create({ ...request, tools }))), 'knows no tools');
});

test('ends the work of a stream that it aborts', async () => {
  const stream = client.messages.stream({ ...request, max_tokens: 1500, temperature: 1 });
  stream.once('text', () => stream.abort());
  assert.instance(await raised(stream.done()), AnthropicError);
  await gateway.healthWhere(({ runner }) => runner.open_requests === 0, 'the aborted request to end');
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
