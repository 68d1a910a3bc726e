import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type TestApp, testApp } from '../../../fixtures/app.ts';
import { byteModel, EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';
import { readEvents } from '../../../fixtures/sse.ts';

/** Tools of POST /v1/messages: what the model is told, what its runner may draw, and what clients get. */

const test = suite('Anthropic’s tools');

const bytes = (text: string): number[] => [...Buffer.from(text)];
const user = { role: 'user', content: 'Hi' };
const input_schema = { type: 'object', properties: { city: { enum: ['Rome', null] } }, required: ['city'] };
const weather = { name: 'weather', description: 'Of a city.', input_schema };
const clock = { type: 'custom', name: 'clock', input_schema: { type: 'object' } };
const tools = [weather, clock];

const hermes = (name: string, given: string): string =>
  `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`;

function ask({ post }: TestApp, more: object): Promise<Response> {
  return post('/v1/messages', { model: 'bytes', max_tokens: 300, messages: [user], ...more });
}

test('the template gets the tools as functions, and null within a schema is a value', async () => {
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  const sent = { ...weather, strict: null, cache_control: { type: 'ephemeral' } };
  const response = await ask(app, { tools: [sent, clock], metadata: null });
  assert.is(response.status, 200, await response.text());
  assert.is(response.headers.get('x-runnel-ignored'), 'tools.cache_control');
  const told = [
    { name: 'weather', description: 'Of a city.', parameters: input_schema },
    { name: 'clock', parameters: { type: 'object' } },
  ].map((described) => `tool: ${JSON.stringify({ type: 'function', function: described })}`);
  const promptIds = [...told, 'user: Hi'].flatMap((turn) => [TURN_ID, ...bytes(turn)]);
  assert.equal(app.runner.requests[0]?.promptIds, promptIds);
  assert.match(app.runner.requests[0]?.grammar?.source ?? '', '"enum":["Rome",null]');
  const counted = await app.post('/v1/messages/count_tokens', { model: 'bytes', messages: [user], tools });
  assert.equal(await counted.json(), { input_tokens: promptIds.length });
});

test('each choice has its grammar', async () => {
  const formatOf = async (tool_choice: object): Promise<Record<string, unknown>> => {
    const app = testApp();
    app.runner.script = [[EOS_ID]];
    const response = await ask(app, { tools, tool_choice });
    assert.is(response.status, 200, await response.text());
    return (JSON.parse(app.runner.requests[0]?.grammar?.source ?? '') as { format: Record<string, unknown> })
      .format;
  };
  const shapeOf = async (tool_choice: object): Promise<unknown[]> => {
    const { type, stop_after_first } = await formatOf(tool_choice);
    return [type, stop_after_first];
  };
  assert.equal(await shapeOf({ type: 'auto' }), ['triggered_tags', false]);
  const isSingle = { disable_parallel_tool_use: true };
  assert.equal(await shapeOf({ type: 'auto', ...isSingle }), ['triggered_tags', true]);
  assert.equal(await shapeOf({ type: 'any' }), ['tags_with_separator', false]);
  assert.equal(await shapeOf({ type: 'any', ...isSingle }), ['tags_with_separator', true]);
  assert.match(String((await formatOf({ type: 'tool', name: 'clock' })).begin), '"clock"');
  assert.equal(await formatOf({ type: 'none' }), { type: 'any_text', excludes: ['<tool_call>'] });
});

test('a whole message has its text and its calls, in their order, and why it ended', async () => {
  const app = testApp();
  const number = 12345678901234567890n;
  app.runner.script = [
    bytes(`Look.${hermes('weather', `{"city": null, "n": ${number}}`)}\nAnd ${hermes('clock', '{}')}`),
    [EOS_ID],
  ];
  const text = await (await ask(app, { tools })).text();
  assert.match(text, `"input":{"city": null, "n": ${number}}`);
  const { content, stop_reason } = JSON.parse(text) as {
    content: { id?: string; type: string }[];
    stop_reason: string;
  };
  assert.is(stop_reason, 'tool_use');
  const [first, second] = content.flatMap(({ id }) => (id === undefined ? [] : [id]));
  assert.match(first ?? '', /^toolu_[0-9a-f]{24}_0$/);
  assert.is(second, first?.replace(/0$/, '1'));
  assert.equal(content, [
    { type: 'text', text: 'Look.' },
    { type: 'tool_use', id: first, name: 'weather', input: { city: null, n: Number(number) } },
    { type: 'text', text: 'And ' },
    { type: 'tool_use', id: second, name: 'clock', input: {} },
  ]);
});

test('a truncated call is omitted from a whole message, with the stop reason', async () => {
  const app = testApp();
  const answer = hermes('weather', '{"city": "Rome"}');
  app.runner.script = [bytes(answer)];
  const response = await ask(app, { tools, max_tokens: answer.indexOf('me"}') });
  const { content, stop_reason } = (await response.json()) as Record<string, unknown>;
  assert.equal([content, stop_reason], [[{ type: 'text', text: '' }], 'max_tokens']);
});

interface BlockEvent {
  readonly type: string;
  readonly index: number;
  readonly content_block?: { readonly id: string };
  readonly delta?: { readonly stop_reason?: string };
}

async function eventsOf(response: Response): Promise<BlockEvent[]> {
  const events: BlockEvent[] = [];
  for await (const { data } of readEvents(response)) events.push(JSON.parse(data) as BlockEvent);
  return events;
}

test('a stream has a block for each text and each call, however tokens cut them', async () => {
  const answer = `Ah.${hermes('weather', '{"city": "Rome"}')} So.${hermes('clock', '{}')}`;
  const start = (index: number, content_block: object) => ({
    type: 'content_block_start',
    index,
    content_block,
  });
  const stop = (index: number) => ({ type: 'content_block_stop', index });
  for (const size of [1, 7, 50, answer.length]) {
    const app = testApp();
    const cuts = Array.from({ length: Math.ceil(answer.length / size) }, (_, at) => at * size);
    app.runner.script = [...cuts.map((cut) => bytes(answer.slice(cut, cut + size))), [EOS_ID]];
    const events = await eventsOf(await ask(app, { tools, stream: true }));
    const blocks = events.filter(
      ({ type }) => type === 'content_block_start' || type === 'content_block_stop',
    );
    const ids = blocks.flatMap(({ content_block: { id } = { id: undefined } }) => id ?? []);
    assert.is(new Set(ids).size, 2);
    const call = (at: number, name: string) => ({ type: 'tool_use', id: ids[at], name, input: {} });
    const text = { type: 'text', text: '' };
    assert.equal(
      blocks,
      [text, call(0, 'weather'), text, call(1, 'clock')].flatMap((block, at) => [start(at, block), stop(at)]),
    );
    const contents = ['', '', '', ''];
    for (const event of events) {
      if (event.type !== 'content_block_delta') continue;
      const { text: said = '', partial_json = '' } = event.delta as Record<string, string>;
      contents[event.index] += said + partial_json;
    }
    assert.equal(contents, ['Ah.', '{"city": "Rome"}', 'So.', '{}'], `${size} at a time`);
    const end = events.find(({ type }) => type === 'message_delta');
    assert.is(end?.delta?.stop_reason, 'tool_use');
  }
});

test('a stream that offers tools and says nothing has a block of no text', async () => {
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  const types = (await eventsOf(await ask(app, { tools, stream: true }))).map(({ type }) => type);
  assert.equal(types, [
    ...[
      'message_start',
      'ping',
      'content_block_start',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ],
  ]);
});

test('a history of calls and results reaches the template, each result with its name', async () => {
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  const messages = [
    user,
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Let me see.', citations: null },
        { type: 'tool_use', id: 'a', name: 'weather', input: { city: null }, caller: { type: 'direct' } },
        { type: 'tool_use', id: 'b', name: 'clock', input: {} },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'b', content: [{ type: 'text', text: '12:30' }] },
        { type: 'tool_result', tool_use_id: 'a', content: 'No city.', is_error: true },
        { type: 'text', text: 'And ' },
        { type: 'text', text: 'now?' },
      ],
    },
  ];
  const response = await ask(app, { messages });
  assert.is(response.status, 200, await response.text());
  assert.is(response.headers.get('x-runnel-ignored'), 'messages.content.caller');
  const calls = [
    { id: 'a', name: 'weather', arguments: { city: null } },
    { id: 'b', name: 'clock', arguments: {} },
  ];
  const turns = [
    'user: Hi',
    `assistant: Let me see.${calls.map((call) => JSON.stringify(call)).join('')}`,
    'tool: 12:30{"id":"b","name":"clock"}',
    'tool: Error: No city.{"id":"a","name":"weather"}',
    'user: And now?',
  ];
  assert.equal(
    app.runner.requests[0]?.promptIds,
    turns.flatMap((turn) => [TURN_ID, ...bytes(turn)]),
  );
});

