import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ApiKeys } from '../../../gateway/guard/api-keys.ts';
import { loopbackOnly } from '../../../gateway/guard/guard.ts';
import { UsageError } from '../../../gateway/ops/exit-code.ts';
import { testApp } from '../../fixtures/app.ts';

const test = suite('runner');

test('a restart is promised, or awaited and told how it went', async () => {
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
  assert.is((await post('/runner/restart', { model: 'other' })).status, 400, 'what is not known is refused');
  assert.is(count, 0);
  const refused = await post('/runner/restart', {});
  assert.is(refused.status, 409);
  assert.match(await refused.text(), '--threads');
});

test('with keys, operators need one as well', async () => {
  const apiKeys = new ApiKeys(['a-key-of-an-operator']);
  const { app } = testApp({ guard: { ...loopbackOnly, apiKeys } });
  for (const [method, path] of [
    ['GET', '/runner/crashes'],
    ['POST', '/runner/restart'],
  ] as const) {
    assert.is((await app.request(path, { method })).status, 401);
    const headers = { authorization: 'Bearer a-key-of-an-operator' };
    assert.ok((await app.request(path, { method, headers })).ok);
  }
});

test.run();
