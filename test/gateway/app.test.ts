import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../fixtures/app.ts';

const test = suite('app');

test('a path that takes another method is a 405 that names it', async () => {
  const { app } = testApp();
  const cases = [
    ['GET', '/execute', 'POST'],
    ['DELETE', '/cancel', 'POST'],
    ['PUT', '/v1/chat/completions', 'POST'],
    ['POST', '/v1/models', 'GET, HEAD'],
    ['POST', '/v1/models/bytes', 'GET, HEAD'],
    ['OPTIONS', '/health', 'GET, HEAD'],
  ] as const;
  for (const [method, path, allow] of cases) {
    const response = await app.request(path, { method });
    assert.equal([response.status, response.headers.get('allow')], [405, allow], `${method} ${path}`);
    const body = (await response.json()) as { code?: string; error?: { code: string } };
    assert.match(body.code ?? body.error?.code ?? '', /^method_not_allowed$/i);
    assert.ok(response.headers.has('x-correlation-id'));
  }
  assert.is((await app.request('/health', { method: 'HEAD' })).status, 200);
  const nowhere = await app.request('/nowhere', { method: 'DELETE' });
  assert.equal([nowhere.status, nowhere.headers.get('allow')], [404, null]);
});

test('an unknown path is a 404 in both APIs, which names OpenAI’s base URL', async () => {
  const { post } = testApp();
  const outside = await post('/images', {});
  const message =
    "There is no POST /images here. The routes of OpenAI's API are under /v1: a client's base URL ends with it.";
  assert.is(outside.status, 404);
  assert.equal(await outside.json(), {
    code: 'NOT_FOUND',
    message,
    retriable: false,
    error: { message, type: 'not_found_error', param: null, code: 'not_found' },
  });
  const inside = await post('/v1/images', {});
  assert.equal(await inside.json(), {
    error: {
      message: 'There is no POST /v1/images here.',
      type: 'not_found_error',
      param: null,
      code: 'not_found',
    },
  });
});

test('a body that is packed is a 415, whatever it is packed by; one that says it is not is read', async () => {
  const { post } = testApp();
  for (const encoding of ['gzip', 'br', 'GZIP', 'identity, gzip', '']) {
    for (const path of ['/execute', '/v1/completions', '/cancel', '/nowhere']) {
      const response = await post(path, '{"job_id":"a"}', { 'content-encoding': encoding });
      assert.is(response.status, 415, `${path} ${encoding}`);
      assert.match((await response.text()).toLowerCase(), '"code":"unsupported_media_type"');
    }
  }
  for (const encoding of ['identity', ' Identity '])
    assert.is((await post('/cancel', '{"job_id":"a"}', { 'content-encoding': encoding })).status, 202);
});

test.run();
