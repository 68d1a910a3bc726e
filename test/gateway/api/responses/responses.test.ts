import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import { type TestApp, testApp } from '../../../fixtures/app.ts';
import { EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';
import { ScriptedModels, settled } from '../../../fixtures/scripted-service.ts';
import { readEvents } from '../../../fixtures/sse.ts';

const test = suite<TestApp & { ask: (body: object) => Promise<Response> }>('OpenAI’s responses');

const bytes = (text: string): number[] => [...Buffer.from(text)];

test.before.each((context) => {
  const now = () => 1_700_000_000_000;
  Object.assign(context, testApp({ now }));
  context.ask = async (body) => context.post('/v1/responses', { model: 'bytes', input: 'Hi', ...body });
});

async function jsonOf(response: Response): Promise<Record<string, unknown>> {
  assert.is(response.status, 200);
  assert.is(response.headers.get('content-type'), 'application/json');
  return (await response.json()) as Record<string, unknown>;
}

test('a whole response has its message, what was asked, why it ended, and what was counted', async ({
  runner,
  ask,
}) => {
  runner.script = [bytes('Hello'), [EOS_ID]];
  runner.cachedOf = () => 4;
  const body = { temperature: 0.5, top_p: 0.25, max_output_tokens: 20, metadata: { of: 'a test' }, seed: 7 };
  const { id, output, ...rest } = await jsonOf(await ask(body));
  assert.match(String(id), /^resp_[0-9a-f-]{36}$/);
  const [{ id: itemId, ...item }] = output as [Record<string, unknown>];
  assert.match(String(itemId), /^msg_[0-9a-f-]{36}$/);
  assert.equal(item, {
    type: 'message',
    status: 'completed',
    role: 'assistant',
    content: [{ type: 'output_text', text: 'Hello', annotations: [], logprobs: [] }],
  });
  assert.equal(rest, {
    object: 'response',
    created_at: 1_700_000_000,
    status: 'completed',
    background: false,
    completed_at: 1_700_000_000,
    error: null,
    incomplete_details: null,
    instructions: null,
    max_output_tokens: 20,
    metadata: { of: 'a test' },
    model: 'bytes',
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    service_tier: 'default',
    store: false,
    temperature: 0.5,
    text: { format: { type: 'text' }, verbosity: 'medium' },
    tool_choice: 'auto',
    tools: [],
    top_logprobs: 0,
    top_p: 0.25,
    truncation: 'disabled',
    usage: {
      input_tokens: 9,
      input_tokens_details: { cached_tokens: 4 },
      output_tokens: 6,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 15,
    },
  });
  const [asked] = runner.requests;
  assert.ok(asked);
  const { promptIds, maxTokens, sampling, stopIds } = asked;
  assert.equal([promptIds, maxTokens, stopIds], [[TURN_ID, ...bytes('user: Hi')], 20, [EOS_ID]]);
  assert.equal([sampling.temperature, sampling.topP, sampling.seed], [0.5, 0.25, 7n]);
});

test('a stream has its events in their order, numbered', async ({ runner, ask }) => {
  runner.script = [bytes('He'), bytes('y "you"'), [EOS_ID]];
  const streamed = await ask({ stream: true });
  assert.is(streamed.headers.get('content-type'), 'text/event-stream');
  const text = await streamed.text();
  const datas = text.split('\n\n').filter((each) => each !== '');
  const events = datas.map(
    (each) => JSON.parse(each.slice(each.indexOf('data: ') + 6)) as Record<string, unknown>,
  );
  const place = { item_id: 'MSG', output_index: 0, content_index: 0 };
  const part = (said: string) => ({ type: 'output_text', text: said, annotations: [], logprobs: [] });
  const item = (status: string, content: object[]) => {
    return { id: 'MSG', type: 'message', status, role: 'assistant', content };
  };
  const whole = 'Hey "you"';
  const between = JSON.parse(
    JSON.stringify(events.slice(2, -1)).replaceAll(/msg_[0-9a-f-]{36}/g, 'MSG'),
  ) as object[];
  assert.equal(between, [
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: item('in_progress', []),
      sequence_number: 2,
    },
    { type: 'response.content_part.added', ...place, part: part(''), sequence_number: 3 },
    { type: 'response.output_text.delta', ...place, delta: 'He', logprobs: [], sequence_number: 4 },
    { type: 'response.output_text.delta', ...place, delta: 'y "you"', logprobs: [], sequence_number: 5 },
    { type: 'response.output_text.done', ...place, text: whole, logprobs: [], sequence_number: 6 },
    { type: 'response.content_part.done', ...place, part: part(whole), sequence_number: 7 },
    {
      type: 'response.output_item.done',
      output_index: 0,
      item: item('completed', [part(whole)]),
      sequence_number: 8,
    },
  ]);
  assert.equal(
    [events[0], events[1], events.at(-1)].map((event) => [event?.type, event?.sequence_number]),
    [
      ['response.created', 0],
      ['response.in_progress', 1],
      ['response.completed', 9],
    ],
  );
  const last = events.at(-1)?.response as Record<string, unknown>;
  const begun = events[0]?.response as Record<string, unknown>;
  assert.equal([begun.status, begun.output, begun.usage], ['in_progress', [], null]);
  assert.match(text, /^event: response\.created\ndata: /);
  runner.script = [bytes('He'), bytes('y "you"'), [EOS_ID]];
  const nameless = (response: object) => JSON.stringify(response).replaceAll(/(resp|msg)_[0-9a-f-]{36}/g, '');
  assert.is(nameless(last), nameless(await jsonOf(await ask({}))), 'the last event has the whole response');
});

