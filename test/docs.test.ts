import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { routeGroups } from '../gateway/app.ts';
import { loopbackOnly } from '../gateway/server/guard/guard.ts';
import { LOG_EVENTS } from '../gateway/telemetry/log.ts';
import { BEGIN, END } from './bench/report/document.ts';
import { testApp } from './fixtures/app.ts';
import { GUIDES, ownSideOf } from './fixtures/guides.ts';
import { keysOf } from './fixtures/keys.ts';

/** Documents and code must name the same things: log events, metrics, error codes, settings. */

const test = suite('docs');

const ROOT = fileURLToPath(new URL('..', import.meta.url));

function read(path: string): string {
  return readFileSync(ROOT + path, 'utf8');
}

/** A page without the part that `make bench` writes. */
function byHand(page: string): string {
  const [before = '', after = ''] = page.split(BEGIN);
  return before + after.slice(after.indexOf(END));
}

/** What a page says of this server. The tables of the guides also describe another server, which is left out. */
function ownSide(page: string): string {
  const text = byHand(read(page));
  return (GUIDES as readonly string[]).includes(page) ? ownSideOf(text) : text;
}

/** The text from a heading to the next heading of the same level. */
function section(path: string, heading: string): string {
  const text = read(path);
  const begin = text.indexOf(`\n## ${heading}\n`);
  assert.ok(begin >= 0, `${path} has no section "${heading}"`);
  const end = text.indexOf('\n## ', begin + 1);
  return text.slice(begin, end < 0 ? undefined : end);
}

/** The names in backticks in one column of a section's tables. */
function namesIn(text: string, column: number, name: RegExp): string[] {
  const rows = text.split('\n').filter((line) => line.startsWith('| '));
  return rows.flatMap((row) => {
    const cell = row.split(' | ')[column] ?? '';
    return [...cell.matchAll(/`([^`]+)`/g)]
      .map(([, quoted = '']) => quoted)
      .filter((quoted) => name.test(quoted));
  });
}

function filesOf(...patterns: string[]): string[] {
  const args = ['ls-files', '--cached', '--others', '--exclude-standard', ...patterns];
  const paths = execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim().split('\n');
  assert.ok(paths.length > 3, patterns.join(' '));
  return paths;
}

function same(documented: readonly string[], real: Iterable<string>): void {
  assert.is(new Set(documented).size, documented.length, 'each is named once');
  assert.equal([...documented].sort(), [...new Set(real)].sort());
}

test('events of the log are those that the documents have, and each is logged somewhere', () => {
  same(namesIn(section('docs/operations.md', 'Logs and metrics'), 0, /^[a-z_]+$/), LOG_EVENTS);
  const source = filesOf('gateway/*.ts').map(read).join('\n');
  for (const event of LOG_EVENTS) {
    // These events are logged with a computed name: what changes, then the phase.
    const [, changing] = /^((?:backend|model)_change_)/.exec(event) ?? [];
    const isThere =
      // The list of events has each name once.
      changing === undefined ? source.split(`'${event}'`).length > 2 : source.includes(`\`${changing}\${`);
    assert.ok(isThere, `nothing logs ${event}`);
  }
});

test('metrics are those that the documents have', async () => {
  const text = await (await testApp().get('/metrics')).text();
  const real = [...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name = '']) => name);
  const documented = namesIn(section('docs/api.md', 'GET /metrics'), 0, /^(runnel|worker)_/);
  same(
    documented.map((name) => name.replace(/\{.*\}$/, '')),
    real,
  );
});

