/** Several models in a memory too small for all of them, with a clock that the test moves. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { failedLoadRetryMs } from '../../../gateway/models/model-lifecycle.ts';
import { UnknownModelError } from '../../../gateway/models/model-registry.ts';
import type { GenerationError } from '../../../gateway/runner/runner.ts';
import { byteModel } from '../../fixtures/byte-model.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { ScriptedModels, settled } from '../../fixtures/scripted-service.ts';

const test = suite('model registry');

const all: ScriptedModels[] = [];

/** They are stopped after the test, whatever happens: requests that still wait have timers. */
function opened(...args: ConstructorParameters<typeof ScriptedModels>): ScriptedModels {
  const models = new ScriptedModels(...args);
  all.push(models);
  return models;
}

test.after.each(async () => {
  for (const models of all.splice(0)) await models.loader.stop(0);
});

test('a model is loaded when it is asked for, and its requests wait at its gate until it is', async () => {
  const models = opened({ a: 60, b: 30 });
  assert.is(models.states, 'a unloaded, b unloaded');
  const first = models.acquire('b');
  await settled();
  assert.is(models.states, 'a unloaded, b loading');
  const second = models.acquire('b');
  await settled();
  assert.is(models.of('b').model.gate.numWaiting, 2);
  assert.is(models.of('b').services.length, 1);
  models.serviceOf('b').ready();
  for (const acquired of await Promise.all([first, second])) {
    assert.is(acquired.served.runner.status().state, 'ready');
    acquired.release();
  }
  assert.is(models.states, 'a unloaded, b loaded');
  assert.equal(models.of('a').services, []);
});

test('a name that no model has is refused, and none is loaded for it', async () => {
  const models = opened({ a: 60 });
  assert.instance(await errorOf(() => models.acquire('c')), UnknownModelError);
  assert.is(models.states, 'a unloaded');
  assert.is(models.registry.default.names[0], 'a');
});

test('the least recently used leaves for one that has no room, and is loaded again when it is asked for', async () => {
  const models = opened({ a: 40, b: 40, c: 40 });
  await models.use('a');
  await models.pass(5);
  await models.use('b');
  await models.pass(5);
  await models.use('a');
  await models.use('c');
  assert.is(models.states, 'a loaded, b unloaded, c loaded');
  assert.equal(models.unloaded, ['b: memory']);
  assert.ok(models.serviceOf('b').isStopped);
  await models.use('b');
  assert.is(models.states, 'a unloaded, b loaded, c loaded');
  assert.is(models.of('b').services.length, 2);
});

test('a model in use is unloaded after its requests, and new requests wait', async () => {
  const models = opened({ a: 60, b: 60 });
  await models.use('a');
  const stream = models.serviceOf('a');
  stream.numOpen = 1;
  const wanted = models.acquire('b');
  await settled();
  const again = models.acquire('a');
  await models.pass(60_000);
  assert.not.ok(stream.isStopped);
  assert.is(models.states, 'a loaded, b loading');
  stream.numOpen = 0;
  await settled();
  assert.ok(stream.isStopped);
  models.serviceOf('b').ready();
  (await wanted).release();
  await models.pass(1);
  // Now b has been unloaded for a.
  assert.is(models.states, 'a loading, b unloaded');
  models.serviceOf('a').ready();
  (await again).release();
  assert.equal(models.unloaded, ['a: memory', 'b: memory']);
});

test('a large model that waits is not overtaken by small ones', async () => {
  const models = opened({ a: 40, b: 40, large: 100 });
  await models.use('a');
  models.serviceOf('a').numOpen = 1;
  await models.use('b');
  const large = models.acquire('large');
  await models.pass(10);
  const again = models.acquire('b');
  await models.pass(1000);
  assert.is(models.of('b').services.length, 1, 'it fits, and would have to leave at once');
  models.serviceOf('a').numOpen = 0;
  await models.pass(10);
  models.serviceOf('large').ready();
  (await large).release();
  await models.pass(10);
  models.serviceOf('b').ready();
  (await again).release();
  assert.is(models.states, 'a unloaded, b loaded, large unloaded');
});