test('an answer that reaches its length or the context is incomplete', async ({ runner, ask }) => {
  runner.script = [bytes('abc')];
  const { status, incomplete_details, output } = await jsonOf(await ask({ max_output_tokens: 3 }));
  assert.equal([status, incomplete_details], ['incomplete', { reason: 'max_output_tokens' }]);
  assert.is((output as { status: string }[])[0]?.status, 'incomplete');
  runner.script = [bytes('a'.repeat(600))];
  assert.is((await jsonOf(await ask({ max_output_tokens: 2000 }))).status, 'incomplete');
  assert.is(runner.requests.at(-1)?.maxTokens, 512 - 9);
  runner.script = [bytes('abc')];
  const stream = await ask({ max_output_tokens: 3, stream: true });
  assert.match(await stream.text(), 'event: response.incomplete\n');
});

test('a failure in a stream is response.failed with the text so far, and the last event', async ({
  runner,
  ask,
}) => {
  runner.script = [bytes('ab'), new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: true })];
  const events = [];
  for await (const event of readEvents(await ask({ stream: true }))) events.push(event);
  const last = events.at(-1);
  assert.is(last?.event, 'response.failed');
  const { response } = JSON.parse(last?.data ?? '') as { response: Record<string, unknown> };
  assert.equal(
    [response.status, response.error],
    ['failed', { code: 'inference_failed', message: 'It broke.' }],
  );
  const [item] = response.output as [{ status: string; content: { text: string }[] }];
  assert.equal([item.status, item.content[0]?.text], ['incomplete', 'ab']);
});

test('instructions are a message in front, and items of text are one text each', async ({ runner, ask }) => {
  runner.script = [[EOS_ID]];
  const response = await ask({
    instructions: 'Be brief.',
    input: [
      { type: 'message', role: 'developer', content: 'So.' },
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'H' },
          { type: 'input_text', text: 'i' },
        ],
      },
      {
        id: 'msg_1',
        type: 'message',
        status: 'completed',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'Yes?', annotations: [], logprobs: [] }],
      },
      { role: 'user', content: 'Go.' },
    ],
    user: 'somebody',
  });
  assert.is(response.status, 200);
  assert.is((await jsonOf(response.clone())).instructions, 'Be brief.');
  assert.is(
    response.headers.get('x-runnel-ignored'),
    'user, input.id, input.status, input.content.annotations, input.content.logprobs',
  );
  const turns = ['system: Be brief.', 'system: So.', 'user: Hi', 'assistant: Yes?', 'user: Go.'];
  assert.equal(
    runner.requests[0]?.promptIds,
    turns.flatMap((turn) => [TURN_ID, ...bytes(turn)]),
  );
});

