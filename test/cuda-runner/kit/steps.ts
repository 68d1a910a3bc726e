import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { Step } from './step.ts';

/** Everything that the kit finds out, in the order in which it is worth most if the time ends early. */

const CUDA_RUNNER = 'build/cuda-runner';
const DEVICE_TESTS = 'build/cuda-device-tests';
/** A model with a tokenizer, for the gateway; it also takes the place of larger ones where the device is emulated. */
const TINY_MODEL = 'test/golden/tiny-llama-q8_0.gguf';
const TINY_CONTEXT_TOKENS = 512;
const SANITIZERS = ['memcheck', 'synccheck', 'racecheck'];
const SAMPLED = ['--temperature', '0.8', '--top-k', '40', '--top-p', '0.95'];

/** $0: the runner; $1: the file; the others: flags of synth. A file that is there is complete. */
const WRITE_MODEL =
  'file=$1; shift; rm -f "$file.part" && "$0" synth "$@" "$file.part" && mv "$file.part" "$file"';

/**
 * The files of the tests for a device, by what they test: those in test/cuda-runner and in its folder kernels. Each is a step, so
 * that one which ends the process does not take the others with it.
 */
export const DEVICE_TEST_FILES: readonly string[] = [
  ...['golden_models', 'model', 'checkpoint', 'product', 'normed_product'],
  ...['attend', 'experts', 'norm', 'embed', 'feed'],
  ...['make_ready', 'rope_angles', 'rope_store', 'soft_cap', 'device_sampler', 'device_weights'],
  ...['device_weight_upload', 'device_defaults', 'attend_plan', 'step_ahead', 'packing_threads'],
  ...['kernel_bench', 'device_experts'],
];
/** The emulator takes minutes for all of them, and `make check` runs them. */
const EMULATED_TEST_FILES = ['checkpoint'];
/** Kernels alone, since a sanitizer takes long and sees nothing else. */
const SANITIZED = ['-sf=*kernels/*,*device_sampler_test*,*device_experts_test*'];

/** A model whose speed is measured. */
interface Subject {
  readonly name: string;
  readonly path: string;
  readonly batches: string;
  readonly promptTokens: number;
  readonly generatedTokens: number;
  /** The step that writes it. */
  readonly needs?: string;
}

/** work: the folder for models of random weights. isEmulated: the device is, and only a tiny model is fast enough. */
export function allSteps(work: string, isEmulated: boolean, path = process.env.PATH ?? ''): readonly Step[] {
  return [
    { name: 'probe', limitSec: 60, command: [CUDA_RUNNER, 'devices', '--json'], defaults: [], figures: json },
    programStep('driver', 30, 'nvidia-smi', path, [], ['-q']),
    ...bits(isEmulated),
    ...(isEmulated ? emulatedSpeeds() : deviceSpeeds(work, sanitizers(path))),
    ...(isEmulated ? sanitizers(path) : []),
  ];
}

/** Whether what is computed is right. The steps run at the same time. */
function bits(isEmulated: boolean): Step[] {
  const group = 'bits';
  const files = isEmulated ? EMULATED_TEST_FILES : DEVICE_TEST_FILES;
  return [
    ...files.map((file) => ({
      name: `tests: ${file}`,
      limitSec: 300,
      command: [DEVICE_TESTS],
      defaults: [`-sf=*/${file}_test.cc`],
      figures: doctestCounts,
      group,
    })),
    {
      name: 'exactness',
      limitSec: 300,
      command: ['build/exactness-cuda'],
      defaults: ['--cases', '500', ...(isEmulated ? ['--case', '0'] : [])],
      group,
    },
    { ...gatewayStep('gateway', TINY_MODEL, isEmulated ? ['40', '2'] : ['300', '9']), group },
  ];
}

function gatewayStep(name: string, model: string, defaults: readonly string[]): Step {
  return {
    name,
    limitSec: 240,
    command: [process.execPath, 'gateway-check.js'],
    defaults: [model, ...defaults],
    figures: json,
  };
}

function sanitizers(path: string): Step[] {
  return SANITIZERS.map((tool) => ({
    ...programStep(tool, 150, 'compute-sanitizer', path, sanitized(tool), SANITIZED),
    group: 'sanitizers',
  }));
}

function sanitized(tool: string): string[] {
  return ['--tool', tool, '--error-exitcode', '1', DEVICE_TESTS];
}

/** A model of random weights. */
interface RandomSubject extends Subject {
  readonly architecture: string;
  readonly shape: string;
  readonly type: string;
  readonly needs: string;
}