test('a model being prepared is in use', async () => {
  const models = opened({ a: 60, b: 60 });
  await models.use('a');
  const inside = await models.acquire('a');
  const waiting = models.acquire('b');
  await models.pass(10_000);
  assert.not.ok(models.serviceOf('a').isStopped);
  inside.release();
  await settled();
  assert.ok(models.serviceOf('a').isStopped);
  models.serviceOf('b').ready();
  (await waiting).release();
});

test('an unused model is unloaded after its time, and a pinned one never', async () => {
  const models = opened({ a: 40, b: 40 }, { keepAliveMs: 10_000, pinned: 'b' });
  await models.use('a');
  await models.use('b');
  models.serviceOf('a').numOpen = 1;
  await models.pass(60_000);
  assert.is(models.states, 'a loaded, b loaded');
  models.serviceOf('a').numOpen = 0;
  await models.pass(8000);
  assert.is(models.states, 'a loaded, b loaded');
  await models.pass(4000);
  assert.is(models.states, 'a unloaded, b loaded');
  assert.equal(models.unloaded, ['a: idle']);
});

test('a model replaced by a larger file is measured again and evicts others', async () => {
  const models = opened({ a: 40, b: 40 });
  await models.use('a');
  await models.pass(5);
  await models.use('b');
  models.of('b').need = { kind: 'cpu', bytes: 70, availableBytes: undefined };
  models.serviceOf('b').ready();
  await models.pass(10);
  assert.is(models.states, 'a loaded, b loaded', 'a runner that was started again has the same file');
  models.serviceOf('b').ready('another file');
  await models.pass(10);
  assert.is(models.states, 'a unloaded, b loaded');
  assert.equal(models.unloaded, ['a: memory']);
  models.of('b').need = { kind: 'cpu', bytes: 101, availableBytes: undefined };
  models.serviceOf('b').ready('one that is too large');
  await models.pass(10);
  assert.is(models.states, 'a unloaded, b unloaded');
  const { served, release } = await models.acquire('b');
  assert.match(String(served.runner.status().reason), 'The model b needs 101 bytes of memory');
  release();
});

test('a model that cannot fit is refused with figures and evicts none', async () => {
  const models = opened({ a: 40, huge: 101 });
  await models.use('a');
  const { served, release } = await models.acquire('huge');
  assert.is(served.runner.status().state, 'failed');
  assert.match(
    String(served.runner.status().reason),
    'The model huge needs 101 bytes of memory; all models together may use 100',
  );
  release();
  assert.is(models.states, 'a loaded, huge failed');
});

test('a model that cannot be loaded harms no other, says why, and is tried again later', async () => {
  const models = opened({ a: 40, b: 40 });
  models.of('b').need = 'b is no model.';
  await models.use('a');
  (await models.acquire('b')).release();
  assert.is(models.states, 'a loaded, b failed');
  assert.is(models.of('b').model.loadState.reason, 'b is no model.');
  const { message, retriable } = (await errorOf(async () =>
    models.of('b').model.assertAcceptsRequests(),
  )) as GenerationError;
  assert.equal([message, retriable], ['b is no model.', true]);
  models.of('b').need = { kind: 'cpu', bytes: 40, availableBytes: undefined };
  await models.pass(failedLoadRetryMs - 100);
  (await models.acquire('b')).release();
  assert.is(models.states, 'a loaded, b failed');
  await models.pass(200);
  await models.use('b');
  assert.is(models.states, 'a loaded, b loaded');
});

test('a runner that does not become ready frees its memory, and waiters are informed', async () => {
  const models = opened({ a: 60, b: 60 });
  const waiting = models.acquire('a');
  await settled();
  const service = models.serviceOf('a');
  const next = models.acquire('b');
  await settled();
  service.hooks.onEvent({ level: 'error', event: 'model_failed', reason: 'Its file is cut.' });
  const { served, release } = await waiting;
  assert.is(served.runner.status().reason, 'Its file is cut.');
  release();
  await settled();
  assert.ok(service.isStopped);
  models.serviceOf('b').ready();
  (await next).release();
  assert.is(models.states, 'a failed, b loaded');
});

