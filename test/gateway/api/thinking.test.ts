import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ChatMessage } from '../../../gateway/prompt/chat-template.ts';
import { type TestApp, testApp } from '../../fixtures/app.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { readEvents } from '../../fixtures/sse.ts';
import { type Rendered, thinkingModel } from '../../fixtures/thinking-model.ts';

/** Thinking in each API: what the template gets, what the runner may draw, and what clients receive. */

const test = suite('thinking');

const bytes = (text: string): number[] => [...Buffer.from(text)];
const user = { role: 'user', content: 'Hi' };
const LONG = `${'.'.repeat(40)}`;

/** An app whose model thinks. promptEnd: the end of its prompts; rendered: what its template got. */
function thinkingApp(promptEnd = '<think>\n'): TestApp & { rendered: Rendered[] } {
  const rendered: Rendered[] = [];
  const model = thinkingModel((told) => {
    rendered.push(told);
    return LONG + promptEnd;
  });
  return { ...testApp({ model: () => model }), rendered };
}

function says(app: TestApp, ...steps: string[]): void {
  app.runner.script = [...steps.map(bytes), [EOS_ID]];
}

/** The data of a stream's events, without [DONE]. */
async function dataOf(response: Response) {
  const found = [];
  for await (const { data } of readEvents(response)) if (data !== '[DONE]') found.push(JSON.parse(data));
  return found;
}

async function ok(response: Response): Promise<string> {
  const body = await response.text();
  assert.is(response.status, 200, body);
  return body;
}

type Json = Record<string, unknown>;

const noReasoning = (field: string): string => `does not support reasoning, so ${field} cannot be used`;

const chat = (app: TestApp, more: object = {}, messages: readonly object[] = [user]) =>
  app.post('/v1/chat/completions', { model: 'bytes', messages, ...more });

function promptOf({ runner }: TestApp): string {
  const [, ...ids] = runner.requests.at(-1)?.promptIds ?? [];
  return Buffer.from(ids).toString().replace(LONG, '');
}

test('a chat has its thinking in reasoning_content, whole or streamed', async () => {
  const app = thinkingApp();
  says(app, 'Hm', ', so.\n</thi', 'nk>\n\nIt', ' is.');
  const { choices, usage } = JSON.parse(await ok(await chat(app)));
  assert.equal(choices[0].message, {
    role: 'assistant',
    content: 'It is.',
    refusal: null,
    reasoning_content: 'Hm, so.',
  });
  assert.equal(usage.completion_tokens_details, { reasoning_tokens: 'Hm, so.\n</think>'.length });
  const stream = await chat(app, { stream: true, stream_options: { include_usage: true } });
  const parsed = await dataOf(stream);
  assert.equal(
    parsed.flatMap((chunk) => chunk.choices.map(({ delta }: { delta: object }) => delta)),
    [
      { role: 'assistant', content: '' },
      { reasoning_content: 'Hm' },
      { reasoning_content: ', so.' },
      { content: 'It' },
      { content: ' is.' },
      {},
    ],
  );
  assert.equal(parsed.at(-1).usage.completion_tokens_details, { reasoning_tokens: 16 });
});

test('an answer that does not think says that nothing was thought; of a model that never does, nothing is said', async () => {
  const app = thinkingApp('');
  says(app, 'It is.');
  const { choices, usage } = JSON.parse(await ok(await chat(app)));
  assert.equal(
    [choices[0].message.reasoning_content, usage.completion_tokens_details],
    [undefined, { reasoning_tokens: 0 }],
  );
  const other = testApp();
  says(other, '<think>so</think>It is.');
  const answer = JSON.parse(await ok(await chat(other)));
  assert.is(answer.choices[0].message.content, '<think>so</think>It is.');
  assert.is(answer.usage.completion_tokens_details, undefined);
});

