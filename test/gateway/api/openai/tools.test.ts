import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ToolUse } from '../../../../gateway/prompt/tool-call-format.ts';
import {
  glm47Format,
  llamaFormat,
  mistralFormat,
  mistralIdFormat,
  mistralListFormat,
  qwenXmlFormat,
} from '../../../../gateway/prompt/tool-call-format.ts';
import type { Tokenizer } from '../../../../gateway/tokenizer/tokenizer.ts';
import { type TestApp, testApp } from '../../../fixtures/app.ts';
import { byteModel, byteTokenizer, EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';
import { readEvents } from '../../../fixtures/sse.ts';

/** Tools of POST /v1/chat/completions: what the model is told, what its runner may draw, and what clients get. */

const test = suite('tools');

const bytes = (text: string): number[] => [...Buffer.from(text)];
const user = { role: 'user', content: 'Hi' };
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const weather = { type: 'function', function: { name: 'weather', description: 'Of a city.', parameters } };
const clock = { type: 'function', function: { name: 'clock' } };
const tools = [weather, clock];

function appOf(toolUse: ToolUse, tokenizer = byteTokenizer): TestApp {
  const { chatTemplate } = byteModel;
  assert.ok(chatTemplate);
  return testApp({ model: () => ({ ...byteModel, tokenizer, chatTemplate: { ...chatTemplate, toolUse } }) });
}

const CALLS_ID = 258;
const ARGS_ID = 259;
const CALL_ID_ID = 260;
const marks = new Map([
  [CALLS_ID, '[TOOL_CALLS]'],
  [ARGS_ID, '[ARGS]'],
  [CALL_ID_ID, '[CALL_ID]'],
]);
/** A tokenizer of bytes, with Mistral's marks as control tokens. */
const markedTokenizer: Tokenizer = {
  ...byteTokenizer,
  vocabSize: 261,
  controlLiterals: [...byteTokenizer.controlLiterals, ...marks.values()],
  encode: (text) => {
    const mark = [...marks].find(([, literal]) => literal === text);
    return mark === undefined ? [...Buffer.from(text)] : [mark[0]];
  },
  bytes: (id) => (marks.has(id) ? Buffer.from(marks.get(id) ?? '') : byteTokenizer.bytes(id)),
  isControl: (id) => marks.has(id) || byteTokenizer.isControl(id),
};

function ask({ post }: TestApp, more: object): Promise<Response> {
  return post('/v1/chat/completions', { model: 'bytes', messages: [user], ...more });
}

interface Refusal {
  readonly param: string;
  readonly code: string;
  readonly message: string;
}

async function refusalOf(app: TestApp, more: object): Promise<Refusal> {
  const response = await ask(app, more);
  const body = await response.text();
  assert.is(response.status, 400, body);
  assert.is(app.runner.requests.length, 0);
  return (JSON.parse(body) as { error: Refusal }).error;
}

interface Choice {
  readonly message: {
    readonly content: string | null;
    readonly tool_calls?: readonly {
      readonly id: string;
      readonly type: string;
      readonly function: object;
    }[];
  };
  readonly finish_reason: string;
}

async function choiceOf(response: Response): Promise<Choice> {
  const body = await response.text();
  assert.is(response.status, 200, body);
  return (JSON.parse(body) as { choices: [Choice] }).choices[0];
}

const hermes = (name: string, given: string): string =>
  `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`;

async function formatSent(more: object, app = testApp()): Promise<unknown> {
  app.runner.script = [[EOS_ID]];
  const response = await ask(app, more);
  assert.is(response.status, 200, await response.text());
  const grammar = app.runner.requests[0]?.grammar;
  assert.is(grammar?.kind, 'structural_tag');
  return (JSON.parse(grammar?.source ?? '') as { format: unknown }).format;
}

test('the template gets the tools, as they were described, without null', async () => {
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  const sent = { ...weather, function: { ...weather.function, strict: null } };
  const nothing = { type: 'function', function: { name: 'clock', description: null, parameters: null } };
  await ask(app, { tools: [sent, nothing] });
  const turns = [`tool: ${JSON.stringify(weather)}`, `tool: ${JSON.stringify(clock)}`, 'user: Hi'];
  assert.equal(
    app.runner.requests[0]?.promptIds,
    turns.flatMap((turn) => [TURN_ID, ...bytes(turn)]),
  );
});

test('null within a schema is a value', async () => {
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  const schema = { type: 'object', properties: { a: { enum: [null, 1] } } };
  await ask(app, { tools: [{ type: 'function', function: { name: 'f', parameters: schema } }] });
  assert.match(app.runner.requests[0]?.grammar?.source ?? '', '"enum":[null,1]');
});

const tags = [
  {
    type: 'tag',
    begin: '<tool_call>\n{"name": "weather", "arguments": ',
    content: { type: 'json_schema', json_schema: parameters, max_whitespace_cnt: 20 },
    end: '}\n</tool_call>',
  },
  {
    type: 'tag',
    begin: '<tool_call>\n{"name": "clock", "arguments": ',
    content: { type: 'json_schema', json_schema: { type: 'object', properties: {} }, max_whitespace_cnt: 20 },
    end: '}\n</tool_call>',
  },
];

test('each choice has its grammar', async () => {
  const triggers = ['<tool_call>'];
  assert.equal(await formatSent({ tools }), {
    ...{ type: 'triggered_tags', triggers, tags, stop_after_first: false },
  });
  assert.equal(await formatSent({ tools, tool_choice: 'auto', parallel_tool_calls: false }), {
    ...{ type: 'triggered_tags', triggers, tags, stop_after_first: true },
  });
  assert.equal(await formatSent({ tools, tool_choice: 'required' }), {
    ...{ type: 'tags_with_separator', tags, separator: '\n', at_least_one: true, stop_after_first: false },
  });
  const named = { type: 'function', function: { name: 'clock' } };
  assert.equal(await formatSent({ tools, tool_choice: named }), tags[1]);
  assert.equal(await formatSent({ tools, tool_choice: 'none' }), { type: 'any_text', excludes: triggers });
});

test('"allowed_tools" limits or requires calls, while the template gets all tools', async () => {
  const allowed = (mode: string, ...names: string[]) => {
    const some = names.map((name) => ({ type: 'function', function: { name } }));
    return { type: 'allowed_tools', allowed_tools: { mode, tools: some } };
  };
  const [, ofClock] = tags;
  assert.equal(await formatSent({ tools, tool_choice: allowed('auto', 'clock') }), {
    ...{ type: 'triggered_tags', triggers: ['<tool_call>'], tags: [ofClock], stop_after_first: false },
  });
  assert.equal(await formatSent({ tools, tool_choice: allowed('required', 'clock') }), {
    ...{ type: 'tags_with_separator', tags: [ofClock], separator: '\n' },
    ...{ at_least_one: true, stop_after_first: false },
  });
  assert.equal(
    await formatSent({ tools, tool_choice: allowed('required', 'clock', 'weather') }),
    await formatSent({ tools, tool_choice: 'required' }),
  );
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  await ask(app, { tools, tool_choice: allowed('auto', 'clock') });
  const plain = testApp();
  plain.runner.script = [[EOS_ID]];
  await ask(plain, { tools });
  assert.equal(app.runner.requests[0]?.promptIds, plain.runner.requests[0]?.promptIds);
  const unknown = await ask(testApp(), { tools, tool_choice: allowed('auto', 'clock', 'absent') });
  assert.is(unknown.status, 400);
  assert.match(await unknown.text(), 'tool_choice names the tool \\"absent\\", which is not among tools');
  for (const broken of [allowed('none', 'clock'), allowed('auto')])
    assert.is((await ask(testApp(), { tools, tool_choice: broken })).status, 400);
});

test('with "none" response_format applies, and no calls are parsed', async () => {
  const app = testApp();
  app.runner.script = [bytes(hermes('weather', '{}')), [EOS_ID]];
  const format = { response_format: { type: 'json_object' } };
  const { message, finish_reason } = await choiceOf(
    await ask(app, { tools, tool_choice: 'none', ...format }),
  );
  assert.is(app.runner.requests[0]?.grammar?.kind, 'json_object');
  assert.equal([message.content, finish_reason], [hermes('weather', '{}'), 'stop']);
});

test('with "auto" and response_format an answer is calls or matches the format', async () => {
  const triggers = { separator: '\n', at_least_one: true };
  const object = { type: 'object', additionalProperties: true };
  const json = (json_schema: object) => ({ type: 'json_schema', json_schema, max_whitespace_cnt: 20 });
  const either = (form: object, stop_after_first = false) => ({
    type: 'or',
    elements: [{ type: 'tags_with_separator', tags, ...triggers, stop_after_first }, form],
  });
  const response_format = { type: 'json_object' };
  assert.equal(await formatSent({ tools, response_format }), either(json(object)));
  assert.equal(
    await formatSent({ tools, response_format, parallel_tool_calls: false }),
    either(json(object), true),
  );
  const regex = { type: 'regex', pattern: 'a+' };
  assert.equal(await formatSent({ tools, guided_regex: 'a+' }), either(regex));
  const schema = { type: 'object', properties: { a: { const: null } } };
  assert.equal(await formatSent({ tools, guided_json: schema }), either(json(schema)));
  const required = await formatSent({ tools, tool_choice: 'required', response_format });
  assert.equal(required, either({}).elements[0]);
  const named = { type: 'function', function: { name: 'clock' } };
  assert.equal(await formatSent({ tools, tool_choice: named, response_format }), tags[1]);
});

test('a text that holds to its form is read for no calls; calls are', async () => {
  const app = testApp();
  const format = { tools, response_format: { type: 'json_object' } };
  const text = `{"a": ${JSON.stringify(hermes('clock', '{}'))}}`;
  app.runner.script = [bytes(text), [EOS_ID]];
  const said = await choiceOf(await ask(app, format));
  assert.equal(
    [said.message.content, said.message.tool_calls, said.finish_reason],
    [text, undefined, 'stop'],
  );
  app.runner.script = [bytes(`${hermes('weather', '{"city": "Rome"}')}\n${hermes('clock', '{}')}`), [EOS_ID]];
  const called = await choiceOf(await ask(app, format));
  assert.equal([called.message.content, called.finish_reason], [null, 'tool_calls']);
  assert.equal(
    called.message.tool_calls?.map(({ function: of }) => of),
    [
      { name: 'weather', arguments: '{"city": "Rome"}' },
      { name: 'clock', arguments: '{}' },
    ],
  );
});

test('a whole answer has its calls, text before them, and why it ended', async () => {
  const app = testApp();
  app.runner.script = [
    bytes(`Let me see.\n${hermes('weather', '{"city": "Rome"}')}\n${hermes('clock', '{}')}`),
    [EOS_ID],
  ];
  const { message, finish_reason } = await choiceOf(await ask(app, { tools }));
  assert.is(message.content, 'Let me see.\n');
  assert.is(finish_reason, 'tool_calls');
  const calls = message.tool_calls ?? [];
  assert.equal(
    calls.map(({ type, function: called }) => ({ type, called })),
    [
      { type: 'function', called: { name: 'weather', arguments: '{"city": "Rome"}' } },
      { type: 'function', called: { name: 'clock', arguments: '{}' } },
    ],
  );
  const [first, second] = calls.map(({ id }) => id);
  assert.match(first ?? '', /^call_[0-9a-f]{24}_0_0$/);
  assert.is(second, first?.replace(/0$/, '1'), 'the ids of an answer differ in their numbers alone');
});

test('an answer of calls alone has no content; one of text alone has no calls', async () => {
  const app = testApp();
  app.runner.script = [bytes(hermes('clock', '{}')), [EOS_ID]];
  assert.is((await choiceOf(await ask(app, { tools }))).message.content, null);
  app.runner.script = [bytes('Hello'), [EOS_ID]];
  const { message, finish_reason } = await choiceOf(await ask(app, { tools }));
  assert.equal(message, { role: 'assistant', content: 'Hello', refusal: null });
  assert.is(finish_reason, 'stop');
});

test('a truncated call is returned as far as it got, with the reason', async () => {
  const app = testApp();
  const answer = hermes('weather', '{"city": "Rome"}');
  const max_tokens = answer.indexOf('me"}');
  app.runner.script = [bytes(answer)];
  const { message, finish_reason } = await choiceOf(await ask(app, { tools, max_tokens }));
  assert.is(finish_reason, 'length');
  assert.equal(message.tool_calls?.[0]?.function, { name: 'weather', arguments: '{"city": "Ro' });
});

test('finish_reason is "length" if max_tokens ends the answer after a complete call', async () => {
  const app = testApp();
  const call = hermes('clock', '{}');
  app.runner.script = [bytes(`${call}${call}`)];
  const { message, finish_reason } = await choiceOf(await ask(app, { tools, max_tokens: call.length }));
  assert.equal([message.tool_calls?.length, finish_reason], [1, 'length']);
});

interface Delta {
  readonly content?: string;
  readonly tool_calls?: readonly object[];
}

interface Chunk {
  readonly choices: readonly {
    readonly index: number;
    readonly delta: Delta;
    readonly finish_reason: string | null;
  }[];
}

test('a stream has text, each call’s id and name once, its arguments in pieces, and why it ended', async () => {
  const app = testApp();
  const answer = `Ah.${hermes('weather', '{"city": "Rome"}')}${hermes('clock', '{}')}`;
  const cuts = [2, 20, 50, 56, 64, 90, answer.length];
  const pieces = cuts.map((cut, at) => bytes(answer.slice(at === 0 ? 0 : cuts[at - 1], cut)));
  app.runner.script = [...pieces, [EOS_ID]];
  const response = await ask(app, { tools, stream: true, n: 2 });
  const deltas: [Delta[], Delta[]] = [[], []];
  const reasons: (string | null)[] = [];
  for await (const { data } of readEvents(response)) {
    if (data === '[DONE]') continue;
    for (const { index, delta, finish_reason } of (JSON.parse(data) as Chunk).choices) {
      deltas[index]?.push(delta);
      if (finish_reason !== null) reasons.push(finish_reason);
    }
  }
  assert.equal(reasons, ['tool_calls', 'tool_calls']);
  for (const [choice, of] of deltas.entries()) {
    const ids = JSON.stringify(of).match(/call_[0-9a-f]{24}_\d_\d/g) ?? [];
    assert.is(ids.length, 2);
    assert.ok(ids[0]?.endsWith(`_${choice}_0`) && ids[1]?.endsWith(`_${choice}_1`), ids.join());
    const [first, second] = ids.map((id) => ({ id, type: 'function' }));
    assert.equal(of, [
      { role: 'assistant', content: '' },
      { content: 'Ah' },
      { content: '.' },
      { tool_calls: [{ index: 0, ...first, function: { name: 'weather', arguments: '{"' } }] },
      { tool_calls: [{ index: 0, function: { arguments: 'city":' } }] },
      { tool_calls: [{ index: 0, function: { arguments: ' "Rome"}' } }] },
      { tool_calls: [{ index: 1, ...second, function: { name: 'clock', arguments: '{}' } }] },
      {},
    ]);
  }
});

test('a history of calls and results reaches the template, arguments as values, each result with its name', async () => {
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  const called = { id: 'a', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } };
  const bare = { id: 'b', function: { name: 'clock', arguments: '' } };
  const messages = [
    user,
    { role: 'assistant', content: null, tool_calls: [called, bare] },
    { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: '12:30' }] },
    { role: 'tool', tool_call_id: 'a', content: 'Sun' },
  ];
  const response = await ask(app, { messages });
  assert.is(response.status, 200, await response.text());
  const calls = [
    { id: 'a', name: 'weather', arguments: { city: 'Rome' } },
    { id: 'b', name: 'clock', arguments: {} },
  ];
  const turns = [
    'user: Hi',
    `assistant: ${calls.map((call) => JSON.stringify(call)).join('')}`,
    'tool: 12:30{"id":"b","name":"clock"}',
    'tool: Sun{"id":"a","name":"weather"}',
  ];
  assert.equal(
    app.runner.requests[0]?.promptIds,
    turns.flatMap((turn) => [TURN_ID, ...bytes(turn)]),
  );
});

