import { DEFAULT_MODEL, EXACTNESS, VOLTA_CHECK } from './fixtures/default-model.ts';

/**
 * What `make check` runs at full length. A gate prints how much it ran, and fails if that is less than its row
 * requires. Gates of `sideBySide` measure no time. Gates of `alone` need the whole machine.
 */

export interface Gate {
  /** For a test file: its path. */
  readonly name: string;
  /** undefined if the gate is a test file. */
  readonly command: readonly string[] | undefined;
  readonly env: NodeJS.ProcessEnv;
  /** The least that the gate must have counted. A count is the sum of the numbers before these words in its output. */
  readonly counts: Readonly<Record<string, number>>;
}

type Counts = Gate['counts'];

/** settings: values of the environment variables RUNNEL_TEST_*. */
function testFile(file: string, settings: Readonly<Record<string, number>>, counts: Counts): Gate {
  const env = Object.entries(settings).map(([name, value]) => [`RUNNEL_TEST_${name}`, String(value)]);
  return { name: file, command: undefined, env: Object.fromEntries(env), counts };
}

function program(name: string, command: readonly string[], counts: Counts): Gate {
  return { name, command, env: {}, counts };
}

/** The date in UTC as YYYYMMDD. The program prints it as its seed. */
export function seedOfTheDay(now: Date): string {
  return now.toISOString().slice(0, 10).replaceAll('-', '');
}

/**
 * Files of tests that `make test` leaves to `make check`, since they need programs or packages that take long to build
 * or to download.
 */
const ONLY_IN_CHECK = [
  'test/cuda-runner/kit/packed.test.ts',
  'test/e2e/backends.test.ts',
  'test/e2e/device-memory.test.ts',
  'test/e2e/haproxy.test.ts',
  'test/e2e/haproxy-routing.test.ts',
  'test/e2e/playground.test.ts',
  'test/e2e/python-agents.test.ts',
  'test/e2e/python-clients.test.ts',
  'test/fuzz/gateway-frames.test.ts',
  'test/gateway/tokenizer/llama-vocabularies.test.ts',
  'test/without-protobuf.test.ts',
];

export function isOnlyInCheck(file: string): boolean {
  return ONLY_IN_CHECK.includes(file);
}

/** Files of the targets `make check-arm` and `make check-packages`. */
export function hasOwnTarget(file: string): boolean {
  return file.startsWith('test/arm64/') || file.startsWith('test/packages/');
}

/** The processor time that a fuzz target has, unless it runs at full length. */
const FUZZ_SECONDS = 45;
/** A target that has read less than this part of its full length in that time has become too slow. */
const LEAST_FUZZED_PART = 1 / 20;

/** fullLength: how many `units` the target reads at full length. */
function fuzz(name: string, target: string, units: string, fullLength: number, isFullLength: boolean): Gate {
  const options = [
    '--units',
    String(fullLength),
    ...(isFullLength ? [] : ['--seconds', String(FUZZ_SECONDS)]),
  ];
  const least = isFullLength ? fullLength : fullLength * LEAST_FUZZED_PART;
  return program(name, [target, ...options], { [units]: least });
}

/**
 * build: the folder of the build, which has that with the sanitizers. isNightly: whether fuzzing has its full length.
 * Gates that take long come first, so that none of them runs alone at the end.
 */
