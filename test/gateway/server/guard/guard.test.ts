import { createHash } from 'node:crypto';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type GuardRules, loopbackOnly } from '../../../../gateway/server/guard/guard.ts';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';
import { keysOf } from '../../../fixtures/keys.ts';
import { recordedCases, wordsOf } from '../../../fixtures/recorded-cases.ts';

const test = suite('guard');
const KEY = 'correct-horse-battery';
const ADMIN = 'a-key-of-an-admin';

/** The rules of a server by the words in front of its request. */
function rulesOf(words: readonly string[]): Partial<GuardRules> {
  const listOf = (name: string) =>
    words
      .find((word) => word.startsWith(`${name}=`))
      ?.split('=')[1]
      ?.split(',');
  const [hosts, corsOrigins] = [listOf('hosts'), listOf('origins')];
  return {
    ...(words.includes('keys') ? { apiKeys: keysOf([KEY], [ADMIN]) } : {}),
    ...(hosts === undefined ? {} : { hosts }),
    ...(corsOrigins === undefined ? {} : { corsOrigins }),
  };
}

/** The status, with the code of a refusal; what browsers are told; and whether the runner was asked. */
async function answerTo(line: string): Promise<string> {
  const words = wordsOf(line);
  const at = words.findIndex((word) => /^[A-Z]+$/.test(word));
  const [method = '', path = '', ...headers] = words.slice(at);
  const rules = words.slice(0, at);
  const localAddress = rules.find((word) => word.startsWith('at='))?.slice('at='.length);
  const { app, runner } = testApp({ guard: { ...loopbackOnly, ...rulesOf(rules) } });
  runner.script = [[97, EOS_ID]];
  const body = method === 'POST' ? '{"job_id":"a","prompt":"x","max_tokens":5}' : null;
  const type = method === 'POST' ? { 'content-type': 'application/json' } : undefined;
  const sent = headers.map((header) => header.split(/:(.*)/s, 2));
  const env = localAddress === undefined ? {} : { incoming: { headers: {}, socket: { localAddress } } };
  const asked = { method, body, headers: { ...type, ...Object.fromEntries(sent) } };
  const response = await app.request(path, asked, env);
  const text = await response.text();
  const [, code] = /"code":"(\w+)"/.exec(text) ?? [];
  const told = [...response.headers].filter(([name]) => /^(access-control-|vary|www-)/.test(name));
  const shown = told
    .filter(([name]) => name !== 'access-control-expose-headers')
    .map(([name, value]) => `${name}: ${value}`);
  return [
    [response.status, code, runner.requests.length > 0 ? 'runs' : undefined].filter(Boolean).join(' '),
    ...shown,
  ].join('; ');
}

recordedCases(test, import.meta.url, answerTo);

test('pages of other origins that are let in may read the headers that SDKs need', async () => {
  const { app } = testApp({ guard: { ...loopbackOnly, corsOrigins: ['http://localhost:*'] } });
  const { headers } = await app.request('/health', { headers: { origin: 'http://localhost:3000' } });
  assert.match(headers.get('access-control-expose-headers') ?? '', /(^|,)x-should-retry(,|$)/);
});

test('operator routes require an admin key, other routes any key', async () => {
  const { app } = testApp({
    guard: { ...loopbackOnly, apiKeys: keysOf([KEY], [ADMIN]) },
    playground: { page: new Map(), killRunner: () => true },
  });
  const routes = new Map(
    app.routes
      .filter(({ method }) => method !== 'ALL')
      .map(({ method, path }) => [`${method} ${path}`, { method, path }]),
  );
  assert.ok(routes.size > 10);
  const refused = [];
  for (const [name, { method, path }] of routes) {
    const ask = (key: string) => app.request(path, { method, headers: { authorization: `Bearer ${key}` } });
    assert.not([401, 403].includes((await ask(ADMIN)).status), name);
    const { status } = await ask(KEY);
    assert.is.not(status, 401, name);
    if (status === 403) refused.push(name);
  }
  assert.equal(refused.sort(), [
    'GET /metrics',
    'GET /runner/crashes',
    'POST /runner/kill',
    'POST /runner/park',
    'POST /runner/restart',
    'POST /runner/resume',
  ]);
  for (const path of ['/runner/nowhere', '/runner', '/metrics']) {
    const response = await app.request(path, { headers: { 'x-api-key': KEY } });
    assert.is(response.status, 403, path);
    assert.equal(await response.json(), {
      code: 'ADMIN_KEY_REQUIRED',
      message: `${path} is for operators: send an admin key, which is one in the file of --admin-keys-file.`,
      retriable: false,
    });
  }
});

test('each key has a separate cache; without keys, or by choice, all share one', async () => {
  const other = `${KEY}-2`;
  const saltsOf = async (rules: Partial<GuardRules>): Promise<string[]> => {
    const { post, runner } = testApp({ guard: { ...loopbackOnly, ...rules } });
    runner.script = [[EOS_ID]];
    for (const key of [KEY, other, KEY]) {
      const body = { job_id: 'a', prompt: 'x', max_tokens: 5 };
      await (await post('/execute', body, { 'x-api-key': key })).text();
    }
    return runner.requests.map(({ cacheSalt }) => Buffer.from(cacheSalt).toString('hex'));
  };
  const apiKeys = keysOf([KEY, other]);
  const [first, second, again] = await saltsOf({ apiKeys });
  assert.match(first ?? '', /^[0-9a-f]{64}$/);
  assert.is(again, first);
  assert.is.not(second, first);
  assert.is.not(first, createHash('sha256').update(KEY).digest('hex'), 'the key does not tell it');
  assert.equal(await saltsOf({ apiKeys, cacheSharing: 'all' }), ['', '', '']);
  assert.equal(await saltsOf({}), ['', '', '']);
});

test.run();
