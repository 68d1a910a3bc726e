import { pathToFileURL } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type BuiltPage, readBuiltPage } from '../../../gateway/playground/built-page.ts';
import { loopbackOnly } from '../../../gateway/server/guard/guard.ts';
import { close, createHttpServer, listen } from '../../../gateway/server/http-server.ts';
import { testApp } from '../../fixtures/app.ts';
import { httpLimits } from '../../fixtures/http-limits.ts';
import { keysOf } from '../../fixtures/keys.ts';
import { recordedCases, wordsOf } from '../../fixtures/recorded-cases.ts';
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

/** What browsers are told of each page. */
const SAME_FOR_ALL =
  /^(content-security-policy|x-content-type-options|referrer-policy|cross-origin-resource-policy)$/;

/** The answer to a line `RULES METHOD PATH BODY HEADERS`: status, headers and content, and which runners were killed. */
async function answerTo(line: string): Promise<string> {
  const words = wordsOf(line);
  const at = words.findIndex((word) => /^[A-Z]+$/.test(word));
  const rules = words.slice(0, at);
  const [method = '', path = '', ...rest] = words.slice(at);
  const killed: number[] = [];
  const canKill = rules.includes('kill');
  const killRunner = (pid: number): boolean => pid === 4711 && killed.push(pid) > 0;
  const page = rules.includes('unbuilt') ? undefined : pageOf(canKill);
  const { app } = testApp({
    ...(rules.includes('none') ? {} : { playground: { page, killRunner: canKill ? killRunner : undefined } }),
    guard: { ...loopbackOnly, apiKeys: rules.includes('keys') ? keysOf([KEY], [ADMIN]) : undefined },
  });
  const body = rest.find((word) => word.startsWith('{')) ?? null;
  const sent = rest.filter((word) => word !== body).map((header) => header.split(/:(.*)/s, 2));
  const type = body === null ? {} : { 'content-type': 'application/json' };
  const headers = {
    ...type,
    ...Object.fromEntries(sent.map(([name, value]) => [name, value?.replace('ETAG', etag) ?? ''])),
  };
  const response = await app.request(path, { method, body, headers });
  const told = [...response.headers].filter(([name]) => !/^x-(correlation|request)-id$/.test(name));
  const policies = told.filter(([name]) => SAME_FOR_ALL.test(name));
  const isPage = policies.length === 4 && policies.every(([name, value]) => POLICIES[name] === value);
  return [
    `${response.status}${isPage ? ' with the policies of the page' : ''}`,
    ...told
      .filter(([name]) => !isPage || !SAME_FOR_ALL.test(name))
      .map(([name, value]) => `  ${name}: ${value.replace(etag, 'ETAG')}`),
    `  ${await response.text()}`,
    ...(killed.length > 0 ? [`  killed ${killed}`] : []),
  ].join('\n');
}

const POLICIES: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
};

/** The tag of the page. */
let etag = '';
test.before(async () => {
  const { get } = testApp({ playground: { page: pageOf(), killRunner: undefined } });
  etag = (await get('/')).headers.get('etag') ?? '';
  assert.match(etag, /^"[\w-]{22}"$/);
});

recordedCases(test, import.meta.url, answerTo);

test('the page comes over a socket as a whole, its HEAD without it, and is known again', async () => {
  const server = createHttpServer(
    testApp({ playground: { page: pageOf(), killRunner: undefined } }).app.fetch,
    httpLimits,
  );
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
