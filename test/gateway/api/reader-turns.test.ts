import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ChatTemplate } from '../../../gateway/prompt/chat-template.ts';
import { loopbackOnly } from '../../../gateway/server/guard/guard.ts';
import { testApp } from '../../fixtures/app.ts';
import { byteModel, EOS_ID } from '../../fixtures/byte-model.ts';
import { keysOf } from '../../fixtures/keys.ts';

const test = suite('turns at the reader');

test('whatever renders or encodes a text of a client takes the turn of the client’s key', async () => {
  const callers: (string | undefined)[] = [];
  const { chatTemplate, tokenizer } = byteModel;
  const model = {
    ...byteModel,
    chatTemplate: {
      ...(chatTemplate as ChatTemplate),
      render: async (...[, , options]: Parameters<ChatTemplate['render']>) => {
        callers.push(options?.caller?.name);
        return [97];
      },
      renderText: async (...[, options]: Parameters<ChatTemplate['renderText']>) => {
        callers.push(options?.caller?.name);
        return 'a';
      },
    },
    tokenizer: {
      ...tokenizer,
      encodeTexts: async (...asked: Parameters<typeof tokenizer.encodeTexts>) => {
        callers.push(asked[1].caller?.name);
        return tokenizer.encodeTexts(...asked);
      },
    },
  };
  const key = 'a-key-of-a-client';
  const guard = { ...loopbackOnly, apiKeys: keysOf(['another-key-than-that', key]) };
  const { app, runner } = testApp({ guard, model: () => model });
  runner.script = [[EOS_ID]];
  const messages = [{ role: 'user', content: 'Hi' }];
  for (const [path, body] of [
    ['/v1/chat/completions', { model: 'bytes', messages }],
    ['/v1/completions', { model: 'bytes', prompt: 'Hi' }],
    ['/v1/embeddings', { model: 'bytes', input: 'Hi' }],
    ['/v1/responses', { model: 'bytes', input: 'Hi' }],
    ['/v1/messages', { model: 'bytes', max_tokens: 1, messages }],
    ['/v1/messages/count_tokens', { model: 'bytes', messages }],
    ['/api/chat', { model: 'bytes', messages, stream: false }],
    ['/api/generate', { model: 'bytes', prompt: 'Hi', stream: false }],
    ['/api/embed', { model: 'bytes', input: 'Hi' }],
    ['/execute', { job_id: 'a', prompt: 'Hi', max_tokens: 1 }],
    ['/tokenize', { content: 'Hi' }],
    ['/apply-template', { messages }],
  ] as const) {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const response = await app.request(path, { method: 'POST', headers, body: JSON.stringify(body) });
    assert.is(response.status, 200, `${path}: ${await response.text()}`);
    assert.equal(callers.splice(0), ['key-2'], path);
  }
});

test.run();
