import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import { loopbackOnly } from '../../../../gateway/server/guard/guard.ts';
import { type TestApp, testApp } from '../../../fixtures/app.ts';
import { EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';
import { keysOf } from '../../../fixtures/keys.ts';
import { ScriptedModels, settled } from '../../../fixtures/scripted-service.ts';

const test = suite<TestApp & { ask: (body: object) => Promise<Response> }>('Anthropic’s messages');

const messages = [{ role: 'user', content: 'Hi' }];
const bytes = (text: string): number[] => [...Buffer.from(text)];

test.before.each((context) => {
  Object.assign(context, testApp());
  context.ask = async (body) =>
    context.post('/v1/messages', { model: 'bytes', max_tokens: 20, messages, ...body });
});

test('a whole message has its text, why it ended, and what was counted', async ({ runner, ask }) => {
  runner.script = [bytes('Hello'), [EOS_ID]];
  runner.cachedOf = () => 4;
  const response = await ask({ temperature: 0.5, top_k: 3, top_p: 0.25 });
  assert.is(response.status, 200);
  const { id, ...rest } = (await response.json()) as Record<string, unknown>;
  assert.match(String(id), /^msg_/);
  assert.equal(rest, {
    type: 'message',
    role: 'assistant',
    model: 'bytes',
    content: [{ type: 'text', text: 'Hello' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: {
      input_tokens: 5,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 4,
      output_tokens: 6,
    },
  });
  const [asked] = runner.requests;
  assert.ok(asked);
  const { promptIds, maxTokens, sampling, stopIds } = asked;
  assert.equal([promptIds, maxTokens, stopIds], [[TURN_ID, ...bytes('user: Hi')], 20, [EOS_ID]]);
  assert.equal([sampling.temperature, sampling.topK, sampling.topP], [0.5, 3, 0.25]);
});

test('a stream has its events in their order, byte by byte', async ({ runner, ask }) => {
  runner.script = [bytes('He'), bytes('y "you"'), [EOS_ID]];
  const response = await ask({ stream: true });
  assert.is(response.headers.get('content-type'), 'text/event-stream');
  const text = (await response.text()).replace(/msg_[0-9a-f-]{36}/, 'msg_ID');
  const usage = '"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens"';
  assert.is(
    text,
    [
      'event: message_start',
      `data: {"type":"message_start","message":{"id":"msg_ID","type":"message","role":"assistant","model":"bytes","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,${usage}:0}}}`,
      '',
      'event: content_block_start',
      'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
      '',
      'event: ping',
      'data: {"type":"ping"}',
      '',
      'event: content_block_delta',
      'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"He"}}',
      '',
      'event: content_block_delta',
      'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"y \\"you\\""}}',
      '',
      'event: content_block_stop',
      'data: {"type":"content_block_stop","index":0}',
      '',
      'event: message_delta',
      `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":9,${usage}:10}}`,
      '',
      'event: message_stop',
      'data: {"type":"message_stop"}',
      '',
      '',
    ].join('\n'),
  );
});

test('a stop sequence, the length limit and a full context have different stop reasons', async ({
  runner,
  ask,
}) => {
  const stopOf = async (body: object): Promise<unknown[]> => {
    const { stop_reason, stop_sequence } = (await (await ask(body)).json()) as Record<string, unknown>;
    return [stop_reason, stop_sequence];
  };
  runner.script = [bytes('so far EN'), bytes('D.'), 'wait'];
  assert.equal(await stopOf({ stop_sequences: ['x', 'END'] }), ['stop_sequence', 'END']);
  runner.script = [bytes('abc')];
  assert.equal(await stopOf({ max_tokens: 3 }), ['max_tokens', null]);
  runner.script = [bytes('a'.repeat(600))];
  assert.equal(await stopOf({ max_tokens: 2000 }), ['model_context_window_exceeded', null]);
  assert.is(runner.requests.at(-1)?.maxTokens, 512 - 9);
});

test('a failure in a stream is an event, and the last one', async ({ runner, ask }) => {
  runner.script = [bytes('a'), new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: true })];
  const response = await ask({ stream: true });
  const id = response.headers.get('request-id');
  const last = (await response.text()).split('\n\n').at(-2);
  const data = `{"type":"error","error":{"type":"api_error","message":"It broke."},"request_id":"${id}"}`;
  assert.is(last, `event: error\ndata: ${data}`);
});

test('system is a message in front, and blocks of text are one text', async ({ runner, ask }) => {
  runner.script = [[EOS_ID]];
  const block = (text: string) => ({ type: 'text', text, cache_control: { type: 'ephemeral' } });
  const response = await ask({
    system: [block('Be '), block('brief.')],
    messages: [
      { role: 'user', content: [block('H'), block('i')] },
      { role: 'assistant', content: 'Yes?' },
      { role: 'user', content: 'Go.' },
    ],
    metadata: { user_id: 'somebody' },
  });
  assert.is(response.status, 200);
  assert.is(
    response.headers.get('x-runnel-ignored'),
    'metadata, messages.content.cache_control, system.cache_control',
  );
  const turns = ['system: Be brief.', 'user: Hi', 'assistant: Yes?', 'user: Go.'];
  assert.equal(
    runner.requests[0]?.promptIds,
    turns.flatMap((turn) => [TURN_ID, ...bytes(turn)]),
  );
});

test('unsupported parameters are refused by name, in the shape of Anthropic’s errors', async ({
  runner,
  ask,
}) => {
  const refused: Record<string, unknown> = {
    max_tokens: 0,
    tools: [{ type: 'web_search_20250305', name: 'web_search' }],
    tool_choice: { type: 'any' },
    thinking: { type: 'enabled', budget_tokens: 2000 },
    temperature: 3,
    top_p: 2,
    top_k: -1,
    stop_sequences: Array(65).fill('a'),
    system: 7,
    messages: [],
    'messages.0.content.0.type': undefined,
    service_tier: 'priority',
    container: 'x',
    colour: 'red',
  };
  for (const [name, value] of Object.entries(refused)) {
    const image = [{ role: 'user', content: [{ type: 'image', source: {} }] }];
    const response = await ask(value === undefined ? { messages: image } : { [name]: value });
    assert.is(response.status, 400, name);
    const id = response.headers.get('request-id') ?? '';
    assert.match(id, /^[0-9a-f-]{36}$/);
    const { type, error, request_id } = (await response.json()) as Record<string, unknown>;
    const { message, ...rest } = error as { message: string };
    assert.equal([type, request_id, rest], ['error', id, { type: 'invalid_request_error' }], name);
    assert.match(message, name);
  }
  const open = await ask({ messages: [...messages, { role: 'assistant', content: 'The' }] });
  assert.is(open.status, 400);
  assert.match(await open.text(), 'the last message must not have the role \\"assistant\\"');
  assert.is(runner.requests.length, 0);
});

test('max_tokens is required', async ({ post }) => {
  const response = await post('/v1/messages', { model: 'bytes', messages });
  assert.is(response.status, 400);
  assert.match(await response.text(), 'max_tokens is required');
});

test('each kind of error has its type', async ({ runner, ask, app, post }) => {
  const typeOf = async (response: Response): Promise<[number, string]> => {
    const { error } = (await response.json()) as { error: { type: string } };
    return [response.status, error.type];
  };
  assert.equal(await typeOf(await ask({ model: 'other' })), [404, 'not_found_error']);
  assert.equal(await typeOf(await app.request('/v1/messages')), [405, 'invalid_request_error']);
  assert.equal(await typeOf(await app.request('/v1/messages/batches')), [404, 'not_found_error']);
  assert.equal(await typeOf(await post('/v1/messages', 'x'.repeat(2 ** 21))), [413, 'request_too_large']);
  for (const [code, expected] of [
    ['QUEUE_FULL', [429, 'rate_limit_error']],
    ['NOT_READY', [503, 'overloaded_error']],
    ['TIMEOUT', [504, 'timeout_error']],
    ['INFERENCE_FAILED', [500, 'api_error']],
  ] as const) {
    runner.refuse = new GenerationError(code, 'No.', { retriable: true, retryAfterSec: 2 });
    const response = await ask({});
    assert.is(response.headers.get('retry-after'), '2');
    assert.equal(await typeOf(response), expected);
  }
});

test('x-api-key authenticates, and an invalid key is an authentication_error', async () => {
  const guard = { ...loopbackOnly, apiKeys: keysOf(['a-long-enough-key']) };
  const { runner, post } = testApp({ guard });
  runner.script = [[EOS_ID]];
  const body = { model: 'bytes', max_tokens: 2, messages };
  const headers = { 'anthropic-version': '2023-06-01' };
  const right = await post('/v1/messages', body, { ...headers, 'x-api-key': 'a-long-enough-key' });
  assert.is(right.status, 200);
  const wrong = await post('/v1/messages', body, { ...headers, 'x-api-key': 'another-long-key' });
  assert.is(wrong.status, 401);
  assert.match(await wrong.text(), '"type":"authentication_error"');
});

test('count_tokens counts the prompt that the messages make, while the runner is away too', async ({
  runner,
  post,
}) => {
  runner.current = { ...runner.current, state: 'failed', info: undefined };
  const body = { model: 'bytes', system: 'Be.', messages, tools: [] };
  const response = await post('/v1/messages/count_tokens', body);
  assert.is(response.status, 200);
  assert.equal(await response.json(), { input_tokens: 1 + 'system: Be.'.length + 1 + 'user: Hi'.length });
  const refused = await post('/v1/messages/count_tokens', { ...body, max_tokens: 3 });
  assert.is(refused.status, 400);
  assert.match(await refused.text(), 'max_tokens is not a field of this request');
});

test('a stream that waits for its model sends comments, then any failure as an event', async () => {
  const models = new ScriptedModels({ a: 60, b: 60 });
  const { post } = testApp({ models: models.registry, clock: models.clock });
  const counted = await post('/v1/messages/count_tokens', { model: 'b', messages });
  assert.equal(await counted.json(), { input_tokens: 9 });
  assert.is(models.states, 'a unloaded, b unloaded');
  const asked = post('/v1/messages', { model: 'b', max_tokens: 2, messages, stream: true });
  await settled();
  await models.pass(1500);
  const response = await asked;
  assert.is(response.status, 200);
  const text = response.text();
  models.of('b').model.fail('It is broken.');
  const events = (await text).split('\n\n').slice(0, -1);
  assert.is(events[0], ': loading');
  const id = response.headers.get('request-id');
  const data = `{"type":"error","error":{"type":"overloaded_error","message":"It is broken."},"request_id":"${id}"}`;
  assert.is(events.at(-1), `event: error\ndata: ${data}`);
});

test.run();
