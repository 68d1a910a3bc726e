import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../../fixtures/app.ts';

/** The words of refusals that clients look for, or show. */

const test = suite('refusals');

const messages = [{ role: 'user', content: 'Hi' }];

async function refusalOf(path: string, body: object): Promise<string> {
  const response = await testApp({ modelNames: ['served'] }).post(path, { model: 'served', ...body });
  const text = await response.text();
  assert.is(response.status, 400, text);
  return text;
}

test('a model is named as it was asked for', async () => {
  const text = await refusalOf('/v1/chat/completions', { messages, thinking_budget: 5 });
  assert.match(text, '\\"served\\" does not support reasoning');
});

test('a full context is named by its code in the message too', async () => {
  const long = [{ role: 'user', content: 'x'.repeat(600) }];
  for (const [path, body] of [
    ['/v1/chat/completions', { messages: long }],
    ['/v1/completions', { prompt: 'x'.repeat(600) }],
    ['/v1/responses', { input: 'x'.repeat(600) }],
    ['/v1/messages', { messages: long, max_tokens: 3 }],
    ['/v1/embeddings', { input: 'x'.repeat(600) }],
  ] as const)
    assert.match(await refusalOf(path, body), 'send less (context_length_exceeded)');
});

test('an image is refused as an image', async () => {
  for (const [path, body] of [
    [
      '/v1/chat/completions',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }] },
    ],
    ['/v1/responses', { input: [{ role: 'user', content: [{ type: 'input_image' }] }] }],
    ['/v1/messages', { max_tokens: 3, messages: [{ role: 'user', content: [{ type: 'image' }] }] }],
  ] as const)
    assert.match(await refusalOf(path, body), 'content.0.type is not supported: images are not read here');
});

test.run();
