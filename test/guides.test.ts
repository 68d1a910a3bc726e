import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from './fixtures/app.ts';
import { GUIDES, rowsOf } from './fixtures/guides.ts';

/** What the migration guides say of Runnel must be true. What they say of the other server is not checked. */

const test = suite('guides');

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const MISSING = 'Not supported';
const { get, post, app } = testApp();
const FLAG = /(?<![\w-])--[a-z][a-z0-9-]*/g;
const ROUTE = /`(GET|POST|DELETE) (\/[^`\s]*)`/g;

function flagsIn(text: string): string[] {
  return [...text.matchAll(FLAG)].map(([flag]) => flag);
}

const help = (command: string): string => readFileSync(`${ROOT}test/golden/help/${command}.txt`, 'utf8');

async function statusOf(method: string, path: string): Promise<number> {
  if (method === 'GET') return (await get(path)).status;
  if (method === 'POST') return (await post(path, {})).status;
  return (await app.request(path, { method })).status;
}

test('flags, commands and routes of this side are there', async () => {
  const serveFlags = flagsIn(help('serve'));
  let numRoutes = 0;
  for (const guide of GUIDES)
    for (const { heading, there, here } of rowsOf(guide)) {
      for (const flag of flagsIn(here)) assert.ok(serveFlags.includes(flag), `${guide}: ${flag}`);
      for (const [, command = ''] of here.matchAll(/`runnel ([a-z]+)/g)) assert.ok(help(command), command);
      if (heading === MISSING) continue;
      for (const [, method = '', path = ''] of here.matchAll(ROUTE)) {
        const status = await statusOf(method, path);
        assert.ok(![404, 405, 501].includes(status), `${guide}: ${method} ${path} answers ${status}`);
        numRoutes += 1;
      }
      assert.ok(there.trim() !== '' && here.trim() !== '');
    }
  assert.ok(numRoutes > 20);
});

test('features that a guide calls missing are missing', async () => {
  const serveFlags = flagsIn(help('serve'));
  let numRoutes = 0;
  for (const guide of GUIDES) {
    const rows = rowsOf(guide).filter(({ heading }) => heading === MISSING);
    assert.ok(rows.length > 0, guide);
    for (const { there } of rows) {
      for (const flag of flagsIn(there))
        assert.not.ok(serveFlags.includes(flag), `${guide}: ${flag} is here`);
      for (const [, method = '', path = ''] of there.matchAll(ROUTE)) {
        const status = await statusOf(method, path);
        assert.ok([404, 501].includes(status), `${guide}: ${method} ${path} is here, and answers ${status}`);
        numRoutes += 1;
      }
    }
  }
  assert.ok(numRoutes > 5);
});

test.run();