test('invalid tools, calls and results are refused by their place', async () => {
  const named = (name: string): object => ({ type: 'function', function: { name } });
  const tool = (more: object): object => ({ type: 'function', function: { name: 'f', ...more } });
  const turn = (called: object): object => ({ role: 'assistant', tool_calls: [called] });
  const result = { role: 'tool', tool_call_id: 'x', content: '' };
  const called = { id: 'x', function: { name: 'f', arguments: '{}' } };
  const many = Array.from({ length: 129 }, (_, index) => named(`f${index}`));
  const cases: [object, string, string][] = [
    [{ tools, tool_choice: named('sun') }, 'tool_choice', 'the tool "sun", which is not among tools'],
    [{ tools, tool_choice: 'always' }, 'tool_choice', 'must be "none", "auto", "required"'],
    [{ tool_choice: 'required' }, 'tool_choice', 'there are no tools'],
    [{ tools: [], tool_choice: named('f') }, 'tool_choice', 'there are no tools'],
    [{ tools: [weather, weather] }, 'tools.1.function.name', 'the name of another tool'],
    [{ tools: [named('a b')] }, 'tools.0.function.name', '1 to 64 characters'],
    [{ tools: many }, 'tools', 'at most 128'],
    [{ tools: [{ type: 'function' }] }, 'tools.0.function', 'is required'],
    [{ tools: [{ type: 'web_search' }] }, 'tools.0.type', 'is not supported'],
    [{ tools: [tool({ parameters: 'x' })] }, 'tools.0.function.parameters', 'must be a JSON Schema'],
    [
      { tools: [tool({ parameters: { type: 'string' } })] },
      'tools.0.function.parameters',
      'must describe an object',
    ],
    [{ tools, allowed_token_ids: [1] }, 'allowed_token_ids', 'unless tool_choice is "none"'],
    [{ tools, logprobs: true }, 'logprobs', 'exclude each other'],
    [{ messages: [user, result] }, 'messages.1.tool_call_id', 'is not the id of a tool call'],
    [{ messages: [user, { role: 'tool', content: '' }] }, 'messages.1.tool_call_id', 'is required'],
    [{ messages: [turn(called), { ...result, content: undefined }] }, 'messages.1.content', 'is required'],
    [{ messages: [{ ...user, tool_calls: [called] }] }, 'messages.0.tool_calls', 'the role "assistant"'],
    [{ messages: [{ ...user, tool_call_id: 'x' }] }, 'messages.0.tool_call_id', 'the role "tool"'],
    [
      { messages: [turn({ ...called, function: { name: 'f', arguments: '{"a":' } })] },
      'messages.0.tool_calls.0.function.arguments',
      'must be an object as JSON text',
    ],
    [
      { messages: [turn({ ...called, function: { name: 'f', arguments: '[]' } })] },
      'messages.0.tool_calls.0.function.arguments',
      'must be an object as JSON text',
    ],
    [{ tools: [tool({ parameters: { enum: ['x'.repeat(2 ** 18)] } })] }, 'tools', 'bytes as a grammar'],
    [
      { tools, guided_regex: 'x'.repeat(2 ** 18 - 8) },
      'tools',
      'tools, together with the format of an answer without a tool call, must have at most',
    ],
  ];
  for (const [body, param, words] of cases) {
    const refusal = await refusalOf(testApp(), body);
    assert.is(refusal.param, param, refusal.message);
    assert.match(refusal.message, words);
  }
});

