import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import { type TestApp, testApp } from '../../../fixtures/app.ts';
import { byteModel, EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';
import { readEvents } from '../../../fixtures/sse.ts';

/** Tools of POST /v1/responses: what the template gets, what the runner may draw, and what clients receive. */

const test = suite('tools of responses');

const bytes = (text: string): number[] => [...Buffer.from(text)];
const parameters = { type: 'object', properties: { city: { enum: ['Rome', null] } }, required: ['city'] };
const weather = { type: 'function', name: 'weather', description: 'Of a city.', parameters, strict: true };
const clock = { type: 'function', name: 'clock', parameters: null, strict: null };
const tools = [weather, clock];

const hermes = (name: string, given: string): string =>
  `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`;

function ask({ post }: TestApp, more: object): Promise<Response> {
  return post('/v1/responses', { model: 'bytes', input: 'Hi', ...more });
}

interface Item {
  readonly id: string;
  readonly type: string;
  readonly status: string;
  readonly call_id?: string;
  readonly arguments?: string;
}

interface Answer {
  readonly status: string;
  readonly output: readonly Item[];
  readonly tools: unknown;
  readonly tool_choice: unknown;
  readonly parallel_tool_calls: boolean;
}

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  assert.is(response.status, 200, text);
  return JSON.parse(text) as Answer;
}

/** The value with the random parts of ids removed. */
function nameless(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll(/(resp|msg|fc|call)_[0-9a-f-]{24,36}/g, '$1'));
}

test('the template gets the tools as functions, and the answer repeats what was asked', async () => {
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  const tool_choice = { type: 'function', name: 'clock' };
  const asked = await answerOf(await ask(app, { tools, tool_choice, parallel_tool_calls: false }));
  const told = [{ name: 'weather', description: 'Of a city.', parameters }, { name: 'clock' }].map(
    (described) => `tool: ${JSON.stringify({ type: 'function', function: described })}`,
  );
  assert.equal(
    app.runner.requests[0]?.promptIds,
    [...told, 'user: Hi'].flatMap((turn) => [TURN_ID, ...bytes(turn)]),
  );
  assert.equal([asked.tool_choice, asked.parallel_tool_calls], [tool_choice, false]);
  assert.equal(asked.tools, [weather, { ...clock, strict: true }]);
});

test('with "allowed_tools" these may be called, and the answer repeats which', async () => {
  const allowed = (...names: string[]) => ({
    ...{ type: 'allowed_tools', mode: 'required' },
    tools: names.map((name) => ({ type: 'function', name })),
  });
  const [some, named] = [testApp(), testApp()];
  for (const { runner } of [some, named]) runner.script = [[EOS_ID]];
  const asked = await answerOf(
    await ask(some, { tools, tool_choice: allowed('clock'), parallel_tool_calls: false }),
  );
  assert.equal(asked.tool_choice, allowed('clock'));
  const tool_choice = { type: 'function', name: 'clock' };
  await answerOf(await ask(named, { tools, tool_choice, parallel_tool_calls: false }));
  assert.ok(some.runner.requests[0]?.grammar?.source.includes('clock'));
  assert.not.ok(some.runner.requests[0]?.grammar?.source.includes('weather'));
  assert.equal(some.runner.requests[0]?.promptIds, named.runner.requests[0]?.promptIds);
  const unknown = await ask(testApp(), { tools, tool_choice: allowed('clock', 'absent') });
  assert.is(unknown.status, 400);
  assert.match(await unknown.text(), 'tool_choice names the tool \\"absent\\", which is not among tools');
});