test('each reasoning switch reaches the template, and an off switch closes the block', async () => {
  for (const [more, variables] of [
    [{}, {}],
    [{ reasoning_effort: 'none' }, { enable_thinking: false, thinking: false }],
    [{ reasoning_effort: 'low' }, { enable_thinking: true, thinking: true, reasoning_effort: 'low' }],
    [{ chat_template_kwargs: { enable_thinking: false } }, { enable_thinking: false, thinking: false }],
    [{ reasoning_budget: 0 }, { enable_thinking: false, thinking: false }],
    [{ reasoning_budget: -1 }, {}],
  ] as const) {
    for (const [promptEnd, closed] of [
      ['<think>\n', '<think>\n\n</think>\n\n'],
      ['<think>', '<think>\n\n</think>\n\n'],
      ['', '<think>\n\n</think>\n\n'],
      ['<think></think>', '<think></think>'],
    ] as const) {
      const app = thinkingApp(promptEnd);
      says(app, 'It is.');
      const answer = JSON.parse(await ok(await chat(app, more)));
      assert.equal(app.rendered[0]?.options.variables, variables);
      const isOff = 'enable_thinking' in variables && !variables.enable_thinking;
      assert.is(promptOf(app), isOff ? closed : promptEnd);
      const isThought = promptEnd.endsWith('<think>') || promptEnd.endsWith('\n');
      const thought = isThought && !isOff ? 'It is.' : undefined;
      assert.is(answer.choices[0].message.reasoning_content, thought);
    }
  }
});

test('fields that contradict each other are refused by name, and wishes that a model cannot follow', async () => {
  const refused = async (app: TestApp, more: object): Promise<string> => {
    const response = await chat(app, more);
    assert.is(response.status, 400);
    assert.is(app.runner.requests.length, 0);
    return ((await response.json()) as { error: { param: string } }).error.param;
  };
  const kwargs = { chat_template_kwargs: { enable_thinking: true } };
  assert.is(await refused(thinkingApp(), { reasoning_effort: 'none', ...kwargs }), 'chat_template_kwargs');
  assert.is(
    await refused(thinkingApp(), { reasoning_effort: 'none', thinking_budget: 5 }),
    'thinking_budget',
  );
  assert.is(
    await refused(thinkingApp(), { thinking_budget: 5, thinking_token_budget: 5 }),
    'thinking_budget',
  );
  assert.is(await refused(thinkingApp(), { reasoning_effort: 'much' }), 'reasoning_effort');
  assert.is(await refused(testApp(), { thinking_budget: 5 }), 'thinking_budget');
  const plain = testApp();
  says(plain, 'It is.');
  await ok(await chat(plain, { reasoning_effort: 'none', reasoning_budget: -1 }));
});

test('a thinking budget reaches the runner with end tokens and a thinking detector', async () => {
  for (const name of ['thinking_token_budget', 'thinking_budget', 'reasoning_budget']) {
    const app = thinkingApp('');
    says(app, 'It is.');
    await ok(await chat(app, { [name]: 7 }));
    const limit = app.runner.requests[0]?.thinkingLimit;
    assert.ok(limit);
    assert.equal([limit.maxTokens, limit.endIds], [7, bytes('</think>')]);
    const told = ['', '<thi', '<think>', '<think>so', '<think>so</think>', 'so'].map((text) =>
      limit.isThinking(bytes(text)),
    );
    assert.equal(told, [undefined, undefined, true, true, false, false]);
  }
  const app = thinkingApp('<think></think>');
  says(app, 'It is.');
  await ok(await chat(app, { thinking_budget: 7 }));
  assert.is(app.runner.requests[0]?.thinkingLimit, undefined, 'its prompt says that it does not think');
});

