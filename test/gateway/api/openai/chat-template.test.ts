/** The error for a conversation that cannot be rendered says whose fault it is. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ChatTemplateUnavailableError } from '../../../../gateway/prompt/chat-template.ts';
import { JinjaChatTemplate } from '../../../../gateway/prompt/jinja-chat-template.ts';
import { marksIn } from '../../../../gateway/prompt/template-marks.ts';
import { TemplateProcess } from '../../../../gateway/prompt/template-process.ts';
import { finish } from '../../../../gateway/system/cooperative-scheduler.ts';
import { testApp } from '../../../fixtures/app.ts';
import { byteModel, byteTokenizer } from '../../../fixtures/byte-model.ts';
import { within } from '../../../fixtures/within.ts';

const test = suite('chat template');
const patienceMs = 120_000;
const conversation = { model: 'bytes', messages: [{ role: 'user', content: 'Hi' }] };

test('a template that is temporarily unavailable is a 503 with Retry-After', async () => {
  const render = () => Promise.reject(new ChatTemplateUnavailableError('Not now.', 7));
  const { post } = testApp({
    model: () => ({
      ...byteModel,
      chatTemplate: { toolUse: 'none', start() {}, close() {}, render, renderText: render },
    }),
  });
  const response = await post('/v1/chat/completions', conversation);
  assert.is(response.status, 503);
  assert.equal(
    ['retry-after', 'retry-after-ms', 'x-should-retry'].map((name) => response.headers.get(name)),
    ['7', '7000', 'true'],
  );
  assert.match(await response.text(), 'Not now.');
});

test('a template that will never render the conversation is a 400 that says why', async () => {
  for (const [source, reason] of [
    ["{{ raise_exception('Roles must alternate') }}", 'Roles must alternate'],
    ['{% if %}', 'cannot be parsed'],
  ] as const) {
    const chatTemplate = finish(JinjaChatTemplate.of(source, marksIn(source), byteTokenizer));
    const { post } = testApp({ model: () => ({ ...byteModel, chatTemplate }) });
    const response = await within(patienceMs, reason, post('/v1/chat/completions', conversation));
    assert.equal([response.status, response.headers.get('x-should-retry')], [400, 'false'], reason);
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    assert.is(error.code, 'chat_template_error');
    assert.match(error.message, reason);
    chatTemplate.close();
  }
});

test('a template that uses up its processor time is a 400 on any machine', async () => {
  const source = '{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}';
  const process = new TemplateProcess(source, { startWaitMs: patienceMs, renderWaitMs: patienceMs });
  const renderText = () =>
    process.render({ messages: [], bos_token: '', eos_token: '', add_generation_prompt: true });
  const render = async () => [...Buffer.from(await renderText())];
  const { post } = testApp({
    model: () => ({
      ...byteModel,
      chatTemplate: { toolUse: 'none', start() {}, close: () => process.close(), render, renderText },
    }),
  });
  const response = await within(patienceMs, 'An answer', post('/v1/chat/completions', conversation));
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  assert.equal([response.status, error.code], [400, 'chat_template_error']);
  assert.match(error.message, 'processor time');
  process.close();
});

test.run();
