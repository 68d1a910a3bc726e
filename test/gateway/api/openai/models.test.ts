import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../../../fixtures/app.ts';
import { byteModel, EOS_ID } from '../../../fixtures/byte-model.ts';
import { ScriptedRunner } from '../../../fixtures/scripted-runner.ts';

/** The names by which clients may ask for the model. */

const test = suite('models');

function namedApp(modelNames: readonly string[]) {
  const runner = new ScriptedRunner();
  runner.script = [[97], [EOS_ID]];
  return testApp({ runner, modelNames });
}

const idsOf = async (response: Response): Promise<string[]> =>
  ((await response.json()) as { data: { id: string }[] }).data.map(({ id }) => id);

const ROUTES: [string, object][] = [
  ['/v1/completions', { prompt: 'Hi' }],
  ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }],
];

test('without other names it has its file’s', async () => {
  const { get, post } = namedApp([]);
  assert.equal(await idsOf(await get('/v1/models')), ['bytes']);
  assert.is((await get('/v1/models/bytes')).status, 200);
  const answer = (await (await post('/v1/completions', { model: 'bytes', prompt: 'Hi' })).json()) as object;
  assert.is((answer as { model: string }).model, 'bytes');
});

test('it is listed with the context that it is served with, once that is known', async () => {
  const { runner, get } = namedApp([]);
  const contextOf = async () => {
    const [model] = ((await (await get('/v1/models')).json()) as { data: Record<string, unknown>[] }).data;
    return [model?.max_model_len, model?.context_length];
  };
  assert.equal(await contextOf(), [512, 512]);
  runner.current = { ...runner.current, state: 'starting', info: undefined };
  assert.equal(await contextOf(), [undefined, undefined]);
});

test('each answer and each chunk says by which arithmetic it was made', async () => {
  for (const [path, body] of ROUTES) {
    const { post } = namedApp([]);
    const whole = (await (await post(path, { ...body, model: 'bytes' })).json()) as Record<string, unknown>;
    assert.is(whole.system_fingerprint, 'scripted');
    const streamed = await (await post(path, { ...body, model: 'bytes', stream: true })).text();
    const chunks = streamed.split('\n\n').filter((chunk) => chunk.startsWith('data: {'));
    assert.ok(chunks.length > 1);
    for (const chunk of chunks) assert.match(chunk, '"system_fingerprint":"scripted"');
  }
});

test('each of its names is listed and answered to, and the answer has the one that was asked for', async () => {
  const names = ['org/small-model', 'gpt-4o-mini'];
  const { get, post } = namedApp(names);
  assert.equal(await idsOf(await get('/v1/models')), names);
  for (const name of names) {
    for (const path of [`/v1/models/${name}`, `/v1/models/${encodeURIComponent(name)}`]) {
      const found = await get(path);
      assert.is(found.status, 200, path);
      const { id, object, owned_by } = (await found.json()) as Record<string, unknown>;
      assert.equal([id, object, owned_by], [name, 'model', 'runnel']);
    }
    for (const [path, body] of ROUTES) {
      const whole = (await (await post(path, { ...body, model: name })).json()) as { model: string };
      assert.is(whole.model, name);
      const streamed = await (await post(path, { ...body, model: name, stream: true })).text();
      assert.match(streamed, `"model":"${name}"`);
    }
  }
});

test('any other name is a 404 that says which there are, the file’s own too when it has others', async () => {
  const { runner, get, post } = namedApp(['one', 'two']);
  for (const name of ['bytes', 'One', 'one/two', 'x'.repeat(1000)]) {
    const answers = [await get(`/v1/models/${name}`)];
    for (const [path, body] of ROUTES) answers.push(await post(path, { ...body, model: name }));
    for (const response of answers) {
      assert.is(response.status, 404, name);
      const { error } = (await response.json()) as {
        error: { code: string; param: string; message: string };
      };
      assert.equal([error.code, error.param], ['model_not_found', 'model']);
      assert.match(error.message, 'available: "one", "two"');
      assert.ok(error.message.length < 200);
    }
  }
  assert.is(runner.requests.length, 0);
});

test('a model without a chat template is refused by name where it would need one', async () => {
  const runner = new ScriptedRunner();
  runner.script = [[EOS_ID]];
  const { post } = testApp({ runner, model: () => ({ ...byteModel, chatTemplate: undefined }) });
  const messages = [{ role: 'user', content: 'Hi' }];
  const response = await post('/v1/chat/completions', { model: 'bytes', messages });
  assert.is(response.status, 400);
  const { error } = (await response.json()) as { error: object };
  assert.equal(error, {
    message:
      'The model "bytes" has no chat template; use POST /v1/completions or /execute, which take a plain prompt.',
    type: 'invalid_request_error',
    param: 'model',
    code: 'no_chat_template',
  });
  assert.is((await post('/v1/completions', { model: 'bytes', prompt: 'Hi' })).status, 200);
  assert.is(runner.requests.length, 1);
});

test.run();
