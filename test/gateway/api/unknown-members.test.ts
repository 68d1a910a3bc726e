import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type TestApp, testApp } from '../../fixtures/app.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';

/** Members that nothing knows: below the top level they are ignored and named, unless they may change the answer. */

const test = suite('unknown members');

const user = { role: 'user', content: 'Hi' };
const schema = { type: 'object', properties: { a: { type: 'string' } } };
const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } };

interface Route {
  readonly path: string;
  readonly base: object;
}

const CHAT: Route = { path: '/v1/chat/completions', base: { messages: [user] } };
const COMPLETION: Route = { path: '/v1/completions', base: { prompt: 'Hi' } };
const RESPONSE: Route = { path: '/v1/responses', base: { input: 'Hi' } };
const MESSAGE: Route = { path: '/v1/messages', base: { messages: [user], max_tokens: 9 } };
const OLLAMA: Route = { path: '/api/chat', base: { messages: [user], stream: false } };

async function ask({ path, base }: Route, more: object): Promise<{ app: TestApp; response: Response }> {
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  return { app, response: await app.post(path, { model: 'bytes', ...base, ...more }) };
}

/** An object with members that are not known. */
function strange<T extends object>(object: T): T {
  return { ...object, displayTitle: 'F', 'a b\n': 1, nothing: null };
}

const TOLD = (...places: string[]) =>
  places.flatMap((place) => [`${place}.displayTitle`, `${place}.?`]).join(', ');

test('unknown members of messages, parts, calls and tools are ignored and named', async () => {
  const parts = [strange({ type: 'text', text: 'Hi' })];
  const cases: readonly [Route, object, string][] = [
    [CHAT, { stream_options: strange({}), stream: true }, TOLD('stream_options')],
    [CHAT, { messages: [strange(user), { ...user, content: parts }] }, TOLD('messages', 'messages.content')],
    [
      CHAT,
      { tools: [strange({ type: 'function', function: strange({ name: 'f' }) })] },
      TOLD('tools', 'tools.function'),
    ],
    [
      CHAT,
      {
        messages: [
          user,
          { role: 'assistant', tool_calls: [strange({ ...call, function: strange(call.function) })] },
          { role: 'tool', tool_call_id: 'c', content: 'x' },
        ],
      },
      TOLD('messages.tool_calls', 'messages.tool_calls.function'),
    ],
    [
      RESPONSE,
      {
        input: [
          strange({ role: 'user', content: [strange({ type: 'input_text', text: 'Hi' })] }),
          strange({ type: 'reasoning', summary: [] }),
          strange({ type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }),
          strange({ type: 'function_call_output', call_id: 'c', output: 'x' }),
        ],
        tools: [strange({ type: 'function', name: 'f' })],
      },
      TOLD('tools', 'input', 'input.content'),
    ],
    [
      MESSAGE,
      {
        system: parts,
        messages: [
          strange({ role: 'user', content: parts }),
          { role: 'assistant', content: [strange({ type: 'tool_use', id: 'c', name: 'f', input: {} })] },
          { role: 'user', content: [strange({ type: 'tool_result', tool_use_id: 'c' })] },
        ],
        tools: [strange({ name: 'f', input_schema: schema })],
      },
      TOLD('tools', 'system', 'messages', 'messages.content'),
    ],
    [
      OLLAMA,
      {
        messages: [
          strange(user),
          { role: 'assistant', tool_calls: [strange({ function: strange({ name: 'f', arguments: {} }) })] },
          { role: 'tool', content: 'x' },
        ],
        tools: [strange({ type: 'function', function: { name: 'f' } })],
      },
      TOLD('messages', 'messages.tool_calls', 'messages.tool_calls.function', 'tools'),
    ],
  ];
  for (const [route, more, told] of cases) {
    const { response } = await ask(route, more);
    const body = await response.text();
    assert.is(response.status, 200, `${route.path}: ${body}`);
    assert.is(response.headers.get('x-runnel-ignored'), told, route.path);
  }
});

test('the header names at most 32 of them, and counts the others', async () => {
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`m${i}`, i]));
  const { response } = await ask(CHAT, { messages: [{ ...user, ...many }] });
  assert.is(response.status, 200);
  const names = Array.from({ length: 32 }, (_, i) => `messages.m${i}`);
  assert.is(response.headers.get('x-runnel-ignored'), `${names.join(', ')}, 8 more`);
});

test('unknown top-level fields are ignored and reported', async () => {
  for (const route of [CHAT, COMPLETION, RESPONSE]) {
    const { response } = await ask(route, { client_metadata: { a: 'b' }, intent: true });
    assert.is(response.status, 200, await response.text());
    assert.is(response.headers.get('x-runnel-ignored'), 'client_metadata, intent');
  }
});

test('a schema next to the type of response_format applies', async () => {
  for (const type of ['json_object', 'json_schema']) {
    const { app, response } = await ask(CHAT, { response_format: { type, schema } });
    assert.is(response.status, 200, await response.text());
    const source = JSON.stringify(schema);
    assert.equal(app.runner.requests[0]?.grammar, { kind: 'json_schema', source, strict: true });
  }
});

test('unknown fields that may change the answer are applied or refused by name', async () => {
  for (const [route, more, name] of [
    [CHAT, { response_format: { type: 'text', schema } }, 'response_format.schema'],
    [
      CHAT,
      { response_format: { type: 'json_schema', json_schema: { schema }, schema } },
      'response_format.schema',
    ],
    [CHAT, { response_format: { type: 'json_object', pattern: 'a' } }, 'response_format.pattern'],
    [
      CHAT,
      { response_format: { type: 'json_schema', json_schema: { schema, pattern: 'a' } } },
      'response_format.json_schema.pattern',
    ],
    [CHAT, { structured_outputs: { regex: 'a', whitespace_pattern: ' ' } }, 'structured_outputs.whitespace'],
    [CHAT, { guided_whitespace_pattern: ' ' }, 'guided_whitespace_pattern'],
    [CHAT, { guided_decoding_backend: 'outlines' }, 'guided_decoding_backend'],
    [CHAT, { messages: [user, { role: 'assistant', content: 'A', prefix: true }] }, 'messages.1.prefix'],
    [CHAT, { messages: [{ ...user, images: ['x'] }] }, 'messages.0.images'],
    [RESPONSE, { text: { format: { type: 'text' }, pattern: 'a' } }, 'text.pattern'],
    [RESPONSE, { reasoning: { effort: 'low', depth: 3 } }, 'reasoning.depth'],
    [MESSAGE, { thinking: { type: 'adaptive', depth: 3 } }, 'thinking.depth'],
    [MESSAGE, { tools: [{ name: 'f', input_schema: schema, input_examples: [{}] }] }, 'input_examples'],
    [OLLAMA, { options: { tempreature: 0 } }, 'options.tempreature'],
    [CHAT, { tempreature: 0 }, 'tempreature is not a field'],
  ] as const) {
    const { app, response } = await ask(route, more);
    assert.is(response.status, 400, name);
    assert.match(await response.text(), name);
    assert.is(app.runner.requests.length, 0);
  }
  const { response } = await ask(CHAT, { guided_regex: 'a', guided_decoding_backend: 'xgrammar' });
  assert.is(response.status, 200);
});

test.run();