test('a response and an answer of Ollama’s have a budget too, by the same rules', async () => {
  const response = { path: '/v1/responses', body: { model: 'bytes', input: 'Hi' } };
  const answer = { path: '/api/chat', body: { model: 'bytes', messages: [user], stream: false } };
  const text = { path: '/api/generate', body: { model: 'bytes', prompt: 'Hi', stream: false } };
  const option = (tokens: number) => ({ options: { thinking_token_budget: tokens } });
  for (const [{ path, body }, more] of [
    [response, { thinking_token_budget: 7 }],
    [response, { thinking_budget: 7, reasoning: { effort: 'low' } }],
    [response, { reasoning_budget: 7 }],
    [answer, option(7)],
    [answer, { ...option(7), think: 'low' }],
    [text, option(7)],
  ] as const) {
    const app = thinkingApp();
    says(app, 'It is.');
    await ok(await app.post(path, { ...body, ...more }));
    const limit = app.runner.requests[0]?.thinkingLimit;
    assert.equal([limit?.maxTokens, limit?.endIds], [7, bytes('</think>')], path);
  }
  for (const [{ path, body }, more] of [
    [response, { thinking_token_budget: 0 }],
    [answer, option(0)],
    [text, option(0)],
    [response, { thinking_token_budget: -1, reasoning: { effort: 'none' } }],
    [answer, { ...option(-1), think: false }],
  ] as const) {
    const app = thinkingApp();
    says(app, 'It is.');
    await ok(await app.post(path, { ...body, ...more }));
    assert.is(app.runner.requests[0]?.thinkingLimit, undefined);
    assert.is(promptOf(app), '<think>\n\n</think>\n\n', path);
  }
  const ofOllama = 'options.thinking_token_budget';
  for (const [app, { path, body }, more, field] of [
    [thinkingApp(), response, { thinking_token_budget: 7, thinking_budget: 7 }, 'thinking_budget'],
    [thinkingApp(), response, { thinking_budget: 7, reasoning: { effort: 'none' } }, 'thinking_budget'],
    [thinkingApp(), response, { thinking_budget: 0, reasoning: { effort: 'low' } }, 'thinking_budget'],
    [thinkingApp(), response, { thinking_token_budget: -2 }, 'thinking_token_budget'],
    [thinkingApp(), answer, { ...option(7), think: false }, ofOllama],
    [thinkingApp(), text, { ...option(0), think: true }, ofOllama],
    [thinkingApp(), text, { ...option(7), raw: true }, `${ofOllama} cannot be used with raw`],
    [testApp(), response, { thinking_token_budget: 7 }, noReasoning('thinking_token_budget')],
    [testApp(), answer, option(7), noReasoning(ofOllama)],
    [testApp(), text, option(7), noReasoning(ofOllama)],
  ] as const) {
    const refused = await app.post(path, { ...body, ...more });
    assert.is(refused.status, 400, JSON.stringify(more));
    assert.match(await refused.text(), field);
    assert.is(app.runner.requests.length, 0);
  }
});

const thought = { type: 'tag', begin: '', content: { type: 'any_text' }, end: '</think>' };
const breaks = { type: 'regex', pattern: '\\n{0,2}' };

test('a grammar applies after the thinking', async () => {
  const formatOf = async (more: object, promptEnd?: string): Promise<unknown> => {
    const app = thinkingApp(promptEnd);
    says(app, 'It is.');
    await ok(await chat(app, more));
    const grammar = app.runner.requests[0]?.grammar;
    assert.is(grammar?.kind, 'structural_tag');
    return JSON.parse(grammar?.source ?? '').format;
  };
  const behind = (answer: object) => ({ type: 'sequence', elements: [thought, breaks, answer] });
  const regex = { type: 'regex', pattern: 'a+' };
  assert.equal(await formatOf({ guided_regex: 'a+' }), behind(regex));
  const free = { ...thought, begin: '<think>' };
  assert.equal(await formatOf({ guided_regex: 'a+' }, ''), {
    type: 'or',
    elements: [{ type: 'sequence', elements: [free, breaks, regex] }, regex],
  });
  const grammar = 'root ::= "a" | "b"';
  assert.equal(await formatOf({ guided_choice: ['a', 'b'] }), behind({ type: 'grammar', grammar }));
  const json = (json_schema: unknown) => behind({ type: 'json_schema', json_schema, max_whitespace_cnt: 20 });
  assert.equal(
    await formatOf({ response_format: { type: 'json_object' } }),
    json({ additionalProperties: true, type: 'object' }),
  );
  const schema = {
    type: 'object',
    properties: { a: { type: 'array', prefixItems: [{}] }, b: { const: null }, free: { type: 'object' } },
  };
  const asked = (strict: boolean) => ({
    response_format: { type: 'json_schema', json_schema: { name: 'x', schema, strict } },
  });
  assert.equal(await formatOf(asked(true)), json(schema));
  const open = { additionalProperties: true, type: 'object' };
  assert.equal(
    await formatOf(asked(false)),
    json({ ...schema, properties: { ...schema.properties, free: open } }),
  );
  const tools = [{ type: 'function', function: { name: 'f' } }];
  const calls = (await formatOf({ tools })) as { elements: Json[] };
  assert.equal(calls.elements.slice(0, 2), [thought, breaks]);
  assert.equal([calls.elements[2]?.type, calls.elements[2]?.triggers], ['triggered_tags', ['<tool_call>']]);
  const either = (await formatOf({ tools, guided_regex: 'a+' })) as { elements: Json[] };
  assert.equal(either.elements.slice(0, 2), [thought, breaks]);
  const { type, elements } = either.elements[2] as { type: string; elements: Json[] };
  assert.equal([type, elements[1]], ['or', regex]);
});

