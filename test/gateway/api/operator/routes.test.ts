import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { UsageError } from '../../../../gateway/errors/exit-code.ts';
import { loopbackOnly } from '../../../../gateway/server/guard/guard.ts';
import { testApp } from '../../../fixtures/app.ts';
import { keysOf } from '../../../fixtures/keys.ts';

const test = suite('operator');

test('a restart answers at once, or waits and reports the outcome', async () => {
  for (const [failure, status, word] of [
    [undefined, 200, '"restarted"'],
    ['It has no such flag.', 500, 'It has no such flag.'],
  ] as const) {
    const { app, post } = testApp({ restartRunner: async () => failure });
    const promised = await app.request('/runner/restart', { method: 'POST' });
    assert.equal([promised.status, await promised.json()], [202, { status: 'restarting' }]);
    assert.is((await post('/runner/restart', {})).status, 202);
    const awaited = await post('/runner/restart', { wait: true });
    assert.is(awaited.status, status);
    assert.match(await awaited.text(), word);
  }
});

test('a restart that cannot be asked for so is refused, and nothing is restarted', async () => {
  let count = 0;
  const { post } = testApp({
    restartRunner: () => {
      count++;
      throw new UsageError('--threads must be a whole number, got "many".');
    },
  });
  assert.is((await post('/runner/restart', { wait: 1 })).status, 400);
  assert.is((await post('/runner/restart', { models: 'other' })).status, 400, 'an unknown field is refused');
  assert.is((await post('/runner/restart', { model: 'other' })).status, 404);
  assert.is(count, 0);
  const refused = await post('/runner/restart', {});
  assert.is(refused.status, 409);
  assert.match(await refused.text(), '--threads');
});

test('with keys, operators need an admin key', async () => {
  const apiKeys = keysOf(['a-key-of-a-client'], ['a-key-of-an-operator']);
  let numRestarts = 0;
  const restartRunner = async () => void numRestarts++;
  const { app } = testApp({ guard: { ...loopbackOnly, apiKeys }, restartRunner });
  for (const [method, path] of [
    ['GET', '/runner/crashes'],
    ['POST', '/runner/restart'],
  ] as const) {
    const statusWith = async (headers: Record<string, string>) =>
      (await app.request(path, { method, headers })).status;
    assert.is(await statusWith({}), 401);
    assert.is(await statusWith({ authorization: 'Bearer a-key-of-a-client' }), 403);
    assert.is(numRestarts, 0);
    assert.ok((await statusWith({ authorization: 'Bearer a-key-of-an-operator' })) < 300);
  }
  assert.is(numRestarts, 1);
});

test.run();