test('the output of a response goes back as it came', async ({ runner, ask }) => {
  runner.script = [bytes('Hello'), [EOS_ID]];
  const { output } = await jsonOf(await ask({}));
  const next = await ask({
    input: [{ role: 'user', content: 'Hi' }, ...(output as object[]), { role: 'user', content: 'Go.' }],
  });
  assert.is(next.status, 200);
  await next.text();
  const turns = ['user: Hi', 'assistant: Hello', 'user: Go.'];
  assert.equal(
    runner.requests[1]?.promptIds,
    turns.flatMap((turn) => [TURN_ID, ...bytes(turn)]),
  );
});

test('a format is the grammar that the runner follows, and comes back as it was written', async ({
  runner,
  ask,
}) => {
  const schema = { type: 'object', properties: { a: { const: null, maximum: 12345678901234567890n } } };
  const format = { type: 'json_schema', name: 'thing', schema, strict: true };
  const raw = JSON.stringify({ model: 'bytes', input: 'Hi', text: { format } }, (_, value: unknown) =>
    typeof value === 'bigint' ? 'DIGITS' : value,
  ).replace('"DIGITS"', '12345678901234567890');
  runner.script = [bytes('{}'), [EOS_ID]];
  const response = await testAppPost(runner, raw);
  const text = await response.text();
  assert.is(response.status, 200, text);
  assert.match(text, '"maximum":12345678901234567890');
  assert.match(text, '"format":{"type":"json_schema","name":"thing","description":null,"schema":{');
  const grammar = runner.requests[0]?.grammar;
  assert.equal([grammar?.kind, grammar?.strict], ['json_schema', true]);
  assert.match(grammar?.source ?? '', '"const":null');
  runner.script = [bytes('{}'), [EOS_ID]];
  await (await ask({ text: { format: { type: 'json_object' } } })).text();
  assert.is(runner.requests[1]?.grammar?.kind, 'json_object');
});

async function testAppPost(runner: TestApp['runner'], body: string): Promise<Response> {
  return testApp({ runner }).post('/v1/responses', body);
}

test('log-probabilities come with the text, whole and streamed alike', async ({ runner, ask }) => {
  const body = { include: ['message.output_text.logprobs'], top_logprobs: 2 };
  runner.script = [bytes('ab'), [EOS_ID]];
  const { output } = await jsonOf(await ask(body));
  const [{ content }] = output as [{ content: { logprobs: { token: string }[] }[] }];
  assert.equal(
    content[0]?.logprobs.map(({ token }) => token),
    ['a', 'b'],
  );
  assert.is(runner.requests[0]?.topLogprobs, 2);
  runner.script = [bytes('ab'), [EOS_ID]];
  const streamed: object[] = [];
  for await (const { event, data } of readEvents(await ask({ ...body, stream: true }))) {
    if (event === 'response.output_text.delta')
      streamed.push(...(JSON.parse(data) as { logprobs: object[] }).logprobs);
  }
  assert.equal(streamed, content[0]?.logprobs);
});