test('a template without a known tool format is refused with the known ones', async () => {
  const none = await refusalOf(appOf('none'), { tools });
  assert.equal([none.param, none.code], ['tools', 'unsupported_parameter']);
  assert.match(none.message, 'The chat template of the model "bytes" does not support tools');
  const called = { id: 'x', function: { name: 'f', arguments: '{}' } };
  const history = [user, { role: 'assistant', tool_calls: [called] }];
  assert.match((await refusalOf(appOf('none'), { messages: history })).message, 'does not support tools');
  assert.match((await refusalOf(appOf('unknown'), { tools })).message, 'those of Hermes and Qwen');
  const controlLiterals = ['</parameter>'];
  const app = appOf(qwenXmlFormat, { ...byteTokenizer, controlLiterals });
  assert.match((await refusalOf(app, { tools })).message, 'writes </parameter> as a control token');
});

test('Mistral’s: control tokens begin a call, and their text in other tokens does not', async () => {
  const app = appOf(mistralFormat, markedTokenizer);
  const call = [CALLS_ID, ...bytes('weather'), ARGS_ID, ...bytes('{"city": "Rome"}')];
  app.runner.script = [
    bytes('[TOOL_CALLS]x[ARGS]{} '),
    call,
    [CALLS_ID, ...bytes('clock'), ARGS_ID],
    bytes('{}'),
    [EOS_ID],
  ];
  const { message } = await choiceOf(await ask(app, { tools }));
  assert.is(message.content, '[TOOL_CALLS]x[ARGS]{} ');
  assert.equal(
    message.tool_calls?.map((each) => each.function),
    [
      { name: 'weather', arguments: '{"city": "Rome"}' },
      { name: 'clock', arguments: '{}' },
    ],
  );
  const { tags: sent, ...auto } = (await formatSent({ tools }, appOf(mistralFormat, markedTokenizer))) as {
    tags: object[];
  };
  assert.equal(auto, {
    ...{ type: 'token_triggered_tags', trigger_tokens: [CALLS_ID], exclude_tokens: [ARGS_ID] },
    stop_after_first: false,
  });
  const content = { type: 'json_schema', json_schema: parameters, max_whitespace_cnt: 20 };
  assert.equal(sent[0], {
    type: 'tag',
    begin: { type: 'token', token: CALLS_ID },
    content: {
      type: 'sequence',
      elements: [{ type: 'const_string', value: 'weather' }, { type: 'token', token: ARGS_ID }, content],
    },
    end: '',
  });
  assert.equal(await formatSent({ tools, tool_choice: 'none' }, appOf(mistralFormat, markedTokenizer)), {
    type: 'any_tokens',
    exclude_tokens: [CALLS_ID, ARGS_ID],
  });
});

