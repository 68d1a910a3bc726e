import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { createApp } from '../../../gateway/app.ts';
import { createLog } from '../../../gateway/ops/log.ts';
import { GenerationError } from '../../../gateway/runner/runner.ts';
import { byteModel, EOS_ID, TURN_ID } from '../../fixtures/byte-model.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { readEvents } from '../../fixtures/sse.ts';

const test = suite<{ runner: ScriptedRunner; chat: (body: object) => Promise<Response> }>('chat completions');

test.before.each((context) => {
  context.runner = new ScriptedRunner();
  const app = createApp({
    model: () => byteModel,
    runner: context.runner,
    log: createLog('silent'),
    now: () => 1_800_000_000_000,
    maxBodyBytes: 2 ** 20,
  });
  context.chat = async (body) =>
    app.request('/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'bytes', messages: [{ role: 'user', content: 'Hi' }], ...body }),
    });
});

const bytes = (text: string): number[] => [...Buffer.from(text)];

test('a whole completion has content, finish_reason and usage', async ({ runner, chat }) => {
  runner.script = [bytes('Hello'), [EOS_ID]];
  const response = await chat({ seed: 7, max_completion_tokens: 20 });
  assert.is(response.status, 200);
  const { id, ...rest } = (await response.json()) as Record<string, unknown>;
  assert.match(String(id), /^chatcmpl-/);
  assert.equal(rest, {
    object: 'chat.completion',
    created: 1_800_000_000,
    model: 'bytes',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'Hello', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: { prompt_tokens: 9, completion_tokens: 6, total_tokens: 15 },
  });
  assert.equal(runner.requests[0]?.promptIds, [TURN_ID, ...bytes('user: Hi')]);
  assert.is(runner.requests[0]?.maxTokens, 20);
  assert.is(runner.requests[0]?.sampling.seed, 7n);
});

test('a stream is role, content, finish_reason, usage when asked for, [DONE]', async ({ runner, chat }) => {
  runner.script = [bytes('He'), bytes('y')];
  const chunks = [];
  const response = await chat({ stream: true, stream_options: { include_usage: true }, max_tokens: 3 });
  for await (const { event, data } of readEvents(response)) {
    assert.is(event, undefined, 'chat events have no name');
    chunks.push(data === '[DONE]' ? data : JSON.parse(data));
  }
  assert.is(chunks.pop(), '[DONE]');
  assert.equal(
    chunks.map(({ choices, usage }) => ({ choices, usage })),
    [
      { choices: [delta({ role: 'assistant', content: '' })], usage: null },
      { choices: [delta({ content: 'He' })], usage: null },
      { choices: [delta({ content: 'y' })], usage: null },
      { choices: [delta({}, 'length')], usage: null },
      { choices: [], usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 } },
    ],
  );
  assert.is(new Set(chunks.map(({ id, created }) => `${id} ${created}`)).size, 1);
});

function delta(content: object, finishReason: string | null = null): object {
  return { index: 0, delta: content, logprobs: null, finish_reason: finishReason };
}

test('usage is absent from a stream unless asked for', async ({ runner, chat }) => {
  runner.script = [[EOS_ID]];
  for await (const { data } of readEvents(await chat({ stream: true }))) assert.not.match(data, 'usage');
});

test('a stop string may be one string or a list', async ({ runner, chat }) => {
  for (const stop of ['END', ['x', 'END']]) {
    runner.script = [bytes('so far EN'), bytes('D.'), 'wait'];
    const body = (await (await chat({ stop })).json()) as {
      choices: { message: object; finish_reason: string }[];
    };
    assert.is(body.choices[0]?.finish_reason, 'stop');
    assert.equal(body.choices[0]?.message, { role: 'assistant', content: 'so far ', refusal: null });
  }
});

test('a failure in a stream is an error object, then [DONE]', async ({ runner, chat }) => {
  runner.script = [bytes('a'), new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: true })];
  const datas = [];
  for await (const { data } of readEvents(await chat({ stream: true }))) datas.push(data);
  assert.is(datas.pop(), '[DONE]');
  assert.equal(JSON.parse(datas.pop() ?? ''), {
    error: { message: 'It broke.', type: 'server_error', param: null, code: 'inference_failed' },
  });
});

test('a parameter that cannot be obeyed is refused by name', async ({ runner, chat }) => {
  const refused: Record<string, unknown> = {
    n: 2,
    logprobs: true,
    top_logprobs: 3,
    presence_penalty: 0.5,
    frequency_penalty: 0.5,
    logit_bias: { 50: 1 },
    response_format: { type: 'json_object' },
    tools: [{ type: 'function' }],
    tool_choice: 'required',
    temperature: 2.5,
    top_p: 1.5,
    max_tokens: 0,
    stop: ['a', 'b', 'c', 'd', 'e'],
    stream: 'yes',
    colour: 'red',
    messages: [],
    model: '',
  };
  for (const [name, value] of Object.entries(refused)) {
    const response = await chat({ [name]: value });
    assert.is(response.status, 400, name);
    const { error } = (await response.json()) as { error: { param: string; message: string; type: string } };
    assert.is(error.param, name);
    assert.match(error.message, name);
    assert.is(error.type, 'invalid_request_error');
  }
  assert.is(runner.requests.length, 0);
});

test('what SDKs send without meaning anything by it is accepted, and null is absent', async ({
  runner,
  chat,
}) => {
  runner.script = [[EOS_ID]];
  const response = await chat({
    n: 1,
    logprobs: false,
    presence_penalty: 0,
    frequency_penalty: 0,
    logit_bias: {},
    response_format: { type: 'text' },
    tools: [],
    user: 'someone',
    metadata: { a: 'b' },
    store: false,
    service_tier: 'auto',
    safety_identifier: 'x',
    prompt_cache_key: 'y',
    temperature: null,
    stop: null,
    max_tokens: null,
    stream_options: null,
  });
  assert.is(response.status, 200);
});

test('contents may be lists of text parts; other parts, roles and models are refused', async ({
  runner,
  chat,
}) => {
  runner.script = [[EOS_ID]];
  const parts = [
    { type: 'text', text: 'H' },
    { type: 'text', text: 'i' },
  ];
  assert.is((await chat({ messages: [{ role: 'developer', content: parts }] })).status, 200);
  assert.equal(runner.requests[0]?.promptIds, [TURN_ID, ...bytes('system: Hi')]);
  const image = [{ type: 'image_url', image_url: { url: 'data:' } }];
  assert.is((await chat({ messages: [{ role: 'user', content: image }] })).status, 400);
  assert.is((await chat({ messages: [{ role: 'root', content: 'x' }] })).status, 400);

  const response = await chat({ model: 'other' });
  assert.is(response.status, 404);
  const { error } = (await response.json()) as { error: { code: string } };
  assert.is(error.code, 'model_not_found');
});

test('too many tokens, and messages that the template refuses, are the client’s to mend', async ({
  chat,
}) => {
  for (const [messages, code] of [
    [[{ role: 'user', content: 'x'.repeat(600) }], 'context_length_exceeded'],
    [[{ role: 'user', content: 'x'.repeat(60_000) }], 'context_length_exceeded'],
    [[{ role: 'assistant', content: 'x' }], 'chat_template_error'],
  ] as const) {
    const response = await chat({ messages });
    assert.is(response.status, 400);
    const { error } = (await response.json()) as { error: { code: string; param: string } };
    assert.is(error.code, code);
    assert.is(error.param, 'messages');
  }
});

test.run();