test('unsupported parameters are refused by name, in the shape of OpenAI’s errors', async ({
  runner,
  ask,
}) => {
  const refused: [object, string, string][] = [
    [{ tools: [{ type: 'web_search' }] }, 'tools.0.type', 'unsupported_parameter'],
    [{ tool_choice: 'required' }, 'tool_choice', 'invalid_request'],
    [{ previous_response_id: 'resp_1' }, 'previous_response_id', 'unsupported_parameter'],
    [{ conversation: 'conv_1' }, 'conversation', 'unsupported_parameter'],
    [{ background: true }, 'background', 'no_journal'],
    [{ background: true, store: false }, 'store', 'unsupported_parameter'],
    [{ store: true }, 'store', 'unsupported_parameter'],
    [{ truncation: 'auto' }, 'truncation', 'unsupported_parameter'],
    [{ reasoning: { effort: 'much' } }, 'reasoning.effort', 'invalid_request'],
    [{ reasoning: { summary: 'detailed' } }, 'reasoning.summary', 'invalid_request'],
    [{ prompt: { id: 'p' } }, 'prompt', 'unsupported_parameter'],
    [{ text: { verbosity: 'low' } }, 'text.verbosity', 'unsupported_parameter'],
    [{ input: [{ type: 'item_reference', id: 'msg_1' }] }, 'input.0.type', 'unsupported_parameter'],
    [{ input: [{ type: 'web_search_call', id: 'r' }] }, 'input.0.type', 'unsupported_parameter'],
    [
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:' }] }] },
      'input.0.content.0.type',
      'unsupported_parameter',
    ],
    [{ input: [{ role: 'tool', content: 'x' }] }, 'input.0.role', 'invalid_request'],
    [{ input: [] }, 'input', 'invalid_request'],
    [{ input: undefined }, 'input', 'invalid_request'],
    [{ include: ['other'] }, 'include.0', 'invalid_request'],
    [{ top_logprobs: 2 }, 'top_logprobs', 'unsupported_parameter'],
    [{ max_output_tokens: 0 }, 'max_output_tokens', 'invalid_request'],
    [{ metadata: { a: 1 } }, 'metadata.a', 'invalid_request'],
    [{ metadata: { a: 'x'.repeat(513) } }, 'metadata', 'invalid_request'],
    [
      { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, ''])) },
      'metadata',
      'invalid_request',
    ],
    [{ text: { format: { type: 'json_object', schema: {} } } }, 'text.format.schema', 'invalid_request'],
    [{ text: { format: { type: 'json_schema', name: 'a' } } }, 'text.format', 'invalid_request'],
    [{ stop: 'x' }, 'stop', 'invalid_request'],
    [{ input: 'x'.repeat(5000) }, 'input', 'context_length_exceeded'],
  ];
  for (const [body, param, code] of refused) {
    const response = await ask(body);
    assert.is(response.status, 400, param);
    assert.is(response.headers.get('x-should-retry'), 'false');
    const { error } = (await response.json()) as { error: Record<string, string> };
    assert.equal(
      [error.param, error.code, error.type],
      [param, code, 'invalid_request_error'],
      error.message,
    );
    assert.match(error.message ?? '', param);
  }
  assert.is(runner.requests.length, 0);
});

test('a refusal by the chat template names input', async ({ ask }) => {
  const response = await ask({ input: [{ role: 'assistant', content: 'Hi' }] });
  const { error } = (await response.json()) as { error: Record<string, string> };
  assert.equal([response.status, error.param, error.code], [400, 'input', 'chat_template_error']);
});

test('routes of stored responses are refused with a sentence that says why', async ({ app }) => {
  for (const [method, path, words] of [
    ['GET', '/v1/responses/resp_1', 'not stored'],
    ['DELETE', '/v1/responses/resp_1', 'not stored'],
    ['GET', '/v1/responses/resp_1/input_items', 'not stored'],
    ['POST', '/v1/responses/resp_1/cancel', 'not stored'],
    ['POST', '/v1/responses/compact', 'not compacted'],
    ['POST', '/v1/responses/input_tokens', 'count_tokens'],
  ] as const) {
    const response = await app.request(path, { method });
    assert.is(response.status, 501, path);
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    assert.is(error.code, 'not_supported');
    assert.match(error.message, words);
  }
});

test('a stream that waits for its model sends comments, then any failure as an event', async () => {
  const models = new ScriptedModels({ a: 60, b: 60 });
  const { post } = testApp({ models: models.registry, clock: models.clock });
  const asked = post('/v1/responses', { model: 'b', input: 'Hi', stream: true });
  await settled();
  await models.pass(1500);
  const response = await asked;
  assert.is(response.status, 200);
  const text = response.text();
  models.of('b').model.fail('It is broken.');
  const events = (await text).split('\n\n').slice(0, -1);
  assert.is(events[0], ': loading');
  const fault = '"message":"It is broken."';
  const error = `{${fault},"type":"server_error","param":null,"code":"worker_unhealthy"}`;
  const data = `{"type":"error","code":"worker_unhealthy",${fault},"param":null,"error":${error},"sequence_number":0}`;
  assert.is(events.at(-1), `event: error\ndata: ${data}`);
});

test.run();