test('a tool that does not say whether it is strict is, where its schema can be, and the answer says what it became', async () => {
  const loose = { type: 'object', properties: { city: { type: 'string' }, day: { type: 'string' } } };
  const strict = { ...loose, required: ['city', 'day'], additionalProperties: false };
  const open = { type: 'object' };
  const tool = { type: 'function', name: 'f' };
  for (const [sent, became] of [
    [{ parameters: loose }, { parameters: strict, strict: true }],
    [
      { parameters: loose, strict: null },
      { parameters: strict, strict: true },
    ],
    [
      { parameters: loose, strict: false },
      { parameters: loose, strict: false },
    ],
    [
      { parameters: loose, strict: true },
      { parameters: loose, strict: true },
    ],
    [{ parameters: open }, { parameters: open, strict: false }],
    [{}, { parameters: null, strict: true }],
  ] as const) {
    const app = testApp();
    app.runner.script = [[EOS_ID]];
    const answer = await answerOf(await ask(app, { tools: [{ ...tool, ...sent }], tool_choice: 'required' }));
    assert.equal(answer.tools, [{ ...tool, ...became }]);
    const { parameters } = became;
    const told = JSON.stringify({ name: 'f', ...(parameters === null ? {} : { parameters }) });
    const [request] = app.runner.requests;
    assert.match(Buffer.from(request?.promptIds.filter((id) => id < 256) ?? []).toString(), told);
    const held = parameters === open ? { additionalProperties: true, ...open } : parameters;
    const schema = JSON.stringify(held ?? { type: 'object', properties: {} });
    assert.match(request?.grammar?.source ?? '', `"json_schema":${schema}`);
  }
});

test('each choice has its grammar', async () => {
  const shapeOf = async (more: object): Promise<unknown[]> => {
    const app = testApp();
    app.runner.script = [[EOS_ID]];
    await answerOf(await ask(app, { tools, ...more }));
    const { format } = JSON.parse(app.runner.requests[0]?.grammar?.source ?? '') as {
      format: Record<string, unknown>;
    };
    return [format.type, format.stop_after_first];
  };
  assert.equal(await shapeOf({}), ['triggered_tags', false]);
  assert.equal(await shapeOf({ parallel_tool_calls: false }), ['triggered_tags', true]);
  assert.equal(await shapeOf({ tool_choice: 'required' }), ['tags_with_separator', false]);
  assert.equal(await shapeOf({ tool_choice: { type: 'function', name: 'clock' } }), ['tag', undefined]);
  assert.equal(await shapeOf({ tool_choice: 'none' }), ['any_text', undefined]);
});

const answer = `Ah.${hermes('weather', '{"city": "Rome"}')} So.${hermes('clock', '{}')}`;
const message = (id: string, text: string, status = 'completed') => ({
  ...{ id, type: 'message', status, role: 'assistant' },
  content: [{ type: 'output_text', text, annotations: [], logprobs: [] }],
});
const called = (index: number, name: string, given: string, status = 'completed') => ({
  ...{ id: `fc_${index}`, type: 'function_call', status, call_id: `call_${index}`, name, arguments: given },
});
const output = [
  message('msg', 'Ah.'),
  called(0, 'weather', '{"city": "Rome"}'),
  message('msg_1', 'So.'),
  called(1, 'clock', '{}'),
];

test('a whole response has a message for each text and an item for each call, in their order', async () => {
  const app = testApp();
  app.runner.script = [bytes(answer), [EOS_ID]];
  const whole = await answerOf(await ask(app, { tools }));
  assert.equal([nameless(whole.output), whole.status], [output, 'completed']);
  const ids = whole.output.flatMap(({ id, call_id = id }) => [...new Set([id, call_id])]);
  assert.is(new Set(ids).size, 6);
  app.runner.script = [bytes(hermes('clock', '{}')), [EOS_ID]];
  const bare = await answerOf(await ask(app, { tools }));
  assert.equal(nameless(bare.output), [called(0, 'clock', '{}')]);
});

interface OutputEvent {
  readonly type: string;
  readonly output_index?: number;
  readonly delta?: string;
  readonly item?: Item;
  readonly response?: Answer;
}

async function eventsOf(response: Response): Promise<OutputEvent[]> {
  const events: OutputEvent[] = [];
  for await (const { data } of readEvents(response)) events.push(JSON.parse(data) as OutputEvent);
  return events;
}

