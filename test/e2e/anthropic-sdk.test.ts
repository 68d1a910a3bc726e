import Anthropic, { AnthropicError, type APIError, BadRequestError, NotFoundError } from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as z from 'zod';
import { GenerationError } from '../../gateway/runner/runner.ts';
import { testApp } from '../fixtures/app.ts';
import { EOS_ID } from '../fixtures/byte-model.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { errorOf } from '../fixtures/errors.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { ScriptedRunner } from '../fixtures/scripted-runner.ts';

const test = suite('the official Anthropic client');

const gateway = await Gateway.during(test, DEFAULT_MODEL, ['--served-model-name', 'smollm2']);
const client = new Anthropic({ baseURL: gateway.url, apiKey: 'none', maxRetries: 0 });

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

test('continues a conversation, and stops at a stop sequence', async () => {
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

test('parses a message of a form, whole and streamed', async () => {
  const format = zodOutputFormat(z.object({ city: z.enum(['Paris', 'Rome']), isCapital: z.boolean() }));
  const asked = { ...request, max_tokens: 60, output_config: { format } };
  const { parsed_output: whole } = await client.messages.parse(asked);
  assert.ok(whole && ['Paris', 'Rome'].includes(whole.city));
  assert.type(whole.isCapital, 'boolean');
  assert.equal((await client.messages.stream(asked).finalMessage()).parsed_output, whole);
});

test('runs tools without a thread', async () => {
  const runner = new ScriptedRunner();
  const call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>';
  const { app } = testApp({ runner });
  const threads: unknown[] = [];
  const { patient } = patientClient('http://localhost', async (url, init) => {
    const { thread, messages } = JSON.parse(String(init?.body)) as { thread?: unknown; messages: unknown[] };
    threads.push(thread);
    runner.script = [[...Buffer.from(messages.length === 1 ? call : 'Sunny.')], [EOS_ID]];
    return app.request(url, init);
  });
  const weather = betaZodTool({
    name: 'weather',
    description: 'Of a city.',
    inputSchema: z.object({ city: z.string() }),
    run: ({ city }) => `It is sunny in ${city}.`,
  });
  const { content } = await patient.beta.messages.toolRunner({
    ...request,
    model: 'bytes',
    max_tokens: 200,
    tools: [weather],
  });
  assert.equal(content, [{ type: 'text', text: 'Sunny.' }]);
  assert.equal(threads, [{ type: 'create' }, undefined, undefined]);
});

test('raises errors it can parse', async () => {
  const tooHot = { ...request, temperature: 9 };
  const hot = await errorOf(() => client.messages.create(tooHot));
  assert.instance(hot, BadRequestError);
  assert.is((hot as APIError).type, 'invalid_request_error');
  assert.match((hot as APIError).message, 'temperature must be at most 2.0 (got 9.0)');
  assert.match((hot as APIError).requestID ?? '', /^[0-9a-f-]{36}$/);
  const unknown = await errorOf(() => client.messages.create({ ...request, model: 'claude' }));
  assert.instance(unknown, NotFoundError);
});

test('calls a tool with the default model, whose template knows none, and goes on with its result', async () => {
  const input_schema = {
    type: 'object' as const,
    properties: { unit: { enum: ['celsius', 'fahrenheit'] } },
    required: ['unit'],
  };
  const asked = {
    ...request,
    max_tokens: 100,
    tools: [{ name: 'weather', input_schema }],
    tool_choice: { type: 'any' as const, disable_parallel_tool_use: true },
  };
  const { data, response } = await client.messages.create(asked).withResponse();
  assert.is(response.headers.get('x-runnel-tools'), 'generic');
  assert.is(data.stop_reason, 'tool_use');
  const [call, ...others] = data.content;
  assert.ok(call?.type === 'tool_use' && others.length === 0);
  assert.match(JSON.stringify(call.input), /^\{"unit":"(celsius|fahrenheit)"\}$/);
  const { content } = await client.messages.create({
    ...asked,
    tool_choice: { type: 'none' },
    messages: [
      ...request.messages,
      { role: 'assistant', content: data.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: '12 degrees' }] },
    ],
  });
  assert.equal(
    content.map(({ type }) => type),
    ['text'],
  );
});

/** A client with its default number of retries. numAsked counts the requests that it sends. */
function patientClient(
  baseURL: string,
  send: (url: string | URL | Request, init?: RequestInit) => Response | Promise<Response>,
): { patient: Anthropic; numAsked: () => number } {
  let numAsked = 0;
  const patient = new Anthropic({
    baseURL,
    apiKey: 'none',
    fetch: async (url, init) => {
      numAsked += 1;
      return send(url, init);
    },
  });
  return { patient, numAsked: () => numAsked };
}

test('asks once for an answer in which the runner is killed, whole and streamed, and for one that waits for the next runner', async () => {
  const long = {
    ...request,
    max_tokens: 60,
    messages: [{ role: 'user' as const, content: 'Count to fifty.' }],
  };
  const undisturbed = await client.messages.create(long);
  const { patient, numAsked } = patientClient(gateway.url, fetch);
  const { pid, restarts } = (await gateway.health()).runner;
  assert.ok(pid !== null);
  const stream = patient.messages.stream(long);
  const whole = patient.messages.create(long);
  stream.once('text', () => process.kill(pid, 'SIGKILL'));
  await gateway.healthWhere(({ runner }) => runner.pid !== pid, 'The notice of the death');
  const waiting = patient.messages.create(long);
  for (const { content } of [await stream.finalMessage(), await whole, await waiting])
    assert.equal(content, undisturbed.content);
  assert.is(numAsked(), 3);
  assert.is((await gateway.health()).runner.restarts, restarts + 1);
});

test('retries without a runner or capacity, after the advertised wait', async () => {
  for (const code of ['NOT_READY', 'QUEUE_FULL'] as const) {
    const runner = new ScriptedRunner();
    runner.script = [[97], [EOS_ID]];
    runner.refuse = new GenerationError(code, 'Not now.', { retriable: true, retryAfterSec: 0.8 });
    const { app } = testApp({ runner });
    const { patient, numAsked } = patientClient('http://localhost', async (url, init) => {
      const response = await app.request(url, init);
      // The fault is over when the client asks again.
      runner.refuse = undefined;
      return response;
    });
    const startedMs = performance.now();
    const { content } = await patient.messages.create({ ...request, model: 'bytes' });
    assert.equal(content, [{ type: 'text', text: 'a' }]);
    assert.is(numAsked(), 2);
    // Without a Retry-After its first wait is at most 500 ms.
    assert.ok(performance.now() - startedMs > 750, `${code}: it did not wait as long as it was told`);
  }
});

test('ends the work of a stream that it aborts', async () => {
  const stream = client.messages.stream({ ...request, max_tokens: 1500, temperature: 1 });
  stream.once('text', () => stream.abort());
  assert.instance(await errorOf(() => stream.done()), AnthropicError);
  await gateway.idle();
});

test.run();
