import { pathToFileURL } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type BuiltPage, readBuiltPage } from '../../../gateway/playground/built-page.ts';
import type { Playground } from '../../../gateway/playground/playground.ts';
import { loopbackOnly } from '../../../gateway/server/guard/guard.ts';
import { close, createHttpServer, listen } from '../../../gateway/server/http-server.ts';
import { testApp } from '../../fixtures/app.ts';
import { httpLimits } from '../../fixtures/http-limits.ts';
import { keysOf } from '../../fixtures/keys.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('playground');

const KEY = 'correct-horse-battery';
const ADMIN = 'a-key-of-an-admin';
const FILES: Readonly<Record<string, string>> = {
  'index.html': '<html data-kill="off"><script src="playground/main-A1.js"></script></html>',
  'main-A1.js': 'void 0;',
  'page-B2.css': 'p{margin:0}',
  'icon-C3.svg': '<svg/>',
  'README.md': 'not of the page',
};
const ASSETS = ['/playground/main-A1.js', '/playground/page-B2.css', '/playground/icon-C3.svg'];

const folder = temporaryFolder();
const url = pathToFileURL(`${folder.path}/`);
test.before(() => {
  for (const [name, text] of Object.entries(FILES)) folder.write(name, text);
});

function pageOf(canKill = false): BuiltPage {
  const page = readBuiltPage(canKill, url);
  assert.ok(page);
  return page;
}

/** A server with a page. `killRunner` is as the test wants. */
function setUp({
  guard = loopbackOnly,
  ...changes
}: Partial<Playground> & { guard?: typeof loopbackOnly } = {}) {
  const playground = { page: pageOf(), killRunner: undefined, ...changes };
  return testApp({ playground, guard });
}

test('the page comes over a socket as a whole, its HEAD without it, and is known again', async () => {
  const server = createHttpServer(setUp().app.fetch, httpLimits);
  const address = await listen(server, { host: '127.0.0.1', port: 0 });
  const root = `http://127.0.0.1:${'port' in address ? address.port : 0}/`;
  try {
    const index = await fetch(root);
    const text = await index.text();
    assert.equal([index.status, index.headers.get('content-length')], [200, String(Buffer.byteLength(text))]);
    const script = /src="([^"]+)"/.exec(text)?.[1];
    assert.is(
      (await fetch(`${root}${script}`)).headers.get('content-type'),
      'text/javascript; charset=utf-8',
    );
    const head = await fetch(root, { method: 'HEAD' });
    assert.equal(
      [head.status, head.headers.get('content-length'), head.headers.get('etag')],
      [200, index.headers.get('content-length'), index.headers.get('etag')],
    );
    const known = { 'if-none-match': index.headers.get('etag') ?? '' };
    assert.is((await fetch(root, { headers: known })).status, 304);
  } finally {
    server.closeAllConnections();
    await close(server);
  }
});

test('the page and its files are served with their types, and nothing else of the folder', async () => {
  const { get } = setUp();
  const index = await get('/');
  assert.is(index.status, 200);
  assert.is(index.headers.get('content-type'), 'text/html; charset=utf-8');
  assert.is(await index.text(), FILES['index.html']);
  const types = ['text/javascript; charset=utf-8', 'text/css; charset=utf-8', 'image/svg+xml'];
  for (const [index, path] of ASSETS.entries()) {
    const response = await get(path);
    assert.is(response.headers.get('content-type'), types[index]);
    assert.is(await response.text(), FILES[path.split('/').at(-1) as string]);
  }
  for (const path of [
    '/playground',
    '/playground/',
    '/playground/index.html',
    '/playground/README.md',
    '/index.html',
    '/playground/..%2fmain.js',
  ])
    assert.is((await get(path)).status, 404, path);
});

