import { createHash } from 'node:crypto';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type GuardRules, loopbackOnly } from '../../../../gateway/server/guard/guard.ts';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';
import { keysOf } from '../../../fixtures/keys.ts';
import type { ScriptedRunner } from '../../../fixtures/scripted-runner.ts';

const test = suite('guard');
const KEY = 'correct-horse-battery';

type Headers = Record<string, string>;
type Ask = (method: string, path: string, headers?: Headers) => Promise<Response>;

/** localAddress: the address of the server's end of the connection. Without it there is no socket. */
function setUp(
  rules: Partial<GuardRules> | undefined,
  localAddress?: string,
): Ask & { runner: ScriptedRunner } {
  const { app, runner } = testApp(rules === undefined ? {} : { guard: { ...loopbackOnly, ...rules } });
  const ask: Ask = async (method, path, headers = {}) => {
    const body = method === 'POST' ? '{"job_id":"a","prompt":"x","max_tokens":5}' : null;
    const type = method === 'POST' ? { 'content-type': 'application/json' } : undefined;
    const env = localAddress === undefined ? {} : { incoming: { headers: {}, socket: { localAddress } } };
    return app.request(path, { method, body, headers: { ...type, ...headers } }, env);
  };
  return Object.assign(ask, { runner });
}

async function codeOf(response: Response): Promise<string> {
  return ((await response.json()) as { code: string }).code;
}

test('a key is asked for everywhere but at /health and /ready', async () => {
  const ask = setUp({ apiKeys: keysOf([KEY]) });
  for (const path of ['/health', '/ready']) assert.is((await ask('GET', path)).status, 200, path);
  const paths = [
    '/v1/models',
    '/v1/models/bytes',
    '/health/',
    '/healthz',
    '//health',
    '/nowhere',
    '/',
    '/metrics',
    '/runner/crashes',
  ];
  for (const path of paths) assert.is((await ask('GET', path)).status, 401, path);
  for (const path of ['/execute', '/cancel', '/tokenize', '/detokenize', '/v1/chat/completions']) {
    assert.is((await ask('POST', path)).status, 401, path);
  }
  assert.is(ask.runner.requests.length, 0);
});

test('a key is taken as a bearer token or as x-api-key', async () => {
  const ask = setUp({ apiKeys: keysOf([KEY]) });
  const right: Headers[] = [
    { authorization: `Bearer ${KEY}` },
    { authorization: `bearer ${KEY}` },
    { 'x-api-key': KEY },
  ];
  for (const headers of right) assert.is((await ask('GET', '/v1/models', headers)).status, 200);
  const wrong: Headers[] = [
    { authorization: `Bearer ${KEY}x` },
    { authorization: KEY },
    { authorization: `Basic ${btoa(`:${KEY}`)}` },
    { authorization: 'Bearer' },
    { 'x-api-key': '' },
    { cookie: `key=${KEY}` },
  ];
  for (const headers of wrong) {
    assert.is((await ask('GET', '/v1/models', headers)).status, 401, JSON.stringify(headers));
  }
  assert.is((await ask('GET', `/v1/models?api_key=${KEY}`)).status, 401);
});