test('tool calls are parsed after the thinking, not within it', async () => {
  const app = thinkingApp();
  const call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>';
  says(app, `Shall I ${call}?\n</think>\n\n${call}`);
  const tools = [{ type: 'function', function: { name: 'f' } }];
  const { choices } = JSON.parse(await ok(await chat(app, { tools })));
  const { message, finish_reason } = choices[0];
  assert.equal([message.reasoning_content, message.content], [`Shall I ${call}?`, null]);
  assert.equal([message.tool_calls.length, finish_reason], [1, 'tool_calls']);
});

test('reasoning_format "none" leaves the thinking in the text', async () => {
  const app = thinkingApp();
  says(app, 'so</think>\n\nIt is.');
  const { choices } = JSON.parse(await ok(await chat(app, { reasoning_format: 'none' })));
  assert.is(choices[0].message.content, 'so</think>\n\nIt is.');
});

test('earlier reasoning goes back to the template, by each API', async () => {
  const app = thinkingApp();
  const expected: ChatMessage[] = [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: 'Ho', reasoning: 'Hm' },
    { role: 'user', content: 'Hi' },
  ];
  says(app, 'x');
  await ok(await chat(app, {}, [user, { role: 'assistant', content: 'Ho', reasoning_content: 'Hm' }, user]));
  await ok(await chat(app, {}, [user, { role: 'assistant', content: 'Ho', reasoning: 'Hm' }, user]));
  const blocks = [
    { type: 'thinking', thinking: 'Hm', signature: 'x' },
    { type: 'text', text: 'Ho' },
  ];
  const body = {
    model: 'bytes',
    max_tokens: 9,
    messages: [user, { role: 'assistant', content: blocks }, user],
  };
  await ok(await app.post('/v1/messages', body));
  const said = { role: 'assistant', content: 'Ho', thinking: 'Hm' };
  await ok(await app.post('/api/chat', { model: 'bytes', messages: [user, said, user], stream: false }));
  const item = {
    type: 'reasoning',
    id: 'rs_1',
    summary: [],
    content: [{ type: 'reasoning_text', text: 'Hm' }],
  };
  const input = [user, item, { role: 'assistant', content: 'Ho' }, user];
  await ok(await app.post('/v1/responses', { model: 'bytes', input }));
  assert.equal(
    app.rendered.map(({ messages }) => messages),
    Array.from({ length: 5 }, () => expected),
  );
  const wrong = await chat(app, {}, [{ ...user, reasoning_content: 'Hm' }]);
  assert.match(await wrong.text(), 'is allowed only in messages with the role \\"assistant\\"');
});