test('the page runs only its own files, sends no referrer and cannot be framed', async () => {
  const { get } = setUp();
  for (const path of ['/', ...ASSETS]) {
    const { headers } = await get(path);
    assert.is(
      headers.get('content-security-policy'),
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    assert.is(headers.get('x-content-type-options'), 'nosniff');
    assert.is(headers.get('referrer-policy'), 'no-referrer');
    assert.is(headers.get('cross-origin-resource-policy'), 'same-origin');
  }
});

test('files whose names have a hash are kept for ever; the page itself is asked for each time', async () => {
  const { get, app } = setUp();
  for (const path of ASSETS)
    assert.is((await get(path)).headers.get('cache-control'), 'public, max-age=31536000, immutable');
  const { headers } = await get('/');
  assert.is(headers.get('cache-control'), 'no-cache');
  const etag = headers.get('etag') as string;
  assert.match(etag, /^"[\w-]{22}"$/);
  for (const known of [etag, `W/${etag}`, `"other", ${etag}`]) {
    const again = await app.request('/', { headers: { 'if-none-match': known } });
    assert.equal([again.status, await again.text(), again.headers.get('etag')], [304, '', etag]);
  }
  assert.is((await app.request('/', { headers: { 'if-none-match': '"other"' } })).status, 200);
  const dev = testApp({ playground: { page: pageOf(true), killRunner: () => true } });
  assert.is.not((await dev.get('/')).headers.get('etag'), etag, 'another page');
});

test('HEAD says what GET would, and other methods are refused', async () => {
  const { app } = setUp();
  const head = await app.request('/', { method: 'HEAD' });
  assert.equal(
    [head.status, await head.text(), head.headers.get('content-length')],
    [200, '', String(FILES['index.html']?.length)],
  );
  const post = await app.request('/', { method: 'POST' });
  assert.equal([post.status, post.headers.get('allow')], [405, 'GET, HEAD']);
});

test('with keys the page alone wants none, and whoever asks by another name or from elsewhere is refused it', async () => {
  const guard = { ...loopbackOnly, apiKeys: keysOf([KEY]) };
  const { app } = setUp({ guard });
  for (const path of ['/', ...ASSETS]) {
    assert.is((await app.request(path)).status, 200, path);
    assert.is((await app.request(path, { headers: { host: 'evil.example' } })).status, 403, path);
    assert.is((await app.request(path, { headers: { origin: 'http://evil.example' } })).status, 403, path);
  }
  for (const path of ['/playground/', '/playground/other.js', '//', '/v1/models'])
    assert.is((await app.request(path)).status, 401, path);
});

test('a server without a playground has nothing at /, and one whose page was not built says what to do', async () => {
  assert.is((await testApp().get('/')).status, 404);
  assert.is((await testApp().get(ASSETS[0] as string)).status, 404);
  const missing = readBuiltPage(false, new URL('nowhere/', url));
  assert.is(missing, undefined);
  const { get } = testApp({ playground: { page: missing, killRunner: undefined } });
  const response = await get('/');
  assert.is(response.status, 404);
  assert.match(await response.text(), 'The playground was not built: run make.');
});

test('a kill requires permission and a runner of this server', async () => {
  const killed: number[] = [];
  const killRunner = (pid: number): boolean => pid === 4711 && killed.push(pid) > 0;
  const off = setUp();
  assert.is((await off.post('/runner/kill', { pid: 4711 })).status, 404);
  assert.match(await (await off.get('/')).text(), 'data-kill="off"');

  const { get, post } = setUp({ page: pageOf(true), killRunner });
  assert.match(await (await get('/')).text(), 'data-kill="on"');
  const other = await post('/runner/kill', { pid: 1 });
  assert.is(other.status, 404);
  assert.match(await other.text(), 'No runner of this server has the process id 1.');
  for (const body of [{}, { pid: '4711' }, { pid: 4711, signal: 9 }])
    assert.is((await post('/runner/kill', body)).status, 400, JSON.stringify(body));
  assert.equal(killed, []);
  const response = await post('/runner/kill', { pid: 4711 });
  assert.equal([response.status, await response.json()], [200, { status: 'killed' }]);
  assert.equal(killed, [4711]);
});

test('with keys, to kill a runner wants an operator’s', async () => {
  const guard = { ...loopbackOnly, apiKeys: keysOf([KEY], [ADMIN]) };
  const { post } = setUp({ guard, killRunner: () => true });
  const status = async (headers: Record<string, string>) =>
    (await post('/runner/kill', { pid: 4711 }, headers)).status;
  assert.is(await status({}), 401);
  assert.is(await status({ authorization: `Bearer ${KEY}` }), 403);
  assert.is(await status({ authorization: `Bearer ${ADMIN}` }), 200);
  assert.is(await status({ authorization: `Bearer ${ADMIN}`, origin: 'http://evil.example' }), 403);
});

test('the built page has no inline script or style, and its files exist', () => {
  const page = readBuiltPage(true);
  const index = Buffer.from(page?.get('/')?.content ?? []).toString();
  assert.match(index, '<html lang="en" data-kill="on">');
  assert.not.match(index, /<style|\sstyle=|\son\w+=|<script(?! src="playground\/main-\w+\.js"><\/script>)/);
  const named = [...index.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => `/${path}`);
  assert.is(named.length, 3);
  for (const path of named) assert.ok(page?.has(path), path);
  assert.is(page?.size, 4);
  for (const [path, { content }] of page ?? [])
    assert.not.match(
      Buffer.from(content).toString(),
      /https?:\/\/(?!www\.w3\.org\/)/,
      `${path} needs no other server`,
    );
});

test.run();
