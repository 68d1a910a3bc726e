import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';

/** llama-server's names of the penalty for repetition, under /v1 and in Ollama's options. */

const test = suite('penalties');

type Fields = Record<string, unknown>;

const plain = (fields: Fields): Fields => fields;
const routes: readonly [path: string, base: Fields, placed: (fields: Fields) => Fields, prefix: string][] = [
  ['/v1/completions', { prompt: 'Hi' }, plain, ''],
  ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }, plain, ''],
  ['/api/generate', { prompt: 'Hi', stream: false }, (options) => ({ options }), 'options.'],
];

test('repeat_penalty applies, and repeat_last_n is ignored where no penalty acts', async () => {
  for (const [path, base, placed, prefix] of routes)
    for (const [fields, penalty, ignored] of [
      [{ repeat_penalty: 1.1 }, 1.1, null],
      [{ repeat_penalty: 1.1, repeat_last_n: -1 }, 1.1, null],
      [{ repeat_last_n: 64 }, 1, 'repeat_last_n'],
      [{ repeat_last_n: 0, repeat_penalty: 1, presence_penalty: 0 }, 1, 'repeat_last_n'],
    ] as const) {
      const { runner, post } = testApp();
      runner.script = [[EOS_ID]];
      const response = await post(path, { model: 'bytes', ...base, ...placed(fields) });
      const what = `${path} ${JSON.stringify(fields)}`;
      assert.is(response.status, 200, `${what}: ${await response.text()}`);
      assert.is(runner.requests[0]?.sampling.repetitionPenalty, penalty, what);
      assert.is(response.headers.get('x-runnel-ignored'), ignored && prefix + ignored, what);
    }
});

test('repeat_last_n is refused by name beside a penalty that acts', async () => {
  for (const [path, base, placed, prefix] of routes)
    for (const penalty of [{ repeat_penalty: 1.1 }, { presence_penalty: 0.5 }, { frequency_penalty: -1 }]) {
      const { runner, post } = testApp();
      const sent = placed({ ...penalty, repeat_last_n: 64 });
      const response = await post(path, { model: 'bytes', ...base, ...sent });
      assert.is(response.status, 400, path);
      const sentence = `${prefix}repeat_last_n must be -1 beside a penalty: penalties count all tokens (got 64)`;
      assert.match(await response.text(), sentence);
      assert.is(runner.requests.length, 0);
    }
});

test('two different penalties for repetition exclude each other', async () => {
  for (const [path, base] of routes.slice(0, 2)) {
    const { runner, post } = testApp();
    runner.script = [[EOS_ID]];
    const ask = (fields: Fields) => post(path, { model: 'bytes', ...base, ...fields });
    const refused = await ask({ repeat_penalty: 1.1, repetition_penalty: 1.2 });
    assert.is(refused.status, 400);
    assert.match(
      await refused.text(),
      'repeat_penalty and repetition_penalty mean the same; send one of them',
    );
    assert.is((await ask({ repeat_penalty: 1.2, repetition_penalty: 1.2 })).status, 200);
    assert.is((await ask({ repeat_penalty: 1, repetition_penalty: 1.2 })).status, 200);
    for (const { sampling } of runner.requests) assert.is(sampling.repetitionPenalty, 1.2);
  }
});

test.run();
