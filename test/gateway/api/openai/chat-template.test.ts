/** The error for a conversation that cannot be rendered says whose fault it is. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { UnavailableError } from '../../../../gateway/errors/thrown.ts';
import type { ModelReader } from '../../../../gateway/models/reader/model-reader.ts';
import { testApp } from '../../../fixtures/app.ts';
import { byteModel } from '../../../fixtures/byte-model.ts';
import { readerOf } from '../../../fixtures/model-readers.ts';
import { within } from '../../../fixtures/within.ts';

const test = suite('chat template');
const patienceMs = 120_000;
const templateOf = (source: string): ModelReader => readerOf(source, { waitMs: patienceMs });
const conversation = { model: 'bytes', messages: [{ role: 'user', content: 'Hi' }] };

test('a template that is temporarily unavailable is a 503 with Retry-After', async () => {
  const render = () => Promise.reject(new UnavailableError('Not now.', 7));
  const { post } = testApp({
    model: () => ({
      ...byteModel,
      chatTemplate: { toolUse: undefined, start() {}, render, renderText: render },
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
    const chatTemplate = templateOf(source);
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
  const chatTemplate = templateOf(source);
  const { post } = testApp({ model: () => ({ ...byteModel, chatTemplate }) });
  const response = await within(patienceMs, 'An answer', post('/v1/chat/completions', conversation));
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  assert.equal([response.status, error.code], [400, 'chat_template_error']);
  assert.match(error.message, 'processor time');
  chatTemplate.close();
});

test.run();