export function sideBySide(build: string, isNightly: boolean): readonly Gate[] {
  const sanitized = `${build}/sanitize`;
  return [
    testFile(
      'test/e2e/kept-cache.test.ts',
      { KEPT_KILLS: 50, SURVIVOR_KILLS: 50, KEPT_STREAMS: 16, KEPT_WORDS: 1030 },
      { 'kills with kept caches': 100, 'kills of one of two runners': 100 },
    ),
    testFile('test/e2e/cut-points.test.ts', { CUT_STRIDE: 1 }, { cuts: 1270 }),
    testFile('test/e2e/kv-disk.test.ts', { DISK_KILLS: 10, DISK_PROMPTS: 20 }, { 'ends of the gateway': 20 }),
    testFile(
      'test/e2e/many-runners.test.ts',
      // RUNNEL_TEST_RUNNER_KILLS=1000 of this file is run by hand: it takes ten minutes.
      { RUNNER_KILLS: 200 },
      { 'kills with two runners': 200 },
    ),
    testFile('test/e2e/kills.test.ts', { KILLS: 50 }, { kills: 50 }),
    testFile('test/e2e/tensor-parallel.test.ts', { RANK_KILLS: 100 }, { 'kills of ranks': 300 }),
    testFile(
      'test/e2e/batches.test.ts',
      { BATCH_LINES: 500, BATCH_KILLS: 30 },
      { 'lines of a batch': 500, 'kills in a batch': 30 },
    ),
    testFile('test/e2e/durable.test.ts', { GATEWAY_KILLS: 100 }, { 'kills of the gateway': 100 }),
    testFile(
      'test/e2e/parked.test.ts',
      { PARKED: 1000 },
      { 'parked streams': 1000, 'kills around them': 50 },
    ),
    testFile('test/e2e/durable-cut-points.test.ts', { CUT_STRIDE: 1 }, { cuts: 600, parkings: 600 }),
    // The cases differ each day. They are so many that a run which meets a feature too rarely by chance is not expected in years.
    program(
      'exactness on the default model',
      [EXACTNESS, '--cases', '200', '--seed', seedOfTheDay(new Date()), '--model', DEFAULT_MODEL],
      { cases: 200 },
    ),
    // With so few cases a known seed must decide that they are varied enough.
    program('exactness under the sanitizers', [`${sanitized}/exactness`, '--cases', '200', '--seed', '1'], {
      cases: 200,
    }),
    fuzz('hostile model files', `${sanitized}/fuzz-gguf`, 'files', 200_000, isNightly),
    fuzz('hostile model folders', `${sanitized}/fuzz-folder`, 'folders', 100_000, isNightly),
    fuzz('hostile frames towards the runner', `${sanitized}/fuzz-commands`, 'frames', 1_000_000, isNightly),
    fuzz('hostile frames towards the gateway', `${sanitized}/fuzz-events`, 'frames', 20_000, isNightly),
    program(
      'mutated indexes of KV caches',
      [`${build}/fuzz-kv-index`, '--units', '1000000', '--seed', seedOfTheDay(new Date())],
      { indexes: 1_000_000 },
    ),
    fuzz('the same under the sanitizers', `${sanitized}/fuzz-kv-index`, 'indexes', 1_000_000, isNightly),
    testFile('test/fuzz/gateway-frames.test.ts', { FUZZ_FRAMES: 1_000_000 }, { frames: 1_000_000 }),
    program('kernels for compute capability 7.0', [VOLTA_CHECK], { kernels: 50 }),
    testFile('test/e2e/native-api.test.ts', { EMULATED: 1 }, { 'tests passed': 16 }),
    testFile('test/e2e/backends.test.ts', {}, { 'tests passed': 8 }),
    testFile('test/e2e/device-memory.test.ts', {}, { 'tests passed': 2 }),
    testFile('test/cuda-runner/kit/packed.test.ts', {}, { 'steps of a packed kit': 8 }),
    testFile('test/without-protobuf.test.ts', {}, { 'tests passed': 2 }),
    // This count includes the template that `make test` does not fetch.
    testFile('test/gateway/prompt/model-templates.test.ts', {}, { prompts: 380 }),
    testFile('test/gateway/runner/supervision/simulation.test.ts', { SEEDS: 5000 }, { seeds: 5000 }),
    testFile('test/gateway/models/simulation.test.ts', { SEEDS: 1000 }, { seeds: 1000 }),
    testFile('test/gateway/jobs/simulation.test.ts', { SEEDS: 500 }, { seeds: 500 }),
    testFile('test/gateway/tokenizer/vocabularies.test.ts', {}, { vocabularies: 10 }),
    testFile('test/gateway/tokenizer/llama-vocabularies.test.ts', {}, { cases: 600 }),
    testFile('test/e2e/python-clients.test.ts', {}, { 'things of Python clients': 30 }),
    // With the snippets of documents in Python, whose packages `make test` does not fetch.
    testFile('test/e2e/guides.test.ts', {}, { 'tests passed': 17 }),
    testFile('test/e2e/python-agents.test.ts', {}, { 'things of Python clients': 55 }),
    testFile('test/deploy/containers.test.ts', {}, { 'manifests are valid': 13 }),
    testFile('test/e2e/haproxy.test.ts', {}, { 'streams ended with the gateway': 6 }),
    testFile('test/e2e/haproxy-routing.test.ts', {}, { 'tests passed': 21 }),
    testFile('test/e2e/playground.test.ts', {}, { 'walks of the playground': 7 }),
    testFile(
      'test/e2e/structured-output.test.ts',
      { SCHEMAS: 100, SCHEMA_KILLS: 15 },
      { schemas: 100, 'kills in': 15 },
    ),
    testFile('test/e2e/tool-families.test.ts', { TOOL_SEEDS: 4 }, { 'calls of tools': 16 }),
    testFile('test/gateway/api/random-bodies.test.ts', { BODIES: 100_000 }, { bodies: 100_000 }),
    testFile('test/gateway/server/aborts.test.ts', { ABORTS: 1000 }, { aborts: 1000 }),
  ];
}

export const alone: readonly Gate[] = [
  // Each flood lasts a minute.
  testFile('test/e2e/hostile-runner.test.ts', { FLOOD_SECONDS: 60 }, { 'seconds of': 3 * 60 }),
  testFile(
    'test/gateway/server/overload.test.ts',
    { OVERLOAD: 10_000, STORM: 10_000 },
    { requests: 10_000, 'clients left': 10_000 },
  ),
];

/** One sentence for each count that is too small. */
export function shortfalls(output: string, counts: Counts): string[] {
  return Object.entries(counts).flatMap(([words, wanted]) => {
    const found = [...output.matchAll(new RegExp(`(\\d+) ${words}\\b`, 'g'))];
    const counted = found.reduce((sum, [, count]) => sum + Number(count), 0);
    return counted < wanted ? [`The gate counted ${counted} ${words}; it must be ${wanted} at least.`] : [];
  });
}