test('a stream has the same items, one after the other, however tokens cut them', async () => {
  for (const size of [1, 7, 50, answer.length]) {
    const app = testApp();
    const cuts = Array.from({ length: Math.ceil(answer.length / size) }, (_, at) => at * size);
    app.runner.script = [...cuts.map((cut) => bytes(answer.slice(cut, cut + size))), [EOS_ID]];
    const events = await eventsOf(await ask(app, { tools, stream: true }));
    const last = events.at(-1);
    assert.is(last?.type, 'response.completed');
    assert.equal(nameless(last?.response?.output), output, `${size} at a time`);
    const done = events.filter(({ type }) => type === 'response.output_item.done');
    assert.equal(nameless(done.map(({ item }) => item)), output);
    const deltas = ['', '', '', ''];
    for (const { output_index = 0, delta = '' } of events) deltas[output_index] += delta;
    assert.equal(deltas, ['Ah.', '{"city": "Rome"}', 'So.', '{}']);
  }
});

test('the events of a call', async () => {
  const app = testApp();
  app.runner.script = [
    bytes(hermes('clock', '{').slice(0, -14)),
    bytes('}'),
    bytes('}\n</tool_call>'),
    [EOS_ID],
  ];
  const events = (await eventsOf(await ask(app, { tools, stream: true }))).slice(2, -1);
  const place = { item_id: 'fc_0', output_index: 0 };
  assert.equal(nameless(events), [
    {
      ...{ type: 'response.output_item.added', output_index: 0, sequence_number: 2 },
      item: called(0, 'clock', '', 'in_progress'),
    },
    { type: 'response.function_call_arguments.delta', ...place, delta: '{', sequence_number: 3 },
    { type: 'response.function_call_arguments.delta', ...place, delta: '}', sequence_number: 4 },
    {
      ...{ type: 'response.function_call_arguments.done', ...place, sequence_number: 5 },
      ...{ name: 'clock', arguments: '{}' },
    },
    {
      ...{ type: 'response.output_item.done', output_index: 0, sequence_number: 6 },
      item: called(0, 'clock', '{}'),
    },
  ]);
});

test('with a text format an answer is calls or matches the format', async () => {
  const app = testApp();
  const text = { format: { type: 'json_object' } };
  app.runner.script = [bytes('{"a": "<tool_call>"}'), [EOS_ID]];
  const said = await answerOf(await ask(app, { tools, text }));
  assert.match(JSON.stringify(said.output), JSON.stringify('{"a": "<tool_call>"}').slice(1, -1));
  const { format } = JSON.parse(app.runner.requests[0]?.grammar?.source ?? '') as {
    format: { type: string; elements: { type: string }[] };
  };
  assert.equal(
    [format.type, ...format.elements.map(({ type }) => type)],
    ['or', 'tags_with_separator', 'json_schema'],
  );
  app.runner.script = [bytes(hermes('clock', '{}')), [EOS_ID]];
  const calling = await answerOf(await ask(app, { tools, text }));
  assert.equal(nameless(calling.output), [called(0, 'clock', '{}')]);
  app.runner.script = [[EOS_ID]];
  await answerOf(await ask(app, { tools, text, tool_choice: 'none' }));
  assert.is(app.runner.requests.at(-1)?.grammar?.kind, 'json_object');
});

test('a call that is cut short is incomplete, by its length or by a failure', async () => {
  const text = hermes('weather', '{"city": "Rome"}');
  const cut = called(0, 'weather', '{"city": "Ro', 'incomplete');
  const max_output_tokens = text.indexOf('me"}');
  const app = testApp();
  app.runner.script = [bytes(text)];
  const whole = await answerOf(await ask(app, { tools, max_output_tokens }));
  assert.equal([nameless(whole.output), whole.status], [[cut], 'incomplete']);
  app.runner.script = [bytes(text)];
  const events = await eventsOf(await ask(app, { tools, max_output_tokens, stream: true }));
  assert.equal(nameless(events.at(-1)?.response?.output), [cut]);
  assert.equal(nameless(events.at(-2)?.item), cut);
  const fault = new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: true });
  app.runner.script = [bytes(text.slice(0, max_output_tokens)), fault];
  const failed = (await eventsOf(await ask(app, { tools, stream: true }))).at(-1);
  assert.equal([failed?.type, nameless(failed?.response?.output)], ['response.failed', [cut]]);
});