/** check: steps that come before those that take longest. */
function deviceSpeeds(work: string, check: readonly Step[]): Step[] {
  const subject = (architecture: string, shape: string, type: string): RandomSubject => ({
    architecture,
    shape,
    type,
    name: `${shape} ${type}`,
    path: join(work, `${shape}-${type}.gguf`),
    batches: '1,8,32,256',
    promptTokens: 512,
    generatedTokens: 128,
    needs: `${shape} ${type}: written`,
  });
  const measured = (model: RandomSubject): Step[] => [written(model), ...speeds(model)];
  const worked = (model: RandomSubject, ...kvCacheTypes: string[]): Step[] => [
    written(model),
    ...kvCacheTypes.map((type) => workload(model, type)),
  ];
  const first = subject('llama', '1b', 'q4_1');
  const largest = subject('llama', '8b', 'q4_0');
  return [
    ...measured(first),
    { ...gatewayStep(`${first.name}: gateway`, first.path, ['200', '3']), needs: first.needs },
    start(first),
    ...check,
    // The model that nano-vLLM's own figures are of.
    ...worked(subject('qwen3', '0.6b', 'bf16'), 'f16'),
    ...worked(subject('qwen3', '0.6b', 'q8_0'), 'f16', 'q8_0'),
    ...measured(largest),
    start(largest),
    ...measured(subject('llama', '1b', 'bf16')),
  ];
}

function written({ needs, path, architecture, shape, type }: RandomSubject): Step {
  const flags = ['--arch', architecture, '--shape', shape, '--type', type, '--byte-tokenizer'];
  return {
    name: needs,
    limitSec: 300,
    command: ['sh', '-c', WRITE_MODEL, CUDA_RUNNER, path, ...flags],
    defaults: [],
    ...(existsSync(path) ? { obstacle: `${path} is there.` } : {}),
  };
}

function emulatedSpeeds(): Step[] {
  const tiny = { name: 'tiny', path: TINY_MODEL, batches: '1,2', promptTokens: 16, generatedTokens: 4 };
  const obstacle = `The model for an emulated device has a context of ${TINY_CONTEXT_TOKENS} tokens, and requests need 2,048.`;
  return [...speeds(tiny), start(tiny), { ...workload(tiny, 'f16'), obstacle }];
}

/** Its kernels by themselves, then whole steps. */
function speeds({ name, path, batches, promptTokens, generatedTokens, needs }: Subject): Step[] {
  const step = (what: string, defaults: readonly string[]): Step => ({
    name: `${name}: ${what}`,
    limitSec: 300,
    command: [CUDA_RUNNER, 'bench', '--model', path, '--json'],
    defaults,
    figures: json,
    ...(needs === undefined ? {} : { needs }),
  });
  const sizes = ['--prompt', `${promptTokens}`, '--batch', batches];
  const whole = [...sizes, '--generate', `${generatedTokens}`];
  return [
    step('kernels', ['--kernels', ...sizes]),
    step('greedy', whole),
    step('sampled', [...whole, ...SAMPLED]),
  ];
}

/** nano-vLLM's 256 requests. The first run captures the graphs of all numbers of rows. */
function workload({ name, path, needs }: Subject, kvCacheType: string): Step {
  return {
    name: `${name}: workload, cache of ${kvCacheType}`,
    limitSec: 300,
    command: [CUDA_RUNNER, 'bench', '--model', path, '--json', '--workload', '--kv-cache-type', kvCacheType],
    defaults: ['--max-num-seqs', '256', '--warmup', '1', '--iters', '2'],
    figures: json,
    ...(needs === undefined ? {} : { needs }),
  };
}

/** The parts of a start, of which the second has the file in memory, as the start of a runner after a death has. */
function start({ name, path, needs }: Subject): Step {
  return {
    name: `${name}: start`,
    limitSec: 120,
    command: ['sh', '-c', '"$0" "$@" && "$0" "$@"', CUDA_RUNNER, 'generate', '--model', path],
    defaults: ['--tokens', '5,6,7', '--max-tokens', '4', '--start-times'],
    figures: startTimes,
    ...(needs === undefined ? {} : { needs }),
  };
}

/** A step by a program of the machine. */
function programStep(
  name: string,
  limitSec: number,
  program: string,
  path: string,
  args: readonly string[],
  defaults: readonly string[],
): Step {
  const folders = [...path.split(delimiter), '/usr/local/cuda/bin'];
  const found = folders.map((folder) => join(folder, program)).find(existsSync);
  const obstacle = found === undefined ? { obstacle: `${program} is not installed.` } : {};
  return { name, limitSec, command: [found ?? program, ...args], defaults, ...obstacle };
}

function json(stdout: string): unknown {
  return JSON.parse(stdout);
}

/** The counts in doctest's last lines. */
function doctestCounts(stdout: string): unknown {
  const [, passed, failed] = /test cases:[^\n]*?(\d+) passed \|\s*(\d+) failed/.exec(stdout) ?? [];
  if (passed === undefined) throw new Error('there are no counts of cases.');
  if (Number(passed) + Number(failed) === 0) throw new Error('no case was run.');
  return { cases_passed: Number(passed), cases_failed: Number(failed) };
}

/** The lines of --start-times, as they are. */
function startTimes(_stdout: string, output: string): unknown {
  const lines = output.split('\n').filter((line) => /^(The model was loaded|A graph of)/.test(line));
  if (lines.length === 0) throw new Error('there are no times of a start.');
  return lines;
}
