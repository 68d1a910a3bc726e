import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../../../fixtures/app.ts';
import { byteModel } from '../../../fixtures/byte-model.ts';

const test = suite('apply-template');

const user = { role: 'user', content: 'Hi' };
const assistant = { role: 'assistant', content: 'The' };

test('a conversation becomes the prompt that a chat would make of it, while the runner is away too', async () => {
  const { runner, post } = testApp();
  runner.current = { ...runner.current, state: 'failed', info: undefined };
  const promptOf = async (body: object): Promise<unknown> => {
    const response = await post('/apply-template', body);
    assert.is(response.status, 200);
    return ((await response.json()) as { prompt: unknown }).prompt;
  };
  const messages = [{ role: 'developer', content: 'So.' }, user];
  assert.is(await promptOf({ messages, model: 'bytes' }), '<turn>system: So.<turn>user: Hi');
  assert.is(await promptOf({ messages: [user], add_generation_prompt: false }), '<turn>user: Hi closed');
  assert.is(
    await promptOf({ messages: [user, assistant], continue_final_message: true }),
    '<turn>user: Hi<turn>assistant: The continued',
  );
  assert.is(
    await promptOf({ messages: [user], chat_template_kwargs: { enable_thinking: null } }),
    '<turn>user: Hi{"enable_thinking":null}',
  );
  const tools = [{ type: 'function', function: { name: 'clock' } }];
  assert.is(
    await promptOf({ messages: [user], tools }),
    `<turn>tool: ${JSON.stringify(tools[0])}<turn>user: Hi`,
  );
  // The answer is written in pieces, some of which end within a character.
  const long = `x${'👋'.repeat(100_000)}`;
  assert.is(await promptOf({ messages: [{ ...user, content: long }] }), `<turn>user: ${long}`);
});

test('unsupported requests are refused by name', async () => {
  const { post } = testApp();
  const continued = { messages: [user, assistant], continue_final_message: true };
  const called = { ...assistant, tool_calls: [{ id: 'a', function: { name: 'f', arguments: '' } }] };
  const cases: [object, string][] = [
    [{}, 'messages'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'user' }] }, 'messages.0.content'],
    [{ messages: [user], stream: true }, 'stream'],
    [{ messages: [user], chat_template_kwargs: [] }, 'chat_template_kwargs'],
    [{ messages: [user], chat_template_kwargs: { messages: [] } }, 'chat_template_kwargs.messages'],
    [{ messages: [user], chat_template_kwargs: { bos_token: null } }, 'chat_template_kwargs.bos_token'],
    [{ messages: [user], chat_template_kwargs: { a: 'x'.repeat(16_384) } }, 'chat_template_kwargs'],
    [{ messages: [user], continue_final_message: true }, 'continue_final_message'],
    [{ ...continued, messages: [user, called] }, 'continue_final_message'],
    [{ ...continued, add_generation_prompt: true }, 'continue_final_message'],
  ];
  for (const [body, field] of cases) {
    const response = await post('/apply-template', body);
    assert.is(response.status, 400, field);
    const { errors } = (await response.json()) as { errors: { field: string; message: string }[] };
    assert.is(errors[0]?.field, field, JSON.stringify(errors));
    // A chat refuses the same.
    const chat = await post('/v1/chat/completions', { model: 'bytes', ...body });
    if (field !== 'stream') assert.is(chat.status, 400, field);
  }
});

test('tools that the template would leave out are refused', async () => {
  const { chatTemplate } = byteModel;
  assert.ok(chatTemplate);
  const { post } = testApp({
    model: () => ({ ...byteModel, chatTemplate: { ...chatTemplate, toolUse: 'none' } }),
  });
  const tools = [{ type: 'function', function: { name: 'clock' } }];
  const response = await post('/apply-template', { messages: [user], tools });
  assert.is(response.status, 400);
  assert.match(await response.text(), 'does not support tools');
});

test('a model without a template has no prompt to show', async () => {
  const { post } = testApp({ model: () => ({ ...byteModel, chatTemplate: undefined }) });
  const response = await post('/apply-template', { messages: [user] });
  assert.is(response.status, 400);
  assert.match(await response.text(), 'NO_CHAT_TEMPLATE');
});

test.run();
