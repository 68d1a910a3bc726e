import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { lookMs } from '../../../../gateway/models/model-loader.ts';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';
import { ScriptedModels, settled } from '../../../fixtures/scripted-service.ts';

const test = suite('Ollama’s models, of several');

function severalApp(isUnloadAllowed = true, pinned = '') {
  const models = new ScriptedModels({ a: 60, b: 60 }, { pinned });
  const { clock } = models;
  const app = testApp({ models: models.registry, isUnloadAllowed, clock, monotonicNow: () => clock.now() });
  return { models, ...app };
}

const namesOf = async (response: Response): Promise<string[]> =>
  ((await response.json()) as { models: { name: string }[] }).models.map(({ name }) => name);

test('tags lists each, ps those that are loaded, and show loads none', async () => {
  const { models, get, post } = severalApp();
  assert.equal(await namesOf(await get('/api/tags')), ['a:latest', 'b:latest']);
  assert.equal(await namesOf(await get('/api/ps')), []);
  assert.is((await post('/api/show', { model: 'b:latest' })).status, 200);
  assert.is((await post('/api/show', { model: 'c' })).status, 404);
  assert.is(models.states, 'a unloaded, b unloaded');
  await models.use('b');
  assert.equal(await namesOf(await get('/api/ps')), ['b:latest']);
});

test('a request loads the named model, reports load_duration and sends only lines', async () => {
  const { models, post } = severalApp();
  const messages = [{ role: 'user', content: 'Hi' }];
  const asked = post('/api/chat', { model: 'b:latest', messages });
  await settled();
  assert.is(models.states, 'a unloaded, b loading');
  await models.pass(3000);
  const service = models.serviceOf('b');
  service.script = [[97], [EOS_ID]];
  service.ready();
  const lines = (await (await asked).text()).trimEnd().split('\n');
  const [first, last] = lines.map((line) => JSON.parse(line) as { message: object; load_duration?: number });
  assert.is(lines.length, 2);
  assert.equal(first?.message, { role: 'assistant', content: 'a' });
  assert.is(last?.load_duration, 3_000_000_000);
});

test('keep_alive 0 without a prompt unloads a model that is loaded, and loads none', async () => {
  const { models, post } = severalApp();
  const ask = async () => {
    const response = await post('/api/generate', { model: 'b', keep_alive: 0 });
    assert.is(response.status, 200);
    const { done, done_reason } = (await response.json()) as { done: boolean; done_reason: string };
    assert.equal([done, done_reason], [true, 'unload']);
    await settled();
  };
  await ask();
  assert.is(models.states, 'a unloaded, b unloaded');
  await models.use('b');
  assert.is(models.states, 'a unloaded, b loaded');
  await ask();
  assert.is(models.states, 'a unloaded, b unloaded');
  assert.equal(models.unloaded, ['b: asked']);
});

test('keep_alive 0 of a pinned model is a 400', async () => {
  const { post } = severalApp(true, 'a');
  const pinned = await post('/api/chat', { model: 'a', keep_alive: 0 });
  assert.is(pinned.status, 400);
  assert.match(await pinned.text(), 'it is pinned');
});

test('keep_alive 0 is ignored unless the operator allows it, and refused where it is all that is asked', async () => {
  const { models, post } = severalApp(false);
  await models.use('b');
  models.serviceOf('b').script = [[97], [EOS_ID]];
  const answered = await post('/api/generate', { model: 'b', prompt: 'Hi', keep_alive: 0 });
  assert.is(answered.headers.get('x-runnel-ignored'), 'keep_alive');
  assert.match(await answered.text(), '"done_reason":"stop"');
  const refused = await post('/api/generate', { model: 'b', keep_alive: 0 });
  assert.is(refused.status, 400);
  assert.match(await refused.text(), '--client-unload on allows it');
  await models.pass(2 * lookMs);
  assert.is(models.states, 'a unloaded, b loaded');
});

test('keep_alive 0 of a model that is being loaded unloads it after the request that waits for it', async () => {
  const { models, post } = severalApp();
  const waiting = post('/api/generate', { model: 'b' });
  await settled();
  assert.is((await post('/api/generate', { model: 'b', keep_alive: '0s' })).status, 200);
  assert.is(models.states, 'a unloaded, b loading');
  models.serviceOf('b').ready();
  assert.is((await waiting).status, 200);
  await models.pass(lookMs);
  assert.is(models.states, 'a unloaded, b unloaded');
});

test('keep_alive 0 unloads the model after its answer, and no stream is cut', async () => {
  const { models, post } = severalApp();
  await models.use('b');
  const service = models.serviceOf('b');
  service.script = [[97], [98], [EOS_ID]];
  service.numOpen = 1;
  const response = await post('/api/generate', { model: 'b', prompt: 'Hi', keep_alive: 0 });
  assert.is(response.headers.get('x-runnel-ignored'), null);
  await models.pass(2 * lookMs);
  assert.not.ok(service.isStopped);
  assert.match(await response.text(), '"done_reason":"stop"');
  service.numOpen = 0;
  await models.pass(lookMs);
  assert.ok(service.isStopped);
  assert.is(models.states, 'a unloaded, b unloaded');
});

test('keep_alive 0 of one client makes no other wait or fail, and a later request keeps the model', async () => {
  const { models, post } = severalApp();
  await models.use('b');
  const service = models.serviceOf('b');
  service.numOpen = 1;
  assert.is((await post('/api/generate', { model: 'b', keep_alive: 0 })).status, 200);
  service.script = [[97], [EOS_ID]];
  // No time passes, so it is answered only if it need not wait.
  const other = await post('/api/generate', { model: 'b', prompt: 'Hi' });
  assert.is(other.status, 200);
  assert.match(await other.text(), '"done_reason":"stop"');
  service.numOpen = 0;
  await models.pass(2 * lookMs);
  assert.is(models.states, 'a unloaded, b loaded');
  assert.is(models.of('b').services.length, 1);
});

test.run();
