import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { DEFAULT_MODEL, EXACTNESS } from './fixtures/default-model.ts';

/**
 * Runs everything there is to run and closes with one line over all of it: static checks, the C++ tests through
 * ctest, and each TypeScript test file in a process of its own, so that a file that hangs or dies is one failure and
 * not the end of the run.
 *
 * --build DIR   the CMake build whose tests to run
 * --check       the slower gates instead: the C++ tests (of a sanitizer build), exactness on the default model, kills and
 *               simulation; each must say how much it ran
 * --gates       the slowest instead, by hand: the fuzzers (of a sanitizer build), and all that dies, cuts, poisons and
 *               overloads at full length
 * --threads-build DIR   with --gates: the build of the tests that ThreadSanitizer watches
 * PATTERN       only TypeScript files whose path contains it, and nothing else
 */

const FILE_TIMEOUT_MS = 300_000;
const GATE_TIMEOUT_MS = 900_000;

/** A test file at full length, and what it must then say that it counted, over all its lines. */
interface Gate {
  readonly file: string;
  readonly env: NodeJS.ProcessEnv;
  readonly atLeast: number;
  readonly of: string;
}

const CHECK_GATES: readonly Gate[] = [
  { file: 'test/e2e/kills.test.ts', env: { RUNNEL_TEST_KILLS: '20' }, atLeast: 20, of: 'kills' },
  {
    file: 'test/gateway/runner/simulation.test.ts',
    env: { RUNNEL_TEST_SEEDS: '5000' },
    atLeast: 5000,
    of: 'seeds',
  },
];
const GATES: readonly Gate[] = [
  {
    file: 'test/fuzz/gateway-frames.test.ts',
    env: { RUNNEL_TEST_FUZZ_FRAMES: '1000000' },
    atLeast: 1_000_000,
    of: 'frames',
  },
  {
    file: 'test/gateway/routes/overload.test.ts',
    env: { RUNNEL_TEST_OVERLOAD: '10000', RUNNEL_TEST_STORM: '10000' },
    atLeast: 10_000,
    of: 'requests',
  },
  { file: 'test/e2e/kills.test.ts', env: { RUNNEL_TEST_KILLS: '50' }, atLeast: 50, of: 'kills' },
  { file: 'test/e2e/orphans.test.ts', env: { RUNNEL_TEST_KILLS: '100' }, atLeast: 100, of: 'kills' },
  { file: 'test/e2e/cut-points.test.ts', env: { RUNNEL_TEST_CUT_STRIDE: '1' }, atLeast: 1270, of: 'cuts' },
  { file: 'test/e2e/deaths.test.ts', env: { RUNNEL_TEST_ROUNDS: '100' }, atLeast: 700, of: 'rounds' },
  { file: 'test/e2e/poison.test.ts', env: { RUNNEL_TEST_ROUNDS: '100' }, atLeast: 100, of: 'rounds' },
  {
    file: 'test/gateway/runner/poison.test.ts',
    env: { RUNNEL_TEST_ROUNDS: '100' },
    atLeast: 100,
    of: 'rounds',
  },
];
/** What each fuzzer must have read in --gates. */
const FUZZED_IN_GATES = { 'fuzz-gguf': 200_000, 'fuzz-commands': 1_000_000 };
/** So few cases might meet too few events by chance: the seed is always the same. */
const EXACTNESS_IN_CHECK = ['--cases', '50', '--seed', '1', '--model', DEFAULT_MODEL];

interface Outcome {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

interface Finished {
  readonly code: number | null;
  readonly output: string;
  readonly seconds: string;
}

const { values, positionals } = parseArgs({
  options: {
    build: { type: 'string', default: 'build' },
    'threads-build': { type: 'string' },
    check: { type: 'boolean', default: false },
    gates: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});

const total = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];

function run(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  timeoutMs = FILE_TIMEOUT_MS,
): Promise<Finished> {
  const startedMs = Date.now();
  const { promise, resolve } = withResolvers<Finished>();
  // A group of its own, so that what a hanging test has started goes with it.
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
    detached: true,
  });
  const timer = setTimeout(() => {
    output += `\ntimed out after ${timeoutMs / 1000} s`;
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  }, timeoutMs);
  let output = '';
  const collect = (chunk: Buffer): void => {
    output += chunk.toString();
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  child.on('error', (error) => collect(Buffer.from(String(error))));
  child.on('close', (code) => {
    clearTimeout(timer);
    resolve({ code, output, seconds: ((Date.now() - startedMs) / 1000).toFixed(1) });
  });
  return promise;
}

function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

function report(name: string, { passed, failed, skipped }: Outcome, { output, seconds }: Finished): void {
  total.passed += passed;
  total.failed += failed;
  total.skipped += skipped;
  if (failed > 0) failures.push(name);
  const skips = skipped > 0 ? `, ${skipped} skipped` : '';
  console.log(
    `${failed > 0 ? 'FAIL' : 'ok  '} ${name}: ${passed} passed, ${failed} failed${skips} (${seconds} s)`,
  );
  if (failed > 0) console.log(output.replace(/^/gm, '     '));
}

/** A command that is good if it ends with status 0. */
async function check(name: string, command: string, args: readonly string[]): Promise<Finished> {
  const finished = await run(command, args);
  const good = finished.code === 0;
  report(name, { passed: good ? 1 : 0, failed: good ? 0 : 1, skipped: 0 }, finished);
  return finished;
}