test('Mistral’s with ids: a call has one of 9 letters and digits, which clients do not get', async () => {
  const app = appOf(mistralIdFormat, markedTokenizer);
  const call = (name: string, given: string) => [
    ...[CALLS_ID, ...bytes(name), CALL_ID_ID, ...bytes('aB3456789'), ARGS_ID],
    ...bytes(given),
  ];
  app.runner.script = [call('weather', '{"city": "Rome"}'), call('clock', '{}'), [EOS_ID]];
  const { message } = await choiceOf(await ask(app, { tools }));
  assert.is(message.content, null);
  assert.equal(
    message.tool_calls?.map((each) => each.function),
    [
      { name: 'weather', arguments: '{"city": "Rome"}' },
      { name: 'clock', arguments: '{}' },
    ],
  );
  for (const each of message.tool_calls ?? []) assert.match(each.id, /^call_/);
  const { tags: sent, ...auto } = (await formatSent({ tools }, appOf(mistralIdFormat, markedTokenizer))) as {
    tags: object[];
  };
  assert.equal(auto, {
    ...{ type: 'token_triggered_tags', trigger_tokens: [CALLS_ID] },
    ...{ exclude_tokens: [CALL_ID_ID, ARGS_ID], stop_after_first: false },
  });
  assert.equal(sent[0], {
    type: 'tag',
    begin: { type: 'token', token: CALLS_ID },
    content: {
      type: 'sequence',
      elements: [
        { type: 'const_string', value: 'weather' },
        { type: 'token', token: CALL_ID_ID },
        { type: 'regex', pattern: '[a-zA-Z0-9]{9}' },
        { type: 'token', token: ARGS_ID },
        { type: 'json_schema', json_schema: parameters, max_whitespace_cnt: 20 },
      ],
    },
    end: '',
  });
});