/** Matches `code: 'a'` and `code: … ? 'a' : 'b'`. */
const CODE = /\bcode: (?:[^,'\n]*(?:'[a-z]+' )?\? )?'([a-z_]+)'(?: : '([a-z_]+)')?/g;

test('error codes are those that the documents have', () => {
  const codes = new Set<string>();
  for (const path of filesOf(
    'gateway/app.ts',
    'gateway/server/*.ts',
    'gateway/api/*.ts',
    'gateway/calls/*.ts',
    'gateway/jobs/*.ts',
    'gateway/batches/batches.ts',
    'gateway/batches/file-store.ts',
    'gateway/errors/*.ts',
  )) {
    const text = read(path);
    // 'custom' is zod's code for an issue of a schema, not an error code of an answer.
    const said = text.replaceAll("code: 'custom'", '');
    for (const [, first, second] of said.matchAll(CODE))
      for (const code of [first, second]) if (code !== undefined) codes.add(code);
    for (const [, code = ''] of text.matchAll(/forbidden\(\s*'([a-z_]+)'/g)) codes.add(code);
    for (const [, encoding] of text.matchAll(/invalidBody\('([a-z]+)'/g)) codes.add(`invalid_${encoding}`);
  }
  assert.ok(codes.has('unsupported_parameter') && codes.has('invalid_json') && codes.has('queue_full'));
  const documented = namesIn(section('docs/api.md', 'Errors'), 1, /^[A-Z_]+$/);
  same(
    documented.map((code) => code.toLowerCase()),
    codes,
  );
});

test('each flag that a document names is one of a command’s, and each setting of serve is named', () => {
  const pages = filesOf('docs/*.md', 'README.md', 'SECURITY.md');
  const flag = /(?<![\w-])--[a-z][a-z0-9-]*/g;
  const flagsOf = (text: string): string[] => [...text.matchAll(flag)].map(([name]) => name);
  const ours = new Set(
    [
      ...filesOf('test/golden/help/*.txt'),
      ...filesOf('runner/*.cc', 'cpu-runner/*.cc', 'cuda-runner/*.cc'),
    ].flatMap((path) => flagsOf(read(path))),
  );
  const unknown = pages.flatMap((page) =>
    flagsOf(ownSide(page))
      .filter((name) => !ours.has(name))
      .map((name) => `${page} ${name}`),
  );
  assert.equal([...new Set(unknown)].sort(), FLAGS_OF_OTHERS);
  const named = new Set(pages.flatMap((page) => flagsOf(read(page))));
  const settings = flagsOf(read('test/golden/help/serve.txt').replaceAll(/^(?! {2}--).*$/gm, ''));
  assert.ok(settings.length > 30);
  assert.equal(
    settings.filter((name) => !named.has(name)),
    [],
  );
});

test('api.md names each tested client and its version', () => {
  const rows = section('docs/api.md', 'Tested clients')
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .flatMap((row) => {
      const [names = '', versions = '', language = ''] = row.slice(2).split(' | ');
      return [...names.matchAll(/`([^`]+)`/g)].map(
        ([, name], at) => `${language} ${name} ${versions.split(', ')[at]}`,
      );
    });
  // Each Python client has a test module, NAME_client.py, where NAME is the module that it imports.
  const pins = read('test/e2e/python/clients.txt');
  const inPython = filesOf('test/e2e/python/*_client.py').map((path) => {
    const name = (/(\w+)_client\.py$/.exec(path) ?? [])[1] ?? '';
    const pin = new RegExp(`^(${name}(?:_openai|_slim|(?<=index)_core)?)==(.+)$`, 'm').exec(pins) ?? [];
    return `Python ${pin[1]?.replaceAll('_', '-')} ${pin[2]}`;
  });
  const { devDependencies } = JSON.parse(read('package.json')) as { devDependencies: Record<string, string> };
  const inJavaScript = filesOf('test/e2e/*.test.ts')
    .flatMap((path) => [...read(path).matchAll(/ from '((?:@[\w-]+\/)?[\w-]+)/g)])
    .map(([, name = '']) => name)
    .filter((name) => name in devDependencies && !['playwright-core', 'uvu'].includes(name))
    .map((name) => `JavaScript ${name} ${devDependencies[name]}`);
  same(rows, [...inPython, ...inJavaScript]);
});

/** Messages of other programs. */
const MESSAGES_OF_OTHERS = ['No module named pip'];

test('messages that troubleshooting.md quotes are in the sources', () => {
  const sources = filesOf('gateway/*.ts', 'runner/*.cc', 'cpu-runner/*.cc', 'cuda-runner/*.cc', 'Makefile')
    .map(read)
    .join('\n')
    // Adjacent string literals, and those joined by +, are one text.
    .replaceAll(/["'`]\s*\+?\s*["'`]/g, '');
  const path = 'docs/troubleshooting.md';
  const messages = namesIn(read(path), 0, /^\S+ \S+ \S+ \S/).filter(
    (name) => !MESSAGES_OF_OTHERS.includes(name),
  );
  assert.ok(messages.length > 12);
  const parts = messages.flatMap((message) => message.split('…')).map((part) => part.trim());
  assert.equal(
    parts.filter((part) => !sources.includes(part)),
    [],
  );
});

test('the routes that need no key are those that the documents have', async () => {
  const { app } = testApp({ guard: { ...loopbackOnly, apiKeys: keysOf(['a key']) } });
  const open: string[] = [];
  for (const { method, path } of routeGroups.flatMap(({ operations }) => operations)) {
    const { status } = await app.request(path, { method: method.toUpperCase() });
    if (status !== 401) open.push(path);
  }
  for (const page of ['docs/operations.md', 'docs/api.md']) {
    // The page is served only where it has been built.
    const [, list = ''] =
      /every route but ([^.]+?)\s+and\s+(?:\[the page\]\(#get-\)|the playground's page)\s+requires/.exec(
        read(page),
      ) ?? [];
    assert.equal([...list.matchAll(/`(\S+?)`/g)].map(([, path]) => path).sort(), open.sort(), page);
  }
});

test('the first table of api.md has each route, by the beginning of its path at least', () => {
  const [head = ''] = read('docs/api.md').split('\n## ');
  const named = namesIn(head, 0, /^(?:[A-Z]+ )?\/./).map((name) => name.replace(/^[A-Z]+ |\/ID.*/g, ''));
  const paths = routeGroups
    .flatMap(({ operations }) => operations)
    .filter(({ answers }) => Object.keys(answers).length > 0)
    .map(({ path }) => path);
  const isBelow = (path: string, name: string) => `${path}/`.startsWith(`${name}/`);
  assert.equal(
    paths.filter((path) => !named.some((name) => isBelow(path, name))),
    [],
  );
  assert.equal(
    named.filter((name) => !paths.some((path) => isBelow(path, name))),
    [],
  );
});

test('links of the pages lead to files and headings', () => {
  const pages = filesOf('docs/*.md', 'README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'CHANGELOG.md');
  const anchorOf = (heading: string) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\p{Pc} -]/gu, '')
      .replaceAll(' ', '-');
  const broken = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].flatMap(
      ([link, target = '', anchor]) => {
        const file = target === '' ? page : join(dirname(page), target);
        if (!existsSync(ROOT + file)) return [`${page} ${link}`];
        if (anchor === undefined || !file.endsWith('.md')) return [];
        const anchors = [...read(file).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => anchorOf(heading));
        return anchors.includes(anchor) ? [] : [`${page} ${link}`];
      },
    ),
  );
  assert.equal(broken, []);
});

/**
 * Flags in documents that are not ours: those of other programs, of workers that Runnel replaces, and of tools for
 * tests and benchmarks.
 */
const FLAGS_OF_OTHERS: readonly string[] = [
  'docs/cuda.md --cases',
  'docs/cuda.md --seconds',
  'docs/debugging.md --args',
  'docs/development.md --import',
  'docs/development.md --test-dir',
  'docs/numerics.md --cases',
  'docs/operations.md --cpus',
  'docs/operations.md --cpuset-mems',
  'docs/operations.md --health-cmd',
  'docs/operations.md --init',
  'docs/operations.md --now',
  'docs/operations.md --target',
  'docs/performance.md --client-prompt',
  'docs/performance.md --import',
  'docs/performance.md --only',
  'docs/performance.md --rounds',
  'docs/performance.md --seconds',
  'docs/performance.md --synthetic',
  'docs/performance.md --test-case',
  'docs/performance.md --types',
  'docs/performance.md --write-docs',
  'docs/reliability.md --fake-runner',
  'docs/reliability.md --import',
  'docs/reliability.md --minutes',
];

test.run();
