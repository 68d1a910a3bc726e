import { spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readerLimits } from '../../gateway/models/reader/messages.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

const test = suite('bundle');

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const tree = temporaryFolder().path;
const MODEL = 'test/golden/tiny-llama-q8_0.gguf';
const PARTS = ['gateway', 'deploy', 'build/gateway', 'package.json', 'package-lock.json', MODEL];
const VERSION = (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }).version;

test.before(() => {
  symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
});

test.before.each(() => {
  rmSync(join(tree, 'build'), { recursive: true, force: true });
  for (const part of PARTS) cpSync(join(ROOT, part), join(tree, part), { recursive: true });
  // Says that it is the bundle; what it is made of stays the same.
  appendFileSync(join(tree, 'build/gateway/main.cjs'), "\nconsole.log('bundle');\n");
});

function version(): string {
  const { stdout, stderr } = spawnSync('node', [join(tree, 'gateway/runnel.js'), '--version'], {
    encoding: 'utf8',
  });
  return stdout + stderr;
}

/** What a start would take. */
function chosen(): string {
  const script = `import { bundleOf } from '${tree}/gateway/bundle.js'; process.stdout.write(bundleOf('main') ?? 'sources');`;
  const { stdout, stderr } = spawnSync('node', ['--input-type=module', '-e', script], { encoding: 'utf8' });
  return stdout + stderr;
}

/** The path of a program's code in the tree. */
function codeFile(program: string): string {
  const folder = join(tree, 'build/gateway');
  const [name, ...others] = readdirSync(folder).filter(
    (each) => each.startsWith(`${program}-`) && each.endsWith('.cjs'),
  );
  assert.equal(others, [], 'code of other sources goes');
  return join(folder, name as string);
}

function codeOf(program: string): string {
  return readFileSync(codeFile(program), 'utf8');
}

/** Whether V8 takes the cache of a program's code, in a process with these flags. */
function takesCache(program: string, flags: readonly string[]): boolean {
  const loader = join(tree, 'build/gateway/cached-code.cjs');
  const script = `console.log(require('${loader}').compile('${basename(codeFile(program))}').cachedDataRejected)`;
  const { stdout, stderr } = spawnSync('node', [...flags, '-e', script], { encoding: 'utf8' });
  assert.match(stdout, /^(true|false|undefined)\n$/, stderr);
  return stdout === 'false\n';
}

function bundle(): void {
  const { status, stderr } = spawnSync('node', ['--import', 'tsx', 'deploy/bundle-gateway.ts'], {
    cwd: tree,
    encoding: 'utf8',
  });
  assert.is(status, 0, stderr);
}

test('a start takes the bundle of the sources that lie there', () => {
  assert.is(version(), `bundle\n${VERSION}\n`);
});

test('a start takes the sources when one of them, or a package, is another than in the bundle', () => {
  for (const [source, change] of [
    ['gateway/server/streams/stream-times.ts', '// edited\n'],
    ['gateway/runner/protocol/proto/runner.js', '// edited\n'],
    ['gateway/playground/page/page.css', '/* edited */\n'],
    ['deploy/source-urls.ts', '// edited\n'],
    ['package-lock.json', '\n'],
  ] as const) {
    appendFileSync(join(tree, source), change);
    assert.is(chosen(), 'sources', source);
    cpSync(join(ROOT, source), join(tree, source));
    assert.is(chosen(), join(tree, 'build/gateway/main.cjs'), source);
  }
  rmSync(join(tree, 'build/gateway/manifest.json'));
  assert.is(chosen(), 'sources', 'a bundle that is not whole');
});

test('a bundle is made anew when the sources are others, and only then', () => {
  bundle();
  assert.is(version(), `bundle\n${VERSION}\n`);
  appendFileSync(join(tree, 'gateway/main.ts'), "console.log('edited');\n");
  assert.is(version(), `edited\n${VERSION}\n`, 'by tsx');
  bundle();
  assert.match(codeOf('main'), 'console.log("edited")');
  rmSync(join(tree, 'gateway/main.ts'));
  assert.is(version(), `edited\n${VERSION}\n`, 'an installation has no sources');
});

test('V8 takes the cache of each program with the flags that the program is started with, and a start needs none', () => {
  const heap = `--max-old-space-size=${readerLimits.heapMb}`;
  assert.ok(takesCache('main', []));
  assert.ok(takesCache('reader-program', [heap]));
  assert.not(takesCache('main', [heap]));
  rmSync(`${codeFile('main')}.${process.arch}.cache`);
  assert.is(version(), `bundle\n${VERSION}\n`);
});

test('the licence of every package in the bundle lies beside it', () => {
  const code = codeOf('main') + codeOf('reader-program');
  const licences = readFileSync(join(ROOT, 'build/gateway/LICENSES.txt'), 'utf8');
  const packages = new Set(
    [...code.matchAll(/^\s*\/\/ node_modules\/((?:@[^/\n]+\/)?[^/\n]+)/gm)].map(([, name]) => name as string),
  );
  assert.ok(packages.size > 10);
  for (const name of ['preact', 'htm', 'uplot']) packages.add(name);
  for (const name of packages) assert.match(licences, new RegExp(`^${name} \\d\\S+: \\S`, 'm'), name);
});

test('the page is bundled with the gateway, under names that say what is in it, and old files go', () => {
  rmSync(join(tree, 'build'), { recursive: true });
  bundle();
  const folder = join(tree, 'build/gateway/playground');
  const before = readdirSync(folder).sort();
  assert.match(before.join(' '), /^icon-\w+\.svg index\.html main-\w+\.js page-\w+\.css$/);
  appendFileSync(join(tree, 'gateway/playground/page/page.css'), 'p { margin: 1px }\n');
  bundle();
  const after = readdirSync(folder).sort();
  assert.equal(
    after.map((name, index) => name === before[index]),
    [true, true, true, false],
  );
  assert.match(readFileSync(join(folder, 'index.html'), 'utf8'), `"playground/${after.at(-1)}"`);
});

test.run();