async function ctest(name: string, build: string): Promise<void> {
  const finished = await run('ctest', [
    '--test-dir',
    build,
    '-j',
    '2',
    '--output-on-failure',
    '--timeout',
    '120',
  ]);
  const summary = /(\d+) tests failed out of (\d+)/.exec(finished.output);
  const failed = Number(summary?.[1] ?? 0);
  const ran = Number(summary?.[2] ?? 0);
  const broken = ran === 0 || (finished.code !== 0 && failed === 0);
  report(name, { passed: ran - failed, failed: broken ? 1 : failed, skipped: 0 }, finished);
}

/** Fails also when it read less than it was asked to. The first number of its last line is how much that was. */
async function fuzz(name: string, units: number): Promise<void> {
  const finished = await run(`${values.build}/${name}`, ['--units', String(units)]);
  const lastLine = finished.output.trimEnd().split('\n').at(-1) ?? '';
  const good = finished.code === 0 && Number.parseInt(lastLine, 10) >= units;
  report(name, { passed: good ? 1 : 0, failed: good ? 0 : 1, skipped: 0 }, finished);
  console.log(`     ${lastLine}`);
}

function runTest(file: string, env: NodeJS.ProcessEnv, timeoutMs: number): Promise<Finished> {
  return run('node', ['--import', 'tsx', file], { FORCE_COLOR: '0', ...env }, timeoutMs);
}

function outcomeOf({ code, output }: Finished): Outcome {
  const count = (label: string): number => Number(new RegExp(`${label}:\\s+(\\d+)`).exec(output)?.[1] ?? 0);
  const ran = count('Total');
  const passed = count('Passed');
  // A file that ends well without having run a test has forgotten its `.run()`.
  const failed = Math.max(ran - passed, code !== 0 || ran === 0 ? 1 : 0);
  return { passed, failed, skipped: count('Skipped') };
}

async function testFile(file: string): Promise<void> {
  const finished = await runTest(file, {}, FILE_TIMEOUT_MS);
  report(file, outcomeOf(finished), finished);
}

/** One at a time: what kills and counts wants the machine for itself. */
async function runGate({ file, env, atLeast, of }: Gate): Promise<void> {
  const finished = await runTest(file, env, GATE_TIMEOUT_MS);
  const counts = [...finished.output.matchAll(new RegExp(`(\\d+) ${of}\\b`, 'g'))];
  const counted = counts.reduce((sum, [, count]) => sum + Number(count), 0);
  const outcome = outcomeOf(finished);
  const isShort = outcome.failed === 0 && counted < atLeast;
  report(file, isShort ? { ...outcome, failed: 1 } : outcome, finished);
  if (isShort) console.log(`     The gate counted ${counted} ${of}; it must be ${atLeast} at least.`);
  else if (outcome.failed === 0) console.log(finished.output.trim().replace(/^/gm, '     '));
}

async function testFiles(files: readonly string[]): Promise<void> {
  const queue = [...files];
  const worker = async (): Promise<void> => {
    for (let file = queue.shift(); file !== undefined; file = queue.shift()) await testFile(file);
  };
  await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, worker));
}

async function listFiles(...patterns: string[]): Promise<string[]> {
  const { code, output } = await run('git', [
    'ls-files',
    '--cached',
    '--others',
    '--exclude-standard',
    ...patterns,
  ]);
  if (code !== 0) throw new Error(`Test files are found through git, which says: ${output}`);
  return output.split('\n').filter((line) => line !== '');
}

/** Whether a suite of the file is never run: uvu says nothing about it. */
function hasSilentSuite(file: string): boolean {
  const source = readFileSync(file, 'utf8');
  const count = (pattern: RegExp): number => source.match(pattern)?.length ?? 0;
  return count(/\.run\(\)/g) < Math.max(1, count(/= suite(<[^;]*>)?\(/g));
}

const files = await listFiles('test/*.test.ts');
if (positionals.length > 0) {
  const chosen = files.filter((file) => positionals.some((pattern) => file.includes(pattern)));
  if (chosen.length === 0) throw new Error(`No test file has ${positionals.join(' or ')} in its path.`);
  await testFiles(chosen);
} else if (values.check) {
  await ctest('C++ tests', values.build);
  // What its cases met is worth seeing in any case.
  const { code, output } = await check('exactness on the default model', EXACTNESS, EXACTNESS_IN_CHECK);
  if (code === 0) console.log(output.replace(/^/gm, '     '));
  for (const gate of CHECK_GATES) await runGate(gate);
} else if (values.gates) {
  const threadsBuild = values['threads-build'];
  if (threadsBuild !== undefined) await ctest('C++ tests with threads', threadsBuild);
  await Promise.all(Object.entries(FUZZED_IN_GATES).map(([name, units]) => fuzz(name, units)));
  for (const gate of GATES) await runGate(gate);
} else {
  await check('types', 'npx', ['tsc']);
  await check('lint and format of TypeScript', 'npx', ['biome', 'check', '--error-on-warnings']);
  await check('format of C++', 'clang-format', [
    '--dry-run',
    '-Werror',
    ...(await listFiles('*.cc', '*.cu', '*.h')),
  ]);
  await ctest('C++ tests', values.build);
  // Those that start the real runner go last and alone: they want the machine for themselves.
  await testFiles(files.filter((file) => !file.startsWith('test/e2e/')));
  for (const file of files.filter((name) => name.startsWith('test/e2e/'))) await testFile(file);
  const silent = files.filter(hasSilentSuite);
  for (const file of silent) console.log(`FAIL ${file} has a suite without .run()`);
  total.failed += silent.length;
}

if (failures.length > 0) console.log(`\nFailed: ${failures.join(', ')}`);
console.log(`\n${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exitCode = total.failed > 0 ? 1 : 0;