test('GLM 4.7’s: names end where arguments or the call do', async () => {
  const app = appOf(glm47Format);
  const called = '<tool_call>weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call>';
  app.runner.script = [bytes(`${called}<tool_call>clock</tool_call>`), [EOS_ID]];
  const { message } = await choiceOf(await ask(app, { tools }));
  assert.equal(
    message.tool_calls?.map((each) => each.function),
    [
      { name: 'weather', arguments: '{"city": "Rome"}' },
      { name: 'clock', arguments: '{}' },
    ],
  );
  const { tags: sent } = (await formatSent({ tools, tool_choice: 'required' }, appOf(glm47Format))) as {
    tags: object[];
  };
  const end = '</arg_value>';
  const city = {
    type: 'tag',
    begin: '<arg_key>city</arg_key><arg_value>',
    content: { type: 'any_text', excludes: [end] },
    end,
  };
  assert.equal(sent, [
    {
      type: 'tag',
      begin: '<tool_call>weather',
      content: { type: 'sequence', elements: [city] },
      end: '</tool_call>',
    },
    {
      type: 'tag',
      begin: '<tool_call>clock',
      content: { type: 'const_string', value: '' },
      end: '</tool_call>',
    },
  ]);
});

test('Mistral’s list: it holds all calls, and nothing follows it', async () => {
  const app = appOf(mistralListFormat(), markedTokenizer);
  const list = bytes('[{"name": "clock", "arguments": {}}, {"name": "weather", "arguments": {"city": "B"}}]');
  app.runner.script = [bytes('So: '), [CALLS_ID, ...list], [EOS_ID]];
  const { message } = await choiceOf(await ask(app, { tools }));
  assert.is(message.content, 'So: ');
  assert.equal(
    message.tool_calls?.map((each) => each.function),
    [
      { name: 'clock', arguments: '{}' },
      { name: 'weather', arguments: '{"city": "B"}' },
    ],
  );
  const tag = (await formatSent({ tools }, appOf(mistralListFormat(), markedTokenizer))) as {
    tags: { end: string }[];
    stop_after_first: boolean;
  };
  assert.equal([tag.tags.length, tag.tags[0]?.end, tag.stop_after_first], [1, ']', true]);
});

