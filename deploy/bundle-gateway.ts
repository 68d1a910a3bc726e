import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { BUNDLE, digestOf, isBundleCurrent, MANIFEST, sourceAt } from '../gateway/bundle.js';
import { bundlePlayground } from './bundle-playground.ts';
import { cacheName, type Program, writeCodeCache } from './code-cache.ts';
import { bundleOptions, NATIVE_PACKAGE, ROOT, sourceUrls } from './source-urls.ts';

/** Builds the bundle of gateway/bundle.js, the playground's page, and a file with the licences of the packages in them. */

const OUTDIR = fileURLToPath(BUNDLE);
const PROGRAMS = [
  'gateway/main.ts',
  'gateway/models/reader/reader-program.ts',
  'gateway/runner/kv-disk/keeper-program.ts',
];
const LOADER = 'cached-code.cjs';
/** The files that determine the bundle besides the sources in it. */
const RECIPE = [
  'deploy/bundle-gateway.ts',
  'deploy/bundle-playground.ts',
  'deploy/cached-code.cjs',
  'deploy/code-cache.ts',
  'deploy/source-urls.ts',
  'package-lock.json',
];
const PLAYGROUND = 'playground';

/** Does nothing if the bundle is up to date. */
export async function bundleGateway(): Promise<void> {
  if (isBundleCurrent()) return;
  const { metafile, outputFiles } = await build({
    ...bundleOptions,
    entryPoints: PROGRAMS,
    entryNames: '[name]',
    outdir: OUTDIR,
    plugins: [sourceUrls(OUTDIR)],
    write: false,
    // V8 takes cached code only of scripts, which modules are not.
    format: 'cjs',
    supported: { 'dynamic-import': false },
    define: { 'import.meta.url': 'bundleUrl', 'import.meta.resolve': 'urlOfPackage' },
    banner: { js: META },
  });
  const page = await bundlePlayground();
  const inputs = [...new Set([...Object.keys(metafile.inputs), ...page.inputs])].sort();
  const isPackage = (path: string) => path.startsWith('node_modules/');
  const paths = [...inputs.filter((path) => !isPackage(path)), ...RECIPE];
  const sources = paths.map(sourceAt);
  const digest = digestOf(paths);

  mkdirSync(join(OUTDIR, PLAYGROUND), { recursive: true });
  rmSync(join(OUTDIR, MANIFEST), { force: true });
  copyFileSync(join(ROOT, 'deploy', LOADER), join(OUTDIR, LOADER));
  const codes = outputFiles.map(({ path, text }) => codeOf(basename(path, '.js') as Program, inAscii(text)));
  for (const { name, code } of codes) replace(name, code);
  // A program is replaced last, when the code that it names exists. A start that comes before its cache does without.
  for (const { program, start } of codes) replace(`${program}.cjs`, start);
  const names = [LOADER, ...codes.flatMap(({ program, name }) => [`${program}.cjs`, name, cacheName(name)])];
  for (const name of readdirSync(OUTDIR))
    if (CODE.test(name) && !names.includes(name)) rmSync(join(OUTDIR, name));
  // index.html is replaced last, when the files that it names exist.
  for (const { name, text } of page.files.toReversed()) replace(join(PLAYGROUND, name), text);
  const pageNames = page.files.map(({ name }) => name);
  for (const name of readdirSync(join(OUTDIR, PLAYGROUND)))
    if (!pageNames.includes(name)) rmSync(join(OUTDIR, PLAYGROUND, name));
  const packages = copyNativePackage();
  replace('LICENSES.txt', licencesOf([...inputs.filter(isPackage), ...packages]));
  for (const { program, name } of codes) writeCodeCache(program, name);
  replace(MANIFEST, JSON.stringify({ sources, digest }));
}

/** What stands for import.meta. */
const META = `const { pathToFileURL } = require('node:url');
const bundleUrl = pathToFileURL(__filename).href;
const urlOfPackage = (name) => pathToFileURL(require.resolve(name)).href;`;

/** The names of files that have code or its cache. */
const CODE = /\.(c?js|cache)$/;

/**
 * The code of a program, and the file that starts it. V8 compares only the length of the code with that of its cache, so the
 * name of both has a digest of the code.
 */
function codeOf(program: Program, code: string) {
  const name = `${program}-${createHash('sha256').update(code).digest('hex').slice(0, 16)}.cjs`;
  const run = `run(compile('${name}'), '${name}')`;
  const started = program === 'main' ? `exports.main = ${run}.main;` : `${run};`;
  return { program, name, code, start: `const { compile, run } = require('./${LOADER}');\n${started}\n` };
}

/** esbuild leaves other characters in regular expressions and comments, and an escape means the same there. */
function inAscii(code: string): string {
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Replaces a file atomically: a program that starts meanwhile reads either the old file or the new one. */
function replace(name: string, text: string): void {
  const path = join(OUTDIR, name);
  const part = `${path}.${process.pid}`;
  writeFileSync(part, text);
  renameSync(part, path);
}

/**
 * Copies the package that is not in the bundle, and its dependencies, for Linux. Returns the paths of their package.json files.
 */
function copyNativePackage(): string[] {
  const paths = packagesOf(NATIVE_PACKAGE).map((name) => `node_modules/${name}`);
  for (const path of paths)
    cpSync(join(ROOT, path), join(OUTDIR, path), {
      recursive: true,
      filter: (source) => !/\/(deps|test|prebuilds\/(?!linux)[^/]*)$|\.(md|cc|gyp|ts)$/.test(source),
    });
  return paths.map((path) => `${path}/package.json`);
}

/** A package and all packages that it needs at run time. Each has a single version in the tree. */
function packagesOf(name: string, found: string[] = []): string[] {
  if (found.includes(name)) return found;
  found.push(name);
  const { dependencies = {} } = JSON.parse(
    readFileSync(join(ROOT, 'node_modules', name, 'package.json'), 'utf8'),
  ) as { dependencies?: Record<string, string> };
  for (const each of Object.keys(dependencies)) packagesOf(each, found);
  return found;
}

/** The licences of the packages that these files belong to. */
function licencesOf(files: readonly string[]): string {
  const folder = /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/;
  const packages = new Set(files.map((file) => folder.exec(file)?.[0] as string));
  return [...packages].map((path) => licenceOf(join(ROOT, path))).join(`\n${'-'.repeat(80)}\n\n`);
}

function licenceOf(path: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  const file = readdirSync(path).find((name) => /^licen[cs]e/i.test(name));
  if (license === undefined && file === undefined) throw new Error(`${path} does not name its licence.`);
  const text = file === undefined ? '' : `\n${readFileSync(join(path, file), 'utf8')}`;
  return `${name} ${version}: ${license}\n${text}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundleGateway();