test('invalid tools, calls and results are refused by their place', async () => {
  const call = { type: 'tool_use', id: 'x', name: 'f', input: {} };
  const result = { type: 'tool_result', tool_use_id: 'x', content: '' };
  const said = (role: string, ...content: unknown[]) => ({ messages: [{ role, content }, user] });
  const cases: [object, string, string][] = [
    [{ tools: [{ name: 'f' }] }, 'tools.0.input_schema', 'must be a JSON Schema'],
    [{ tools: [{ ...weather, name: 'a b' }] }, 'tools.0.name', '1 to 64 characters'],
    [{ tools: [weather, weather] }, 'tools.1.name', 'the name of another tool'],
    [{ tools: [{ ...weather, input_schema: { type: 'string' } }] }, 'tools.0.input_schema', 'an object'],
    [{ tools: [{ type: 'bash_20250124', name: 'bash' }] }, 'tools.0.type', 'of the type "custom"'],
    [{ tools: [{ ...weather, defer_loading: true }] }, 'tools.0.defer_loading', 'is not supported'],
    [{ tools, tool_choice: { type: 'tool', name: 'sun' } }, 'tool_choice', 'not among tools'],
    [{ tools, tool_choice: { type: 'tool' } }, 'tool_choice.name', 'is required'],
    [{ tools, tool_choice: { type: 'any', name: 'f' } }, 'tool_choice.name', 'needs the type tool'],
    [{ tools, tool_choice: 'any' }, 'tool_choice', 'must be an object'],
    [{ tool_choice: { type: 'any' } }, 'tool_choice', 'there are no tools'],
    [said('user', call), 'messages.0.content.0.type', 'the role "assistant"'],
    [said('assistant', result), 'messages.0.content.0.type', 'the role "user"'],
    [said('user', result), 'messages.0.content.0.tool_use_id', 'is not the id of a tool call'],
    [said('assistant', { ...call, input: [] }), 'messages.0.content.0.input', 'must be an object'],
    [said('assistant', { ...call, input: null }), 'messages.0.content.0.input', 'must be an object'],
    [said('user', { text: 'a' }), 'messages.0.content.0.type', 'is required'],
    [said('user', { type: 3 }), 'messages.0.content.0.type', 'is not supported'],
    [said('user', { type: 'document' }), 'messages.0.content.0.type', 'is not supported'],
    [said('user', 7), 'messages.0.content.0.type', 'is required'],
    [said('user', null), 'messages.0.content.0.type', 'is required'],
  ];
  for (const [body, place, words] of cases) {
    const app = testApp();
    const response = await ask(app, body);
    assert.is(response.status, 400, place);
    const { error } = (await response.json()) as { error: { message: string } };
    assert.match(error.message, place);
    assert.match(error.message, words);
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
  assert.match(await response.text(), 'The chat template of the model \\"bytes\\" does not support tools');
});

test.run();