test('arguments by themselves: texts as they are, all else as JSON', async () => {
  const app = appOf(qwenXmlFormat);
  const called =
    '<tool_call>\n<function=weather>\n<parameter=city>\nNew "York"\n</parameter>\n</function>\n</tool_call>';
  app.runner.script = [bytes(called), [EOS_ID]];
  const { message } = await choiceOf(await ask(app, { tools }));
  assert.equal(message.tool_calls?.[0]?.function, {
    name: 'weather',
    arguments: '{"city": "New \\"York\\""}',
  });
  const { tags: sent } = (await formatSent({ tools }, appOf(qwenXmlFormat))) as { tags: object[] };
  const end = '\n</parameter>\n';
  const city = {
    type: 'tag',
    begin: '<parameter=city>\n',
    content: { type: 'any_text', excludes: [end] },
    end,
  };
  assert.equal(sent, [
    {
      type: 'tag',
      begin: '<tool_call>\n<function=weather>\n',
      content: { type: 'sequence', elements: [city] },
      end: '</function>\n</tool_call>',
    },
    {
      type: 'tag',
      begin: '<tool_call>\n<function=clock>\n',
      content: { type: 'const_string', value: '' },
      end: '</function>\n</tool_call>',
    },
  ]);
  const twice = (name: string) => Array(2).fill({ $ref: `#/$defs/${name}` });
  const doubling = Object.fromEntries(
    Array.from({ length: 20 }, (_, i) => [i, { anyOf: twice(String(i + 1)) }]),
  );
  const recursive = { type: 'object', anyOf: [{ $ref: '#' }] };
  for (const [schema, why] of [
    [recursive, 'refers to nothing, or to itself'],
    [
      { type: 'object', properties: { a: { anyOf: twice('0') } }, $defs: doubling },
      'has more than 4096 schemas',
    ],
    [{ type: 'object', minProperties: 1 }, 'has minProperties'],
  ] as const) {
    const sentTools = [{ type: 'function', function: { name: 'f', parameters: schema } }];
    assert.match((await refusalOf(appOf(qwenXmlFormat), { tools: sentTools })).message, why);
  }
});

test('Llama’s: one call is a whole answer, and no other text begins as one', async () => {
  const app = appOf(llamaFormat);
  app.runner.script = [bytes('{"name": "weather", "parameters": {"city": "Rome"}}'), [EOS_ID]];
  const { message, finish_reason } = await choiceOf(await ask(app, { tools, tool_choice: 'required' }));
  assert.equal(message.tool_calls?.[0]?.function, { name: 'weather', arguments: '{"city": "Rome"}' });
  assert.is(finish_reason, 'tool_calls');
  const { type, elements } = (await formatSent({ tools }, appOf(llamaFormat))) as {
    type: string;
    elements: { type: string; begin?: string }[];
  };
  assert.is(type, 'or');
  assert.equal(
    elements.map((each) => each.begin ?? each.type),
    ['{"name": "weather", "parameters": ', '{"name": "clock", "parameters": ', 'grammar'],
  );
});

test.run();