test('runners that die one after the other before they are ready are waited for three times', async () => {
  const models = opened({ a: 60 });
  const waiting = models.acquire('a');
  await settled();
  for (let death = 1; death <= 3; death += 1) {
    assert.is(models.states, 'a loading');
    models.serviceOf('a').hooks.onEvent({ level: 'warn', event: 'runner_exited', reason: `Death ${death}.` });
    await settled();
  }
  (await waiting).release();
  assert.is(models.of('a').model.loadState.reason, 'Death 3.');
});

test('waiting requests keep their deadlines, and their number is bounded', async () => {
  const models = opened({ a: 60 }, { maxWaiting: 1 });
  const late = errorOf(() => models.acquire('a', Date.now() + 5)) as Promise<GenerationError>;
  const full = (await errorOf(() => models.acquire('a'))) as GenerationError;
  assert.is(full.code, 'QUEUE_FULL');
  assert.is((await late).code, 'TIMEOUT');
});

test('counters go on over the loads of a model', async () => {
  const models = opened({ a: 60, b: 60 });
  await models.use('a');
  const service = models.serviceOf('a');
  service.current = {
    ...service.current,
    restarts: 2,
    counters: { ...service.current.counters, numFinished: 5 },
  };
  await models.use('b');
  const { restarts, counters, info } = models.of('a').model.status();
  assert.equal([restarts, counters.numFinished, info], [2, 5, undefined]);

  await models.use('a');
  const second = models.serviceOf('a');
  second.current = { ...second.current, restarts: 1 };
  assert.is(models.of('a').model.status().restarts, 3, 'those of the loaded service are added');
  await models.use('b');
  assert.is(models.of('a').model.status().restarts, 3);
});

test('a tokenizer is read once for all who ask, and none outlives the end', async () => {
  const models = opened({ a: 60 });
  let numOpen = 0;
  let numRead = 0;
  const scripted = models.of('a');
  scripted.load = async () => {
    await settled();
    numRead += 1;
    numOpen += 1;
    const close = (): void => {
      numOpen -= 1;
    };
    return { ...byteModel, chatTemplate: undefined, tokenizer: { ...byteModel.tokenizer, close } };
  };
  const { model } = scripted;
  const [one, other] = await Promise.all([model.read(), model.read()]);
  assert.ok(one !== undefined && one === other);
  await models.pass(1);
  await models.loader.stop(0);
  assert.equal([numRead, numOpen], [1, 0]);
  const late = opened({ a: 60 });
  late.of('a').load = scripted.load;
  const reading = late.of('a').model.read();
  await late.loader.stop(0);
  assert.is(await reading, undefined);
  assert.equal([numRead, numOpen], [2, 0]);
});

test('a model stopped while it waits for memory reserves none', async () => {
  const models = opened({ a: 60, b: 80, c: 30 });
  await models.use('a');
  models.serviceOf('a').numOpen = 1;
  const waiting = models.acquire('b');
  await settled();
  await models.loader.remove(models.of('b').model, 0);
  (await waiting).release();
  const next = models.acquire('c');
  await settled();
  assert.ok(models.states.endsWith('c loading'), models.states);
  models.serviceOf('c').ready();
  (await next).release();
});

test('a model stopped before its size is known evicts none', async () => {
  const models = opened({ a: 60, b: 60 });
  await models.use('a');
  const waiting = models.acquire('b');
  await models.loader.remove(models.of('b').model, 0);
  (await waiting).release();
  await models.pass(5);
  assert.equal(models.unloaded, []);
});

test('stopping all refuses waiting requests and leaves no timer', async () => {
  const models = opened({ a: 60, b: 60 });
  await models.use('a');
  const waiting = models.acquire('b');
  await settled();
  await models.loader.stop(0);
  const { served, release } = await waiting;
  assert.is(served.runner.status().state, 'stopping');
  release();
  assert.ok(models.serviceOf('a').isStopped);
  assert.is(models.clock.numTimers, 0);
});

test.run();
