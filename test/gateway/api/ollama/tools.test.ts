import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type TestApp, testApp } from '../../../fixtures/app.ts';
import { byteModel, EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';

/** Tools of POST /api/chat: what the model is told, what its runner may draw, and what clients get. */

const test = suite('Ollama’s tools');

const bytes = (text: string): number[] => [...Buffer.from(text)];
const user = { role: 'user', content: 'Hi' };
const parameters = { type: 'object', properties: { city: { enum: ['Rome', null] } } };
const weather = { type: 'function', function: { name: 'weather', description: 'Of a city.', parameters } };
const clock = { type: 'function', function: { name: 'clock' } };
const tools = [weather, clock];

const hermes = (name: string, given: string): string =>
  `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`;

function ask({ post }: TestApp, more: object): Promise<Response> {
  return post('/api/chat', { model: 'bytes', messages: [user], ...more });
}

test('the template gets the tools, and calls are held to them', async () => {
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  const response = await ask(app, { tools });
  assert.is(response.status, 200, await response.text());
  const turns = [`tool: ${JSON.stringify(weather)}`, `tool: ${JSON.stringify(clock)}`, 'user: Hi'];
  const [request] = app.runner.requests;
  assert.equal(
    request?.promptIds,
    turns.flatMap((turn) => [TURN_ID, ...bytes(turn)]),
  );
  assert.match(request?.grammar?.source ?? '', '"type":"triggered_tags"');
  assert.match(request?.grammar?.source ?? '', '"enum":["Rome",null]');
});

interface Line {
  readonly message: {
    readonly content: string;
    readonly tool_calls?: readonly { readonly id: string; readonly function: object }[];
  };
  readonly done: boolean;
  readonly done_reason?: string;
}

test('a whole message has its text and its calls, arguments as an object', async () => {
  const app = testApp();
  const number = 12345678901234567890n;
  const given = `{"city": null, "n": ${number}}`;
  app.runner.script = [bytes(`Look.${hermes('weather', given)}\n${hermes('clock', '{}')}`), [EOS_ID]];
  const text = await (await ask(app, { tools, stream: false })).text();
  assert.match(text, `"arguments":${given}`);
  const { message, done_reason } = JSON.parse(text) as Line;
  assert.equal([message.content, done_reason], ['Look.', 'stop']);
  const calls = message.tool_calls ?? [];
  assert.match(calls[0]?.id ?? '', /^call_[0-9a-f]{24}_0$/);
  assert.equal(
    calls.map((call) => call.function),
    [
      { index: 0, name: 'weather', arguments: { city: null, n: Number(number) } },
      { index: 1, name: 'clock', arguments: {} },
    ],
  );
});

test('a stream has texts in pieces and each call in one line, however tokens cut them', async () => {
  const answer = `Ah.${hermes('weather', '{"city": "Rome"}')} So.${hermes('clock', '{}')}`;
  for (const size of [1, 7, 50, answer.length]) {
    const app = testApp();
    const cuts = Array.from({ length: Math.ceil(answer.length / size) }, (_, at) => at * size);
    app.runner.script = [...cuts.map((cut) => bytes(answer.slice(cut, cut + size))), [EOS_ID]];
    const lines = (await (await ask(app, { tools })).text()).trimEnd().split('\n');
    const told: (string | object)[] = [];
    for (const { message } of lines.map((line) => JSON.parse(line) as Line)) {
      const last = told.at(-1);
      if (message.tool_calls !== undefined) told.push(...message.tool_calls.map((call) => call.function));
      else if (message.content === '') continue;
      else if (typeof last === 'string') told[told.length - 1] = last + message.content;
      else told.push(message.content);
    }
    assert.equal(
      told,
      [
        'Ah.',
        { index: 0, name: 'weather', arguments: { city: 'Rome' } },
        'So.',
        { index: 1, name: 'clock', arguments: {} },
      ],
      `${size} at a time`,
    );
    const { done, done_reason } = JSON.parse(lines.at(-1) ?? '') as Line;
    assert.equal([done, done_reason], [true, 'stop']);
  }
});

test('with a format an answer is calls or a text that holds to it', async () => {
  for (const stream of [true, false]) {
    const app = testApp();
    const text = '{"a": "<tool_call>"}';
    app.runner.script = [bytes(text.slice(0, 4)), bytes(text.slice(4)), [EOS_ID]];
    const said = (await (await ask(app, { tools, format: 'json', stream })).text()).trimEnd().split('\n');
    const messages = said.map((line) => (JSON.parse(line) as Line).message);
    assert.is(messages.map(({ content }) => content).join(''), text);
    const { format } = JSON.parse(app.runner.requests[0]?.grammar?.source ?? '') as {
      format: { type: string; elements: { type: string }[] };
    };
    assert.equal(
      [format.type, ...format.elements.map(({ type }) => type)],
      ['or', 'tags_with_separator', 'json_schema'],
    );
    app.runner.script = [bytes(hermes('clock', '{}')), [EOS_ID]];
    const called = await (await ask(app, { tools, format: 'json', stream })).text();
    assert.match(called, '"name":"clock","arguments":{}');
  }
});

test('a truncated call is omitted, and the reason is the length', async () => {
  const answer = hermes('weather', '{"city": "Rome"}');
  const options = { num_predict: answer.indexOf('me"}') };
  for (const stream of [true, false]) {
    const app = testApp();
    app.runner.script = [bytes(answer)];
    const text = await (await ask(app, { tools, options, stream })).text();
    assert.match(text, '"done_reason":"length"');
    assert.not.match(text, 'tool_calls');
  }
});

test('a history of calls and results reaches the template, by ids, by names, or in their order', async () => {
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  const called = (name: string, more: object = {}) => ({
    function: { name, arguments: { city: null }, ...more },
  });
  const messages = [
    user,
    { role: 'assistant', tool_calls: [called('weather', { index: 0 }), called('clock')], thinking: '' },
    { role: 'tool', tool_name: 'clock', content: '12:30' },
    { role: 'tool', content: 'Sun' },
    { role: 'assistant', content: 'Ah.', tool_calls: [{ id: 'x', type: 'function', ...called('clock') }] },
    { role: 'tool', tool_call_id: 'x', content: '12:31' },
  ];
  const response = await ask(app, { messages });
  assert.is(response.status, 200, await response.text());
  assert.is(response.headers.get('x-runnel-ignored'), 'messages.tool_calls.function.index');
  const call = (id: string, name: string) => JSON.stringify({ id, name, arguments: { city: null } });
  const turns = [
    'user: Hi',
    `assistant: ${call('call_0', 'weather')}${call('call_1', 'clock')}`,
    'tool: 12:30{"id":"call_1","name":"clock"}',
    'tool: Sun{"id":"call_0","name":"weather"}',
    `assistant: Ah.${call('x', 'clock')}`,
    'tool: 12:31{"id":"x","name":"clock"}',
  ];
  assert.equal(
    app.runner.requests[0]?.promptIds,
    turns.flatMap((turn) => [TURN_ID, ...bytes(turn)]),
  );
});

test('invalid tools, calls and results are refused by their place', async () => {
  const call = { function: { name: 'f', arguments: {} } };
  const turn = { role: 'assistant', tool_calls: [call] };
  const cases: [object, string, string][] = [
    [{ tools: [weather, weather] }, 'tools.1.function.name', 'the name of another tool'],
    [{ tools: [{ type: 'web', function: {} }] }, 'tools.0.type', 'of the type "function"'],
    [{ tool_choice: 'required' }, 'tool_choice', 'is not a field'],
    [{ messages: [{ role: 'tool', content: '' }] }, 'messages.0.role', 'matches no earlier tool call'],
    [
      { messages: [turn, { role: 'tool', tool_name: 'g', content: '' }] },
      'messages.1.tool_name',
      'matches no',
    ],
    [
      { messages: [turn, { role: 'tool', tool_call_id: 'g', content: '' }] },
      'messages.1.tool_call_id',
      'matches no',
    ],
    [
      { messages: [turn, { role: 'tool', content: '' }, { role: 'tool', content: '' }] },
      'messages.2.role',
      'still lacks a result',
    ],
    [{ messages: [{ ...user, tool_name: 'f' }] }, 'messages.0.tool_name', 'the role "tool"'],
    [{ messages: [{ ...user, tool_calls: [call] }] }, 'messages.0.tool_calls', 'the role "assistant"'],
    [{ messages: [turn, { role: 'user' }] }, 'messages.1.content', 'is required'],
    [
      { messages: [{ ...turn, tool_calls: [{ function: { name: 'f', arguments: '{}' } }] }, user] },
      'messages.0.tool_calls.0.function.arguments',
      'must be an object',
    ],
  ];
  for (const [body, place, words] of cases) {
    const app = testApp();
    const response = await ask(app, body);
    const text = await response.text();
    assert.is(response.status, 400, text);
    assert.match(text, place);
    assert.match((JSON.parse(text) as { error: string }).error, words);
    assert.is(app.runner.requests.length, 0);
  }
});

test('a template that knows no tools is refused', async () => {
  const { chatTemplate } = byteModel;
  assert.ok(chatTemplate);
  const app = testApp({
    model: () => ({ ...byteModel, chatTemplate: { ...chatTemplate, toolUse: 'none' } }),
  });
  const response = await ask(app, { tools });
  assert.is(response.status, 400);
  assert.match(await response.text(), 'does not support tools');
  const { capabilities } = (await (await app.post('/api/show', { model: 'bytes' })).json()) as {
    capabilities: string[];
  };
  assert.equal(capabilities, ['completion']);
});

test.run();
