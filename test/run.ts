import { readFileSync, rmSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { bundleGateway } from '../deploy/bundle-gateway.ts';
import { bundleTests, TEST_BUNDLES } from './bundle.ts';
import { type CasesOutcome, type Command, outcomeOfPart, partsOf, runPart, together } from './doctest.ts';
import { ARM64_EMULATOR } from './fixtures/arm64.ts';
import { PROGRAMS, sourceFile } from './fixtures/program-list.ts';
import { alone, type Gate, hasOwnTarget, isOnlyInCheck, shortfalls, sideBySide } from './gates.ts';
import {
  type Finished,
  indented,
  outcomeOfCtest,
  outcomeOfProgram,
  outcomeOfUvu,
  run,
  skippedByCtest,
  Tally,
} from './tally.ts';

/**
 * Runs all tests and ends with one line of totals: static checks, the C++ tests, and each TypeScript test file in a
 * process of its own, so that a file that hangs or dies is one failure and not the end of the run. The programs of the
 * C++ tests are compiled while the TypeScript tests run, since many of these wait for timers.
 *
 * --build DIR       the CMake build whose tests to run
 * --check           runs what `make check` runs: the C++ tests of the builds sanitize and threads in DIR, and the gates
 * --arm64           runs what `make check-arm` runs: the tests of the build arm64 in DIR, under an emulator
 * --nightly         with --check: fuzzing runs at its full length
 * --since SECONDS   when the build of what is tested began, in seconds since 1970; the total time is counted from there
 * PATTERN           runs only the TypeScript files whose path contains PATTERN
 */

const FILE_TIMEOUT_MS = 300_000;
const GATE_TIMEOUT_MS = 1_800_000;
/** The processors that this process may use, which a container can limit. */
const NUM_PROCESSORS = availableParallelism();
/** Test files wait for processes and timers about a third of their time. */
const NUM_LANES = NUM_PROCESSORS + 1;

/** The emulated device looks for races on its memory too, which takes half as long again. Whole runners do not. */
const RACES = { RUNNEL_EMULATOR_RACES: '1' };
/** Tests of the emulator that run the operations of others many times. With sanitizers they take ten times as long. */
const WHOLE_MODELS =
  '*/cuda-runner/model_test*,*golden_models_test*,*checkpoint_test*,*costs_test*,*device_share_test*,*gpu_weight_types_test*';

const { values, positionals } = parseArgs({
  options: {
    build: { type: 'string', default: 'build' },
    check: { type: 'boolean', default: false },
    arm64: { type: 'boolean', default: false },
    nightly: { type: 'boolean', default: false },
    since: { type: 'string', default: String(Date.now() / 1000) },
  },
  allowPositionals: true,
});

const tally = new Tally();

type Job = () => Promise<void>;

function check(name: string, ...command: string[]): Job {
  return async () => {
    const finished = await run(command, {}, FILE_TIMEOUT_MS);
    tally.add(name, outcomeOfProgram(finished), finished);
  };
}

/** Tests of ctest: programs that are one test each. */
async function ctest(name: string, ...chosen: string[]): Promise<void> {
  const options = ['-j', String(NUM_PROCESSORS), '--output-on-failure', '--timeout'];
  const limits = [String(GATE_TIMEOUT_MS / 1000), ...chosen];
  const finished = await run(
    ['ctest', '--test-dir', values.build, ...options, ...limits],
    {},
    GATE_TIMEOUT_MS,
  );
  tally.add(name, outcomeOfCtest(finished), finished);
  for (const skipped of skippedByCtest(finished)) console.log(indented(`skipped: ${skipped}`));
}

/** The jobs of a program of C++ tests. The last one to end adds all of the program's cases as one entry. */
async function cases(command: Command, env: NodeJS.ProcessEnv = {}): Promise<Job[]> {
  const parts = await partsOf(command, FILE_TIMEOUT_MS);
  const startedMs = Date.now();
  const ended: (Finished & CasesOutcome)[] = [];
  return parts.map((part) => async () => {
    const finished = await runPart(command, part, env, GATE_TIMEOUT_MS);
    ended.push({ ...finished, ...outcomeOfPart(part, finished) });
    if (ended.length < parts.length) return;
    const outcome = together(ended);
    const broken = ended.filter(({ failed }) => failed > 0).map(({ output }) => output);
    const seconds = ((Date.now() - startedMs) / 1000).toFixed(1);
    tally.add(command.join(' '), outcome, { code: null, output: broken.join('\n'), seconds });
    for (const name of outcome.namesOfFailed) console.log(indented(`failed: ${name}`));
    for (const name of outcome.namesOfSkipped) console.log(indented(`skipped: ${name}`));
  });
}

/** Runs the bundle of a test file. `env` is added to the environment. */
function runTestFile(file: string, env: NodeJS.ProcessEnv, timeoutMs: number): Promise<Finished> {
  const bundle = join(TEST_BUNDLES, file.replace(/\.ts$/, '.js'));
  const variables = {
    FORCE_COLOR: '0',
    RUNNEL_TEST_BUNDLES: TEST_BUNDLES,
    XDG_STATE_HOME: join(TEST_BUNDLES, 'state'),
    ...env,
  };
  return run(['node', '--enable-source-maps', bundle], variables, timeoutMs);
}

async function testFile(file: string): Promise<void> {
  const finished = await runTestFile(file, {}, FILE_TIMEOUT_MS);
  tally.add(file, outcomeOfUvu(finished), finished);
}

async function runGate({ name, command, env, counts }: Gate): Promise<void> {
  const isTestFile = command === undefined;
  const finished = isTestFile
    ? await runTestFile(name, env, GATE_TIMEOUT_MS)
    : await run(command, env, GATE_TIMEOUT_MS);
  const outcome = isTestFile ? outcomeOfUvu(finished) : outcomeOfProgram(finished);
  const short =
    outcome.failed > 0 ? [] : shortfalls(`${finished.output}\n${outcome.passed} tests passed`, counts);
  tally.add(name, short.length > 0 ? { ...outcome, failed: 1 } : outcome, finished);
  for (const sentence of short) console.log(indented(sentence));
  // What a gate counted is printed even when it passed.
  if (outcome.failed === 0 && short.length === 0) console.log(indented(finished.output.trim()));
}

/** Starts the jobs in order, with at most NUM_LANES at a time. */
async function inLanes(jobs: readonly Job[]): Promise<void> {
  const queue = [...jobs];
  const lane = async (): Promise<void> => {
    for (let job = queue.shift(); job !== undefined; job = queue.shift()) await job();
  };
  await Promise.all(Array.from({ length: NUM_LANES }, lane));
}

async function listFiles(...patterns: string[]): Promise<string[]> {
  const command = ['git', 'ls-files', '--cached', '--others', '--exclude-standard', ...patterns];
  const { code, output } = await run(command, {}, FILE_TIMEOUT_MS);
  if (code !== 0) throw new Error(`Test files are found through git, which says: ${output}`);
  return output.split('\n').filter((line) => line !== '');
}

const silent: Finished = { code: null, output: 'It has a suite without .run().', seconds: '0.0' };

/** Whether the file has a suite that it never runs. uvu would not report it. */
function hasSilentSuite(file: string): boolean {
  const source = readFileSync(file, 'utf8');
  const count = (pattern: RegExp): number => source.match(pattern)?.length ?? 0;
  return count(/\.run\(\)/g) < Math.max(1, count(/^\s*const \w+ = (?:suite|\w+Suite)(<[^;]*>)?\(/gm));
}

/** Files that start real runners come first, since they take longest; then larger files before smaller ones. */
function longestFirst(files: readonly string[]): string[] {
  const isOfProcesses = (file: string) => file.startsWith('test/e2e/');
  const weight = (file: string) => statSync(file).size + (isOfProcesses(file) ? 1e9 : 0);
  return [...files].sort((a, b) => weight(b) - weight(a));
}

/** Compiles the programs of the C++ tests, with less right to the processors than the tests that run meanwhile. */
async function compile(): Promise<boolean> {
  const finished = await run(['nice', 'ninja', '-C', values.build], {}, GATE_TIMEOUT_MS);
  if (finished.code !== 0) tally.add('compiling the C++ tests', outcomeOfProgram(finished), finished);
  return finished.code === 0;
}

async function runTests(files: readonly string[]): Promise<void> {
  const sources = await listFiles('*.cc', '*.cu', '*.h');
  for (const file of files.filter(hasSilentSuite))
    tally.add(file, { passed: 0, failed: 1, skipped: 0 }, silent);
  const typescript = inLanes([
    check('types', 'npx', 'tsc'),
    check('lint and format of TypeScript', 'npx', 'biome', 'check', '--error-on-warnings'),
    check('format of C++', 'clang-format', '--dry-run', '-Werror', ...sources),
    ...longestFirst(files).map((file) => () => testFile(file)),
  ]);
  const isCompiled = await compile();
  await typescript;
  if (!isCompiled) return;
  await inLanes([
    () => ctest('other C++ tests', '-LE', 'check|nvcc'),
    ...(await cases([`${values.build}/cpu-runner-tests`])),
    ...(await cases([`${values.build}/runner-tests`])),
    ...(await cases([`${values.build}/cuda-runner-smoke`], RACES)),
  ]);
}

async function runGates(): Promise<void> {
  const sanitized = `${values.build}/sanitize`;
  await inLanes([
    () => ctest('other C++ tests', '-L', 'check|nvcc'),
    ...(await cases([`${values.build}/cuda-runner-tests`, `--source-file=${WHOLE_MODELS}`], RACES)),
    ...(await cases([`${sanitized}/cuda-runner-tests`, `--source-file-exclude=${WHOLE_MODELS}`], RACES)),
    ...(await cases([`${sanitized}/cpu-runner-tests`])),
    ...(await cases([`${sanitized}/runner-tests`])),
    ...(await cases([`${values.build}/threads/thread-tests`])),
    ...sideBySide(values.build, values.nightly).map((gate) => () => runGate(gate)),
  ]);
  for (const gate of alone) await runGate(gate);
}

async function runArm64(files: readonly string[]): Promise<void> {
  const emulated = (program: string, ...options: string[]): Command => [
    ARM64_EMULATOR,
    `${values.build}/arm64/${program}`,
    ...options,
  ];
  const exactness = emulated('exactness', '--cases', '500', '--seed', '1');
  // The memory of the process, and its pages, are the emulator's.
  const own = [
    '--source-file-exclude=*/memory_plan_test*',
    '--test-case-exclude=with several nodes pages are provided*,packed weights lie in huge pages*',
  ];
  await inLanes([
    ...files.map((name) => () => runGate({ name, command: undefined, env: {}, counts: {} })),
    ...(await cases(emulated('cpu-runner-tests', ...own))),
    ...(await cases(emulated('runner-tests', '--test-case=sandbox*'))),
    // Without the search for races: the emulator keeps a table of all pages that a program reserves, and it reserves terabytes.
    ...(await cases(emulated('cuda-runner-smoke'))),
    () => runGate({ name: 'exactness of random cases', command: exactness, env: {}, counts: { cases: 500 } }),
  ]);
}

const files = (await listFiles('test/*.test.ts')).filter(
  (file) => positionals.length === 0 || positionals.some((pattern) => file.includes(pattern)),
);
if (files.length === 0) throw new Error(`No test file has ${positionals.join(' or ')} in its path.`);
process.on('exit', () => rmSync(TEST_BUNDLES, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));
await Promise.all([bundleGateway(), bundleTests([...files, ...PROGRAMS.map(sourceFile)])]);
if (positionals.length > 0) {
  await inLanes(longestFirst(files).map((file) => () => testFile(file)));
} else if (values.check) {
  await runGates();
} else if (values.arm64) {
  await runArm64(files.filter((file) => file.startsWith('test/arm64/')));
} else {
  await runTests(files.filter((file) => !isOnlyInCheck(file) && !hasOwnTarget(file)));
}
tally.close(Date.now() / 1000 - Number(values.since), NUM_PROCESSORS);