test('an Anthropic message thinks on request, in a separate block', async () => {
  const app = thinkingApp();
  const body = { model: 'bytes', max_tokens: 100, messages: [user] };
  says(app, 'Hm', '\n</think>\n\nIt is.');
  const thinking = { type: 'enabled', budget_tokens: 50 };
  const whole = JSON.parse(await ok(await app.post('/v1/messages', { ...body, thinking })));
  const signature = `sig_${whole.id.slice('msg_'.length)}`;
  assert.equal(whole.content, [
    { type: 'thinking', thinking: 'Hm', signature },
    { type: 'text', text: 'It is.' },
  ]);
  assert.is(app.runner.requests[0]?.thinkingLimit?.maxTokens, 50);
  const stream = await app.post('/v1/messages', { ...body, thinking: { type: 'adaptive' }, stream: true });
  const events = await dataOf(stream);
  const blocks = events.filter(({ type }) => type.startsWith('content_block'));
  const [id] = events.map(({ message }) => message?.id);
  assert.equal(
    blocks.map(({ index, content_block, delta }) => [index, content_block ?? delta ?? 'stop']),
    [
      [0, { type: 'thinking', thinking: '', signature: '' }],
      [0, { type: 'thinking_delta', thinking: 'Hm' }],
      [0, { type: 'signature_delta', signature: `sig_${id.slice('msg_'.length)}` }],
      [0, 'stop'],
      [1, { type: 'text', text: '' }],
      [1, { type: 'text_delta', text: 'It is.' }],
      [1, 'stop'],
    ],
  );
  assert.is(app.runner.requests[1]?.thinkingLimit, undefined);
  says(app, 'It is.');
  for (const more of [{}, { thinking: { type: 'disabled' } }]) {
    const { content } = JSON.parse(await ok(await app.post('/v1/messages', { ...body, ...more })));
    assert.equal(content, [{ type: 'text', text: 'It is.' }]);
    assert.is(promptOf(app), '<think>\n\n</think>\n\n');
  }
  const tooMuch = { thinking: { type: 'enabled', budget_tokens: 100 } };
  const refused = await app.post('/v1/messages', { ...body, ...tooMuch });
  assert.match(await refused.text(), 'thinking.budget_tokens must be less than max_tokens, which is 100');
  const other = await testApp().post('/v1/messages', { ...body, thinking });
  assert.match(await other.text(), noReasoning('thinking'));
});

test('an Ollama answer has a separate thinking field unless think is false', async () => {
  const app = thinkingApp();
  const body = { model: 'bytes', messages: [user], stream: false };
  says(app, 'Hm', '\n</think>\n\nIt is.');
  const { message } = JSON.parse(await ok(await app.post('/api/chat', body)));
  assert.equal(message, { role: 'assistant', content: 'It is.', thinking: 'Hm' });
  const stream = await ok(await app.post('/api/chat', { ...body, think: 'high', stream: true }));
  const lines = stream
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).message);
  assert.equal(lines, [
    { role: 'assistant', content: '', thinking: 'Hm' },
    { role: 'assistant', content: 'It is.' },
    { role: 'assistant', content: '' },
  ]);
  assert.is(app.rendered[1]?.options.variables?.reasoning_effort, 'high');
  const generated = await ok(
    await app.post('/api/generate', { model: 'bytes', prompt: 'Hi', stream: false, think: true }),
  );
  const { response, thinking } = JSON.parse(generated);
  assert.equal([response, thinking], ['It is.', 'Hm']);
  says(app, 'It is.');
  const off = JSON.parse(await ok(await app.post('/api/chat', { ...body, think: false })));
  assert.equal(off.message, { role: 'assistant', content: 'It is.' });
  for (const [path, more] of [
    ['/api/chat', { messages: [user] }],
    ['/api/generate', { prompt: 'Hi' }],
  ] as const) {
    const refused = await testApp().post(path, { model: 'bytes', ...more, think: true });
    assert.match(await refused.text(), noReasoning('think'));
  }
  const shown = JSON.parse(await ok(await app.post('/api/show', { model: 'bytes' })));
  assert.ok(shown.capabilities.includes('thinking'));
  const raw = await app.post('/api/generate', { model: 'bytes', prompt: 'Hi', raw: true, think: true });
  assert.match(await raw.text(), 'think cannot be used with raw');
});