test('a history of calls and results reaches the template, calls with the message in front of them', async () => {
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  const call = (call_id: string, name: string, given: string, more: object = {}) => ({
    ...{ type: 'function_call', call_id, name, arguments: given, ...more },
  });
  const result = (call_id: string, said: unknown) => ({
    type: 'function_call_output',
    call_id,
    output: said,
  });
  const input = [
    { role: 'user', content: 'Hi' },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Look.' }] },
    call('a', 'weather', '{"city":null}', { id: 'fc_1', status: 'completed', parsed_arguments: {} }),
    call('b', 'clock', ''),
    result('b', '12:30'),
    result('a', [{ type: 'input_text', text: 'Sun' }]),
    call('c', 'clock', '{}'),
    result('c', '12:31'),
  ];
  const response = await ask(app, { input });
  assert.is(response.status, 200, await response.text());
  assert.is(response.headers.get('x-runnel-ignored'), 'input.id, input.status, input.parsed_arguments');
  const told = (id: string, name: string, given: object) => JSON.stringify({ id, name, arguments: given });
  const turns = [
    'user: Hi',
    `assistant: Look.${told('a', 'weather', { city: null })}${told('b', 'clock', {})}`,
    'tool: 12:30{"id":"b","name":"clock"}',
    'tool: Sun{"id":"a","name":"weather"}',
    `assistant: ${told('c', 'clock', {})}`,
    'tool: 12:31{"id":"c","name":"clock"}',
  ];
  assert.equal(
    app.runner.requests[0]?.promptIds,
    turns.flatMap((turn) => [TURN_ID, ...bytes(turn)]),
  );
});

test('invalid tools, calls and results are refused by their place', async () => {
  const call = { type: 'function_call', call_id: 'x', name: 'f', arguments: '{}' };
  const cases: [object, string, string][] = [
    [{ tools: [{ type: 'custom', name: 'f' }] }, 'tools.0.type', 'of the type "function"'],
    [{ tools: [{ type: 'function', function: { name: 'f' } }] }, 'tools.0.name', 'is required'],
    [{ tools: [weather, weather] }, 'tools.1.name', 'the name of another tool'],
    [{ tools: [{ ...weather, defer_loading: true }] }, 'tools.0.defer_loading', 'is not supported'],
    [{ tools, tool_choice: { type: 'function', name: 'sun' } }, 'tool_choice', 'not among tools'],
    [{ tools, tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [] } }, 'tool_choice', 'must be'],
    [{ tools, include: ['message.output_text.logprobs'] }, 'include', 'exclude each other'],
    [{ input: [{ ...call, arguments: '[]' }] }, 'input.0.arguments', 'an object as JSON text'],
    [{ input: [{ ...call, call_id: undefined }] }, 'input.0.call_id', 'is required'],
    [
      { input: [{ type: 'function_call_output', call_id: 'y', output: '' }] },
      'input.0.call_id',
      'is not the id of a tool call',
    ],
    [{ input: [{}] }, 'input.0', 'must be an item'],
    [{ input: ['x'] }, 'input.0', 'must be an item'],
    [{ input: [{ type: 7 }] }, 'input.0.type', 'is not supported'],
  ];
  for (const [body, param, words] of cases) {
    const app = testApp();
    const response = await ask(app, body);
    const text = await response.text();
    assert.is(response.status, 400, text);
    const { error } = JSON.parse(text) as { error: { param: string; message: string } };
    assert.is(error.param, param, error.message);
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
  const called = { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{}' };
  for (const [body, param] of [
    [{ tools }, 'tools'],
    [{ input: [called, { type: 'function_call_output', call_id: 'call_1', output: '5' }] }, 'input'],
  ] as const) {
    const response = await ask(app, body);
    assert.is(response.status, 400);
    const { error } = (await response.json()) as { error: { param: string; message: string } };
    assert.match(error.message, 'does not support tools');
    assert.is(error.param, param);
  }
});

test.run();
