import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { CPU_RUNNER, FAULTY_RUNNER } from './fixtures/default-model.ts';

/** Checks, from the sources alone, which parts of the tree may know which others. */

const test = suite('boundaries');

const ROOT = fileURLToPath(new URL('..', import.meta.url));

interface Source {
  readonly path: string;
  readonly text: string;
}

function sourcesOf(...patterns: string[]): Source[] {
  const args = ['ls-files', '--cached', '--others', '--exclude-standard', ...patterns];
  const paths = execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim().split('\n');
  assert.ok(paths.length > 5, patterns.join(' '));
  return paths.map((path) => ({ path, text: readFileSync(ROOT + path, 'utf8') }));
}

/** Fails if a source uses a name that matches the pattern and that `allowed` refuses. */
function requireOnly(sources: readonly Source[], pattern: RegExp, allowed: (name: string) => boolean): void {
  for (const { path, text } of sources) {
    for (const [, name = ''] of text.matchAll(pattern))
      assert.ok(allowed(name), `${path} must not use ${name}`);
  }
}

const INCLUDE = /^#include [<"](.+)[>"]/gm;
const IMPORT = /(?:^import|^} from|^export .* from|import\() ?'?.*?'([^'\n]+)'/gm;

test('cpu-runner links no CUDA, and the gateway imports no native code but for a journal', () => {
  assert.not.match(execFileSync('ldd', [CPU_RUNNER], { encoding: 'utf8' }), /cuda|nvidia/i);
  requireOnly(sourcesOf('gateway/*.ts'), IMPORT, (name) => !/\.node$|^bindings$|ffi/.test(name));
  for (const { path, text } of sourcesOf('gateway/*.ts')) {
    assert.not.match(text, /process\.dlopen|createRequire/, path);
    if (path !== 'gateway/journal/store.ts') assert.not.match(text, /classic-level'/, path);
  }
});

test('programs are started by execa with descriptors that were seen to be free', () => {
  const allowed: Record<string, RegExp> = {
    execa: /^gateway\/system\/(start-program|program-output)\.ts$/,
    'node:child_process': /^gateway\/system\/(start|own)-program\.ts$/,
  };
  for (const { path, text } of sourcesOf('gateway/*.ts')) {
    for (const [, name = ''] of text.matchAll(IMPORT))
      assert.ok(allowed[name]?.test(path) ?? true, `${path} must not use ${name}`);
  }
});

test('the runner that plans its own death is another program than the shipped one', () => {
  for (const hook of ['planned death', 'kill@step']) {
    assert.ok(readFileSync(FAULTY_RUNNER).includes(hook), hook);
    assert.not.ok(readFileSync(CPU_RUNNER).includes(hook), hook);
  }
  for (const { path, text } of sourcesOf('runner/*', 'cpu-runner/*', 'deploy/*', 'gateway/*.ts'))
    assert.not.match(text, /cpu-runner-faulty|RUNNER_FAULT/, path);
});

test('the compute code needs no protobuf: only serving and two commands use frames', () => {
  const serving = /^runner\/(serving|recordings|json)\/|^runner\/commands\/(serve|replay)_command\.cc$/;
  const others = sourcesOf('runner/*.cc', 'runner/*.h', 'cpu-runner/*', 'cuda-runner/*').filter(
    ({ path }) => !serving.test(path),
  );
  requireOnly(
    others,
    INCLUDE,
    (name) => !/^(proto|runner\/(json|serving|recordings))\/(?!record_limits\.h)/.test(name),
  );
});

test('headers check by RUNNEL_CHECK: in tests CHECK is that of doctest', () => {
  const headers = sourcesOf('runner/*.h', 'cpu-runner/*.h', 'cuda-runner/*.h', 'test/*.h');
  for (const { path, text } of headers)
    if (!text.includes('#include "test/unit_test.h"')) assert.not.match(text, /(?<!\/\/.*)\bCHECK\(/, path);
});

test('code shared by both runners uses no device and no instruction set', () => {
  const shared = sourcesOf('runner/*.cc', 'runner/*.h');
  requireOnly(shared, INCLUDE, (name) => !/intrin|cuda|^cpu-runner\//.test(name));
  requireOnly(sourcesOf('cpu-runner/*.cc', 'cpu-runner/*.h'), INCLUDE, (name) => !/cuda/.test(name));
});

test('the page knows nothing of the gateway but its routes, and the gateway nothing of the page', () => {
  const inPage = /^gateway\/playground\/page\//;
  const sources = sourcesOf('gateway/*.ts', 'deploy/*.ts');
  const page = sources.filter(({ path }) => inPage.test(path));
  assert.ok(page.length > 10);
  requireOnly(page, IMPORT, (name) =>
    /^(\.{1,2}\/[\w-]+\.ts|\.\/view\/app\.ts|preact|htm\/preact|uplot)$/.test(name),
  );
  requireOnly(
    sources.filter(({ path }) => !inPage.test(path)),
    IMPORT,
    (name) => !/playground\/page|^(preact|htm|uplot)\b/.test(name),
  );
});

/**
 * The gateway's folders in the order of a request's way. A file imports from its own folder and from those below it in
 * this list. Importing a type counts as much as importing a value. Each file directly in gateway/ is a place of its
 * own.
 */
const WAY = [
  'main.ts',
  'cli',
  'client',
  'app.ts',
  'playground',
  'api',
  'calls',
  'server',
  'config',
  'systemd',
  'jobs',
  'batches',
  'journal',
  'generation',
  'telemetry',
  'models',
  'prompt',
  'tokenizer',
  'runner',
  'json',
  'system',
  'errors',
  'bundle.js',
];

/**
 * The gateway files that a file imports, as paths from the root. A process's program is named by its URL, which is not
 * an import.
 */
function importsOf({ path, text }: Source): string[] {
  return [...text.matchAll(IMPORT)].flatMap(([, name = '']) =>
    name.startsWith('.') ? [join(dirname(path), name)] : [],
  );
}

const placeOf = (path: string): string => path.split('/')[1] as string;

/** Without the page: it imports only its own modules, which a test below checks. */
const gatewayFiles = (): Source[] =>
  sourcesOf('gateway/*.ts').filter(({ path }) => !path.startsWith('gateway/playground/page/'));

test('imports go one way: down the way of a request, and never back', () => {
  const files = gatewayFiles();
  const places = new Set(files.map(({ path }) => placeOf(path)));
  assert.equal([...places, 'bundle.js'].sort(), WAY.toSorted());
  const imports = files.flatMap((file) => importsOf(file).map((to) => [file.path, to] as const));
  const wrong = imports.filter(([from, to]) => WAY.indexOf(placeOf(from)) > WAY.indexOf(placeOf(to)));
  assert.equal(
    wrong.map(([from, to]) => `${from} must not import ${to}`),
    [],
  );
});

test('an API imports nothing of another API', () => {
  const apiOf = (path: string): string | undefined => /^gateway\/api\/([\w-]+)\//.exec(path)?.[1];
  const isTable = (path: string): boolean => path.endsWith('/routes.ts');
  const files = gatewayFiles().filter(({ path }) => apiOf(path) !== undefined);
  const apis = new Set(files.map(({ path }) => apiOf(path)));
  for (const api of ['openai', 'rerank', 'responses']) assert.ok(apis.has(api), api);
  const wrong = files.flatMap((file) =>
    importsOf(file)
      .filter((to) => apiOf(to) !== undefined && apiOf(to) !== apiOf(file.path))
      // Routes of one group are in several folders.
      .filter((to) => !(isTable(file.path) && isTable(to)))
      .map((to) => `${file.path} must not import ${to}`),
  );
  assert.equal(wrong, []);
});

test('execa is loaded before the gateway listens, while there are descriptors to read it', () => {
  const files = new Map(gatewayFiles().map((file) => [file.path, file]));
  const loaded = new Set(['gateway/cli/serve.ts']);
  // A set grows while it is walked.
  for (const path of loaded) {
    const { text } = files.get(path) ?? { text: '' };
    for (const to of importsOf({ path, text: text.replaceAll(/import\([^)]*\)|^import type .*/gm, '') }))
      loaded.add(to);
  }
  assert.not.ok(loaded.has('gateway/app.ts'), 'what is loaded later is left out');
  assert.ok(loaded.has('gateway/system/start-program.ts'));
});

test('code that reads chat templates or model files runs in the process of a reader', () => {
  const readers: Readonly<Record<string, string>> = {
    'gateway/models/read-model.ts': 'gateway/models/reader/reader-program.ts',
    'gateway/prompt/template-features.ts': 'gateway/models/reader/reader-program.ts',
    'gateway/prompt/chat-renderer.ts': 'gateway/models/reader/reader-program.ts',
    'gateway/prompt/bounded-template.ts': 'gateway/prompt/chat-renderer.ts',
    'gateway/prompt/jinja/template.ts': 'gateway/prompt/bounded-template.ts',
  };
  const imports = gatewayFiles().flatMap(({ path, text }) =>
    importsOf({ path, text: text.replace(/^import type .*$/gm, '') }).map((to) => ({ path, to })),
  );
  for (const [read, reader] of Object.entries(readers))
    assert.equal(
      imports.flatMap(({ path, to }) => (to === read ? [path] : [])),
      [reader],
      read,
    );
});

test('no files of the gateway import each other in a circle', () => {
  const imports = new Map(sourcesOf('gateway/*.ts').map((file) => [file.path, importsOf(file)]));
  assert.ok([...imports].some(([path, all]) => path.includes('/page/view/') && all.length > 1));
  const done = new Set<string>();
  const visit = (path: string, way: readonly string[]): void => {
    const circle = way.includes(path) ? [...way.slice(way.indexOf(path)), path] : [];
    assert.equal(circle, []);
    if (done.has(path)) return;
    for (const next of imports.get(path) ?? []) visit(next, [...way, path]);
    done.add(path);
  };
  for (const path of imports.keys()) visit(path, []);
});

test('model code uses the backend interface and nothing else', () => {
  const models = sourcesOf('runner/models/*.cc', 'runner/models/*.h');
  const seam =
    /^runner\/(backend\/(backend|batch|decoder_spec|numerics)|check|result|sampling\/logit_rows)\.h$|^runner\/(models|formats)\//;
  requireOnly(models, INCLUDE, (name) => !name.includes('/') || seam.test(name));
});

test('each fact of the two languages is on its side', () => {
  // The runner counts the tokens of the vocabulary but reads no spellings. The gateway finds tensors but reads no weights.
  for (const { path, text } of sourcesOf('runner/*.cc', 'cpu-runner/*.cc')) {
    for (const [key] of text.matchAll(/tokenizer\.[\w.]+/g))
      assert.ok(
        (path === 'runner/models/config.cc' && key === 'tokenizer.ggml.tokens') ||
          // synth writes these keys into files, and reads none.
          path.startsWith('runner/synth/'),
        `${path} reads ${key}`,
      );
  }
  for (const { path, text } of sourcesOf('gateway/*.ts'))
    assert.not.match(text, /\bdequantize|\.weight\b/, path);
});

test('the project stands alone: nothing in it names the machine it was made on', () => {
  for (const { path, text } of sourcesOf(
    'gateway/*.ts',
    'runner/*',
    'cpu-runner/*',
    'cuda-runner/*',
    'docs/*',
    'README.md',
    'Makefile',
  ))
    assert.not.match(text, /\/work\/|\/root\//, path);
});

test.run();