test('a response has a thinking item before its message', async () => {
  const app = thinkingApp();
  const body = { model: 'bytes', input: 'Hi' };
  says(app, 'Hm', '\n</think>\n\nIt is.');
  const whole = JSON.parse(await ok(await app.post('/v1/responses', body)));
  const [item, message] = whole.output;
  const content = [{ type: 'reasoning_text', text: 'Hm' }];
  assert.equal(item, { id: item.id, type: 'reasoning', status: 'completed', summary: [], content });
  assert.match(item.id, /^rs_/);
  assert.equal(
    message.content.map(({ text }: { text: string }) => text),
    ['It is.'],
  );
  assert.is(whole.usage.output_tokens_details.reasoning_tokens, 'Hm\n</think>'.length);
  const streamed = await app.post('/v1/responses', { ...body, stream: true, reasoning: { effort: 'low' } });
  const events = await dataOf(streamed);
  assert.equal(
    events.map(({ type, output_index: index = '' }) => `${type.slice('response.'.length)} ${index}`.trim()),
    [
      ...['created', 'in_progress', 'output_item.added 0', 'content_part.added 0', 'reasoning_text.delta 0'],
      ...['reasoning_text.done 0', 'content_part.done 0', 'output_item.done 0', 'output_item.added 1'],
      ...['content_part.added 1', 'output_text.delta 1', 'output_text.done 1', 'content_part.done 1'],
      ...['output_item.done 1', 'completed'],
    ],
  );
  const { response } = events.at(-1);
  assert.equal(response.reasoning, { effort: 'low', summary: null });
  assert.equal(
    events.filter(({ type }) => type === 'response.output_item.done').map(({ item: done }) => done),
    response.output,
  );
});

test('an effort is ignored by a model that does not think, and so is thinking that is turned off', async () => {
  const response = { path: '/v1/responses', body: { model: 'bytes', input: 'Hi' } };
  const completion = { path: '/v1/chat/completions', body: { model: 'bytes', messages: [user] } };
  for (const [{ path, body }, more, ignored] of [
    [response, { reasoning: { effort: 'low' } }, 'reasoning.effort'],
    [completion, { reasoning_effort: 'high' }, 'reasoning_effort'],
    [completion, { reasoning_effort: 'none', user: 'me' }, 'user, reasoning_effort'],
    [completion, { enable_thinking: false }, 'enable_thinking'],
  ] as const) {
    const app = testApp();
    says(app, 'It is.');
    const answer = await app.post(path, { ...body, ...more });
    assert.is(answer.status, 200, await answer.text());
    assert.is(answer.headers.get('x-runnel-ignored'), ignored);
    const thinker = thinkingApp();
    says(thinker, 'so</think>It is.');
    const obeyed = await thinker.post(path, { ...body, ...more });
    await ok(obeyed);
    assert.is(obeyed.headers.get('x-runnel-ignored'), 'user' in more ? 'user' : null);
    const { variables = {} } = thinker.rendered[0]?.options ?? {};
    assert.is(variables.enable_thinking, !/none|false/.test(JSON.stringify(more)));
  }
  const refused = await chat(testApp(), { enable_thinking: true });
  assert.is(refused.status, 400);
  assert.match(await refused.text(), noReasoning('enable_thinking'));
  const contrary = await chat(thinkingApp(), { enable_thinking: false, reasoning_effort: 'low' });
  assert.match(await contrary.text(), 'enable_thinking and reasoning_effort contradict each other');
});

test('an answer that ends while thinking has an empty text in each format', async () => {
  const app = thinkingApp();
  says(app, 'Hm');
  const { choices } = JSON.parse(await ok(await chat(app)));
  assert.equal([choices[0].message.reasoning_content, choices[0].message.content], ['Hm', '']);
  const thinking = { type: 'adaptive' };
  for (const stream of [true, false]) {
    const body = { model: 'bytes', max_tokens: 9, messages: [user], thinking, stream };
    const told = await ok(await app.post('/v1/messages', body));
    assert.match(told, '"text":""');
    const response = await ok(await app.post('/v1/responses', { model: 'bytes', input: 'Hi', stream }));
    assert.match(response, '"text":"Hm"');
    assert.match(response, '"text":""');
  }
});

test.run();
