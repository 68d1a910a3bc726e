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

/** $0: the runner; $1: the file; $2, $3, $4: architecture, shape and type. A file that is there is complete. */
const WRITE_MODEL =
  'rm -f "$1.part" && "$0" synth --arch "$2" --shape "$3" --type "$4" "$1.part" && mv "$1.part" "$1"';

/** A model whose speed is measured. */
interface Subject {
  readonly name: string;
  readonly path: string;
  readonly batches: string;
  readonly promptTokens: number;
  readonly generatedTokens: number;
}

/** work: the folder for models of random weights. isEmulated: the device is, and only a tiny model is fast enough. */
export function allSteps(work: string, isEmulated: boolean, path = process.env.PATH ?? ''): readonly Step[] {
  return [
    { name: 'probe', limitSec: 60, command: [CUDA_RUNNER, 'devices', '--json'], defaults: [], figures: json },
    programStep('driver', 30, 'nvidia-smi', path, ['-q']),
    {
      name: 'kernels and models',
      limitSec: 300,
      command: [DEVICE_TESTS],
      // The emulator takes minutes for all of them, and `make check` runs them.
      defaults: isEmulated ? ['-sf=*golden_models_test.cc'] : [],
      figures: doctestCounts,
    },
    {
      name: 'exactness',
      limitSec: 300,
      command: ['build/exactness-cuda'],
      defaults: ['--cases', '500', ...(isEmulated ? ['--case', '0'] : [])],
    },
    {
      name: 'gateway',
      limitSec: 240,
      command: [process.execPath, 'gateway-check.js'],
      defaults: [TINY_MODEL, ...(isEmulated ? ['40', '2'] : ['300', '9'])],
      figures: json,
    },
    ...(isEmulated ? emulatedSpeeds() : deviceSpeeds(work)),
    ...SANITIZERS.map((tool) =>
      programStep(tool, 600, 'compute-sanitizer', path, [
        ...['--tool', tool, '--error-exitcode', '1'],
        DEVICE_TESTS,
      ]),
    ),
  ];
}

/** A model of random weights. */
interface RandomSubject extends Subject {
  readonly architecture: string;
  readonly shape: string;
  readonly type: string;
}

function deviceSpeeds(work: string): Step[] {
  const subject = (architecture: string, shape: string, type: string): RandomSubject => ({
    architecture,
    shape,
    type,
    name: `${shape} ${type}`,
    path: join(work, `${shape}-${type}.gguf`),
    batches: '1,8,32,256',
    promptTokens: 512,
    generatedTokens: 128,
  });
  const measured = (model: RandomSubject): Step[] => [written(model), ...speeds(model)];
  const worked = (model: RandomSubject, ...kvCacheTypes: string[]): Step[] => [
    written(model),
    ...kvCacheTypes.map((type) => workload(model, type)),
  ];
  return [
    ...measured(subject('llama', '1b', 'q4_1')),
    // The model that nano-vLLM's own figures are of.
    ...worked(subject('qwen3', '0.6b', 'bf16'), 'f16'),
    ...worked(subject('qwen3', '0.6b', 'q8_0'), 'f16', 'q8_0'),
    ...measured(subject('llama', '8b', 'q4_0')),
    ...measured(subject('llama', '1b', 'bf16')),
  ];
}

function written({ name, path, architecture, shape, type }: RandomSubject): Step {
  return {
    name: `${name}: written`,
    limitSec: 300,
    command: ['sh', '-c', WRITE_MODEL, CUDA_RUNNER, path, architecture, shape, type],
    defaults: [],
    ...(existsSync(path) ? { obstacle: `${path} is there.` } : {}),
  };
}

function emulatedSpeeds(): Step[] {
  const tiny = { name: 'tiny', path: TINY_MODEL, batches: '1,2', promptTokens: 16, generatedTokens: 4 };
  const obstacle = `The model for an emulated device has a context of ${TINY_CONTEXT_TOKENS} tokens, and requests need 2,048.`;
  return [...speeds(tiny), { ...workload(tiny, 'f16'), obstacle }];
}

/** Its kernels by themselves, then whole steps. */
function speeds({ name, path, batches, promptTokens, generatedTokens }: Subject): Step[] {
  const step = (what: string, defaults: readonly string[]): Step => ({
    name: `${name}: ${what}`,
    limitSec: 300,
    command: [CUDA_RUNNER, 'bench', '--model', path, '--json'],
    defaults,
    figures: json,
  });
  const sizes = ['--prompt', `${promptTokens}`, '--batch', batches];
  const whole = [...sizes, '--generate', `${generatedTokens}`];
  return [
    step('kernels', ['--kernels', ...sizes]),
    step('greedy', whole),
    step('sampled', [...whole, ...SAMPLED]),
  ];
}

/** nano-vLLM's 256 requests. */
function workload({ name, path }: Subject, kvCacheType: string): Step {
  return {
    name: `${name}: workload, cache of ${kvCacheType}`,
    limitSec: 300,
    command: [CUDA_RUNNER, 'bench', '--model', path, '--json', '--workload', '--kv-cache-type', kvCacheType],
    defaults: ['--max-num-seqs', '256', '--warmup', '0', '--iters', '2'],
    figures: json,
  };
}

/** A step by a program of the machine. */
function programStep(
  name: string,
  limitSec: number,
  program: string,
  path: string,
  defaults: readonly string[],
): Step {
  const folders = [...path.split(delimiter), '/usr/local/cuda/bin'];
  const found = folders.map((folder) => join(folder, program)).find(existsSync);
  const obstacle = found === undefined ? { obstacle: `${program} is not installed.` } : {};
  return { name, limitSec, command: [found ?? program], defaults, ...obstacle };
}

function json(stdout: string): unknown {
  return JSON.parse(stdout);
}

/** The counts in doctest's last lines. */
function doctestCounts(stdout: string): unknown {
  const [, passed, failed] = /test cases:[^\n]*?(\d+) passed \|\s*(\d+) failed/.exec(stdout) ?? [];
  if (passed === undefined) throw new Error('there are no counts of cases.');
  return { cases_passed: Number(passed), cases_failed: Number(failed) };
}