test('operator routes require an admin key, other routes any key', async () => {
  const admin = 'a-key-of-an-admin';
  const { app } = testApp({
    guard: { ...loopbackOnly, apiKeys: keysOf([KEY], [admin]) },
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
    assert.not([401, 403].includes((await ask(admin)).status), name);
    const { status } = await ask(KEY);
    assert.is.not(status, 401, name);
    if (status === 403) refused.push(name);
  }
  assert.equal(refused.sort(), [
    'GET /metrics',
    'GET /runner/crashes',
    'POST /runner/kill',
    'POST /runner/restart',
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

test('without keys, who reaches the address may do what operators do', async () => {
  const ask = setUp(undefined);
  for (const path of ['/metrics', '/runner/crashes']) assert.is((await ask('GET', path)).status, 200, path);
  assert.is((await ask('GET', '/metrics', { host: 'evil.example' })).status, 403);
});

test('a missing key is refused in the shape of the API, and the key never repeated', async () => {
  const ask = setUp({ apiKeys: keysOf([KEY]) });
  const native = await ask('POST', '/execute', { 'x-api-key': 'canary-canary-canary' });
  assert.is(native.headers.get('www-authenticate'), 'Bearer');
  assert.equal(await native.json(), {
    code: 'INVALID_API_KEY',
    message: 'This server does not know the key.',
    retriable: false,
  });
  const openAi = await ask('GET', '/v1/models');
  assert.equal(await openAi.json(), {
    error: {
      message: 'A key is needed: send the header "Authorization: Bearer KEY".',
      type: 'authentication_error',
      param: null,
      code: 'invalid_api_key',
    },
  });
});

test('rebinding: a Host that is not this server’s name is refused, whatever it looks like', async () => {
  const ask = setUp({ hosts: ['models.example'] });
  const right = ['localhost', 'localhost:8080', 'LOCALHOST', '127.0.0.1:8080', '127.9.9.9', '[::1]:8080'];
  for (const host of [...right, 'models.example', 'Models.Example:443']) {
    assert.is((await ask('GET', '/health', { host })).status, 200, host);
  }
  const wrong = [
    'evil.example',
    'evil.example:8080',
    'localhost.evil.example',
    'evil.localhost.example',
    '127.0.0.1.evil.example',
    '127.evil.example',
    'models.example.evil.example',
    'xmodels.example',
    '192.168.0.10:8080',
    '10.0.0.1',
    '0.0.0.0:8080',
    '[::]:8080',
    '[fe80::1]',
    'localhost@evil.example',
    'localhost, evil.example',
    'evil.example#localhost',
    'localhost:x',
    '2130706433',
    '0x7f000001',
  ];
  for (const host of wrong) {
    const response = await ask('POST', '/execute', { host });
    assert.is(response.status, 403, host);
    const body = (await response.json()) as { code: string; message: string };
    assert.is(body.code, 'HOST_NOT_ALLOWED');
    assert.match(body.message, '--allowed-hosts');
  }
  assert.is(ask.runner.requests.length, 0);
});

test('a client that calls us by the address it reached us at has looked no name up', async () => {
  for (const localAddress of ['10.0.0.1', '::ffff:10.0.0.1']) {
    const ask = setUp({ hosts: ['0.0.0.0'] }, localAddress);
    assert.is((await ask('GET', '/health', { host: '10.0.0.1:8080' })).status, 200);
    assert.is((await ask('GET', '/health', { host: '10.0.0.2:8080' })).status, 403);
  }
});

test('forged requests: a page of another origin is refused, before keys and bodies are looked at', async () => {
  const ask = setUp({});
  const host = 'localhost:8080';
  const wrong = [
    'https://evil.example',
    'http://localhost:8080.evil.example',
    'http://localhost:8080@evil.example',
    'http://localhost.evil.example:3000',
    'http://127.0.0.1.evil.example',
    'http://10.0.0.1:3000',
    'http://evil.localhost:3000',
    'http://localhost:8080/',
    'HTTP://localhost:8080',
    'app://evil.example/page',
    'tauri://evil@localhost',
    'xapp://localhost',
    'app:localhost',
    'app://*',
    'chrome-extension://abcdef',
    'null',
    'file://',
    '',
  ];
  for (const origin of wrong) {
    for (const method of ['GET', 'POST', 'OPTIONS']) {
      const response = await ask(method, method === 'GET' ? '/health' : '/execute', { host, origin });
      assert.is(response.status, 403, `${method} ${origin}`);
      assert.is(await codeOf(response), 'ORIGIN_NOT_ALLOWED');
      assert.is(response.headers.get('access-control-allow-origin'), null);
    }
  }
  for (const [own, origin] of [
    [host, 'http://localhost:8080'],
    ['LOCALHOST:8080', 'http://localhost:8080'],
    ['localhost', 'http://localhost'],
    ['localhost:80', 'http://localhost'],
    ['[::1]:8080', 'http://[::1]:8080'],
  ] as const)
    assert.is((await ask('GET', '/health', { host: own, origin })).status, 200, own);
  const other = setUp({ corsOrigins: ['https://chat.example'] });
  for (const [own, origin] of [
    ['localhost', 'https://localhost'],
    ['localhost:443', 'https://localhost'],
    ['localhost', 'http://localhost:443'],
  ] as const)
    assert.is((await other('GET', '/health', { host: own, origin })).status, 403, `${own} ${origin}`);
  assert.is(ask.runner.requests.length, 0);
});

const local = [
  'http://localhost:3000',
  'https://localhost:3000',
  'http://localhost',
  'http://127.0.0.1:5173',
  'http://[::1]:5173',
  'http://tauri.localhost',
  'app://obsidian.md',
  'app://-',
  'tauri://localhost',
  'vscode-webview://0k2b1a-9f',
];

test('pages of this machine and of apps are let in unless origins are listed, with a key where one is set', async () => {
  const ask = setUp({});
  const keyed = setUp({ apiKeys: keysOf([KEY]) });
  const listed = setUp({ corsOrigins: ['https://chat.example'] });
  ask.runner.script = [[97, EOS_ID]];
  for (const origin of local) {
    const preflight = await keyed('OPTIONS', '/v1/chat/completions', {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type',
    });
    const answer = await ask('POST', '/execute', { origin });
    const refused = await keyed('GET', '/v1/models', { origin });
    assert.equal([preflight.status, answer.status, refused.status], [204, 200, 401], origin);
    for (const { headers } of [preflight, answer, refused]) {
      assert.is(headers.get('access-control-allow-origin'), origin);
      assert.is(headers.get('access-control-allow-credentials'), null);
    }
    await answer.text();
    assert.is((await keyed('GET', '/v1/models', { origin, 'x-api-key': KEY })).status, 200);
    assert.is((await ask('POST', '/execute', { origin, 'content-type': 'text/plain' })).status, 415);
    assert.is((await listed('GET', '/health', { host: '127.0.0.1:8080', origin })).status, 403, origin);
  }
});

test('routes for operators are closed to such pages, and open to the page of this server', async () => {
  const admin = 'a-key-of-an-admin';
  const host = 'localhost:8080';
  for (const ask of [setUp({}), setUp({ apiKeys: keysOf([KEY], [admin]) })]) {
    for (const origin of local)
      for (const [method, path] of [
        ['GET', '/metrics'],
        ['GET', '/runner/crashes'],
        ['OPTIONS', '/runner/restart'],
        ['POST', '/runner/restart'],
      ] as const) {
        const response = await ask(method, path, { host, origin, 'x-api-key': admin });
        assert.is(response.status, 403, `${method} ${path} ${origin}`);
        assert.is(await codeOf(response), 'ORIGIN_NOT_ALLOWED');
        assert.is(response.headers.get('access-control-allow-origin'), null);
      }
    const own = { host, origin: `http://${host}`, 'x-api-key': admin };
    assert.is((await ask('GET', '/metrics', own)).status, 200);
  }
});

test('cross-origin pages are let in by name: preflight without a key, answers and errors readable', async () => {
  const origin = 'https://chat.example';
  const ask = setUp({ corsOrigins: [origin], apiKeys: keysOf([KEY]) });
  const preflight = await ask('OPTIONS', '/v1/chat/completions', {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type',
  });
  assert.is(preflight.status, 204);
  assert.is(preflight.headers.get('access-control-allow-origin'), origin);
  assert.match(preflight.headers.get('access-control-allow-methods') ?? '', 'POST');
  assert.match(preflight.headers.get('access-control-allow-headers') ?? '', /authorization,\s?content-type/);
  assert.is(preflight.headers.get('access-control-allow-credentials'), null);
  assert.match(preflight.headers.get('vary') ?? '', /origin/i);

  const refused = await ask('GET', '/v1/models', { origin });
  assert.is(refused.status, 401);
  assert.is(refused.headers.get('access-control-allow-origin'), origin);
  assert.is(refused.headers.get('www-authenticate'), 'Bearer');

  ask.runner.script = [[97, EOS_ID]];
  const stream = await ask('POST', '/execute', { origin, 'x-api-key': KEY });
  assert.is(stream.status, 200);
  assert.is(stream.headers.get('access-control-allow-origin'), origin);
  await stream.text();

  assert.is((await ask('OPTIONS', '/execute', { origin: 'https://other.example' })).status, 403);
});

test('any port of this machine’s names may be let in, and then no other name', async () => {
  const ask = setUp({ corsOrigins: ['http://localhost:*', 'http://[::1]:*', 'https://chat.example'] });
  for (const origin of [
    'http://localhost:3000',
    'http://localhost',
    'http://localhost:1',
    'http://[::1]:5173',
  ]) {
    const response = await ask('GET', '/health', { origin });
    assert.is(response.status, 200, origin);
    assert.is(response.headers.get('access-control-allow-origin'), origin);
    assert.match(response.headers.get('access-control-expose-headers') ?? '', /(^|,)x-should-retry(,|$)/);
  }
  const wrong = [
    'https://localhost:3000',
    'http://127.0.0.1:3000',
    'http://localhost.evil.example:3000',
    'http://evil.example:3000',
    'http://localhost:*',
    'http://localhost:',
    'http://localhost:3000/',
    'http://evil@localhost:3000',
    'https://chat.example:3000',
  ];
  for (const origin of wrong) assert.is((await ask('GET', '/health', { origin })).status, 403, origin);
});

test('clients that send no origin get no CORS headers', async () => {
  const ask = setUp(undefined);
  const response = await ask('GET', '/health');
  assert.is(response.status, 200);
  assert.equal(
    [...response.headers.keys()].filter((name) => name.startsWith('access-control')),
    [],
  );
  assert.is(
    (await ask('GET', '/health', { host: 'evil.example' })).status,
    403,
    'the default is loopback only',
  );
});

test('each key has a separate cache; without keys, or by choice, all share one', async () => {
  const other = `${KEY}-2`;
  const saltsOf = async (rules: Partial<GuardRules>): Promise<string[]> => {
    const ask = setUp(rules);
    ask.runner.script = [[EOS_ID]];
    for (const key of [KEY, other, KEY]) await (await ask('POST', '/execute', { 'x-api-key': key })).text();
    return ask.runner.requests.map(({ cacheSalt }) => Buffer.from(cacheSalt).toString('hex'));
  };
  const apiKeys = keysOf([KEY, other]);
  const [first, second, again] = await saltsOf({ apiKeys });
  assert.match(first ?? '', /^[0-9a-f]{64}$/);
  assert.is(again, first);
  assert.is.not(second, first);
  assert.is((await saltsOf({ apiKeys }))[0], first, 'as long as the process lives');
  assert.is.not(first, createHash('sha256').update(KEY).digest('hex'), 'the key does not tell it');
  assert.equal(await saltsOf({ apiKeys, cacheSharing: 'all' }), ['', '', '']);
  assert.equal(await saltsOf({}), ['', '', '']);
});

test.run();
