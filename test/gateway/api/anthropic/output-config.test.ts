import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type TestApp, testApp } from '../../../fixtures/app.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';
import { type Rendered, thinkingModel } from '../../../fixtures/thinking-model.ts';

/** What bodies of coding agents ask for besides messages: the form of an answer, an effort, edits of the context, a thread. */

const test = suite('Anthropic’s output_config');

const messages = [{ role: 'user', content: 'Hi' }];
const schema = { type: 'object', properties: { city: { enum: ['Rome', null] } }, required: ['city'] };
const format = { type: 'json_schema', schema };
const tools = [{ name: 'weather', input_schema: schema }];

async function ask(app: TestApp, more: object): Promise<Response> {
  app.runner.script = [[EOS_ID]];
  return app.post('/v1/messages', { model: 'bytes', max_tokens: 300, messages, ...more });
}

async function told(response: Response): Promise<string | null> {
  assert.is(response.status, 200, await response.text());
  return response.headers.get('x-runnel-ignored');
}

test('a format is the grammar of the answer, and with tools of one that calls none', async () => {
  const app = testApp();
  assert.is(await told(await ask(app, { output_config: { format } })), null);
  const source = JSON.stringify(schema);
  assert.equal(app.runner.requests[0]?.grammar, { kind: 'json_schema', source, strict: true });
  const grammarWith = async (more: object): Promise<{ kind: string; source: string } | undefined> => {
    await told(await ask(app, { output_config: { format }, tools, ...more }));
    return app.runner.requests.at(-1)?.grammar;
  };
  const either = await grammarWith({});
  assert.is(JSON.parse(either?.source ?? '').format.type, 'or');
  assert.match(either?.source ?? '', `"json_schema":${source}`);
  assert.is((await grammarWith({ tool_choice: { type: 'none' } }))?.kind, 'json_schema');
  assert.is(await told(await ask(app, { output_config: { format: null, effort: null } })), null);
  assert.is(app.runner.requests.at(-1)?.grammar, undefined);
});

test('an effort reaches the template of a model that thinks, and is ignored where nothing is thought', async () => {
  const output_config = { effort: 'xhigh' };
  const thinking = { type: 'adaptive' };
  const rendered: Rendered[] = [];
  const model = thinkingModel((options) => {
    rendered.push(options);
    return `${'.'.repeat(40)}<think>\n`;
  });
  const thinker = testApp({ model: () => model });
  assert.is(await told(await ask(thinker, { output_config, thinking })), null);
  assert.is(rendered[0]?.options.variables?.reasoning_effort, 'xhigh');
  assert.is(await told(await ask(thinker, { output_config })), 'output_config.effort');
  assert.is(rendered[1]?.options.variables?.reasoning_effort, undefined);
  assert.is(await told(await ask(testApp(), { output_config, thinking })), 'output_config.effort, thinking');
  const body = { model: 'bytes', messages, output_config: { format, ...output_config }, thinking };
  const counted = await testApp().post('/v1/messages/count_tokens', body);
  assert.is(await told(counted), 'output_config.effort, thinking');
});

test('the body of a coding agent is answered', async () => {
  const block = { type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } };
  const body = {
    model: 'bytes',
    max_tokens: 200,
    stream: true,
    temperature: 1,
    system: [block],
    messages: [{ role: 'user', content: [block] }],
    tools: [{ ...tools[0], eager_input_streaming: true }],
    metadata: { user_id: 'somebody' },
    thinking: { type: 'adaptive' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    output_config: { effort: 'medium' },
  };
  const app = testApp();
  app.runner.script = [[EOS_ID]];
  const headers = { 'anthropic-beta': 'claude-code-20250219,context-management-2025-06-27' };
  const response = await app.post('/v1/messages?beta=true', body, headers);
  const ignored = ['metadata', 'system.cache_control', 'messages.content.cache_control'];
  assert.is(await told(response), [...ignored, 'output_config.effort', 'thinking'].join(', '));
});

test('unsupported options are refused by name', async () => {
  const edit = { type: 'clear_tool_uses_20250919', trigger: { type: 'input_tokens', value: 9 } };
  for (const [field, more] of [
    ['output_config.effort', { output_config: { effort: 'huge' } }],
    ['output_config.format.type', { output_config: { format: { type: 'text' } } }],
    ['output_config.format.schema is required', { output_config: { format: { type: 'json_schema' } } }],
    ['output_config.format.regex', { output_config: { format: { ...format, regex: 'a+' } } }],
    ['context_management', { context_management: { edits: [edit] } }],
    [
      'does not support reasoning, so thinking cannot be used',
      { thinking: { type: 'enabled', budget_tokens: 9 } },
    ],
  ] as const) {
    const app = testApp();
    const response = await ask(app, more);
    assert.is(response.status, 400, field);
    assert.match(await response.text(), field);
    assert.is(app.runner.requests.length, 0);
  }
});

test('a thread is refused with the code at which SDKs go on without one', async () => {
  const app = testApp();
  for (const path of ['/v1/messages', '/v1/messages/count_tokens']) {
    const thread = { type: 'create' };
    const response = await app.post(path, { model: 'bytes', max_tokens: 3, messages, thread });
    assert.is(response.status, 400);
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    const { type, details, message } = error;
    assert.equal([type, details], ['invalid_request_error', { error_code: 'thread_unsupported_request' }]);
    assert.match(String(message), 'thread is not supported');
  }
  assert.is(await told(await ask(app, { thread: null })), null);
});

test.run();
