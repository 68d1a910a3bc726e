import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ROOT } from '../../../deploy/source-urls.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { chosenSteps, runSteps } from './kit.ts';
import type { StepResult } from './results.ts';
import type { Step } from './step.ts';
import { allSteps, DEVICE_TEST_FILES } from './steps.ts';

/** The kit's steps, with programs of the shell in place of those for a device. */

const test = suite('cuda kit');

const LIMIT_SEC = 60;
const SHORT_SEC = 0.2;

const shell = (name: string, script: string, more: Partial<Step> = {}): Step => ({
  name,
  limitSec: LIMIT_SEC,
  command: ['sh', '-c', script, 'sh'],
  defaults: [],
  ...more,
});

const json = (stdout: string): unknown => JSON.parse(stdout);

interface Run {
  readonly hasPassed: boolean;
  readonly results: readonly StepResult[];
  readonly log: string;
}

async function run(steps: readonly Step[], how: object = {}, out = temporaryFolder().path): Promise<Run> {
  const hasPassed = await runSteps(steps, { out, about: {}, ...how });
  const file = JSON.parse(readFileSync(join(out, 'results.json'), 'utf8')) as { steps: StepResult[] };
  return { hasPassed, results: file.steps, log: readFileSync(join(out, 'log.txt'), 'utf8') };
}

const statuses = ({ results }: Run): string[] => results.map(({ name, status }) => `${name}: ${status}`);

test('each step runs, whatever became of those before it, and the results say how each ended', async () => {
  const done = await run([
    shell('good', 'echo \'{"speed": 3}\'', { figures: json }),
    shell('bad', 'echo why >&2; exit 7'),
    shell('mute', 'true', { figures: json }),
    shell('garbled', 'echo speed', { figures: json }),
    { ...shell('absent', ''), command: ['/nonexistent/program'] },
    shell('impossible', 'true', { obstacle: 'The tool is not installed.' }),
    shell('last', 'true'),
  ]);
  assert.equal(statuses(done), [
    'good: passed',
    'bad: failed',
    'mute: passed',
    'garbled: failed',
    'absent: failed',
    'impossible: not run',
    'last: passed',
  ]);
  assert.is(done.hasPassed, false);
  const [good, bad, , garbled, absent, impossible] = done.results as StepResult[];
  assert.equal(good?.figures, { speed: 3 });
  assert.is(bad?.reason, 'It exited with 7.');
  assert.is(bad?.output, 'why\n');
  assert.match(String(garbled?.reason), 'Its output is not what was expected');
  assert.match(String(absent?.reason), 'ENOENT');
  assert.is(impossible?.reason, 'The tool is not installed.');
  assert.match(done.log, '== bad: sh -c echo why >&2; exit 7 sh\nwhy\n');
});

test('a step that hangs is killed at its limit with what it started, and the others run', async () => {
  const hangs = shell('hangs', 'echo begun; sleep 600 & wait', { limitSec: SHORT_SEC });
  const done = await run([hangs, shell('last', 'true')]);
  assert.equal(statuses(done), ['hangs: timed out', 'last: passed']);
  assert.is(done.results[0]?.output, 'begun\n');
});

test('steps that have not begun when the time for all is over are not run', async () => {
  const long = shell('long', 'sleep 600');
  const done = await run([long, shell('last', 'true')], { seconds: 1.2 });
  assert.equal(statuses(done), ['long: timed out', 'last: not run']);
});

test('a program that cannot be killed is left behind, and the others run', async () => {
  const folder = temporaryFolder();
  const pidFile = join(folder.path, 'pid');
  // It leaves the group, and keeps the pipe open.
  const stuck = shell('stuck', `setsid sh -c 'echo $$ >"${pidFile}"; exec sleep 600' & wait`, {
    limitSec: 2,
  });
  const done = await run([stuck, shell('last', 'true')], { deathSec: SHORT_SEC });
  process.kill(Number(readFileSync(pidFile, 'utf8')), 'SIGKILL');
  assert.equal(statuses(done), ['stuck: timed out', 'last: passed']);
  assert.match(String(done.results[0]?.reason), 'had not ended');
});

test('steps of a group run at the same time, and their lines in the log say whose they are', async () => {
  const folder = temporaryFolder();
  const fifo = join(folder.path, 'fifo');
  // Each waits for the other.
  const [reads, writes] = [`mkfifo "${fifo}"; cat "${fifo}"`, `while ! echo met >"${fifo}"; do :; done`];
  const two = [
    shell('reader', reads, { group: 'both' }),
    shell('writer', `until [ -p "${fifo}" ]; do :; done; ${writes}`, { group: 'both' }),
  ];
  const alone = shell('alone', 'echo by itself');
  const done = await run(availableParallelism() > 1 ? [...two, alone] : [alone]);
  assert.is(done.hasPassed, true);
  assert.is(done.results.at(-1)?.name, 'alone');
  if (availableParallelism() > 1) assert.match(done.log, 'reader| met\n');
});

test('a step alone takes other arguments, and its result is added to those before it', async () => {
  const out = temporaryFolder().path;
  const step = shell('bench', 'printf \'["%s","%s"]\' "$1" "$2"', {
    defaults: ['--batch', '8'],
    figures: json,
  });
  await run(chosenSteps([step], 'bench', []), {}, out);
  const done = await run(chosenSteps([step], 'bench', ['--batch', '64']), {}, out);
  assert.equal(
    done.results.map(({ figures }) => figures),
    [
      ['--batch', '8'],
      ['--batch', '64'],
    ],
  );
});

test('a step alone comes after the one that writes its model, and a sanitizer keeps its tool', () => {
  const folder = temporaryFolder();
  const steps = allSteps(folder.path, false);
  const chosen = chosenSteps(steps, '8b q4_0: greedy', ['--batch', '64']);
  assert.equal(
    chosen.map(({ name }) => name),
    ['8b q4_0: written', '8b q4_0: greedy'],
  );
  assert.equal(
    chosen.map(({ defaults }) => defaults),
    [[], ['--batch', '64']],
  );
  for (const { name, needs } of steps)
    if (needs !== undefined)
      assert.is(chosenSteps(steps, name, []).length, name.endsWith(': written') ? 1 : 2, name);
  const [memcheck] = chosenSteps(steps, 'memcheck', ['-sf=*norm_test*']);
  assert.equal([...(memcheck?.command ?? []), ...(memcheck?.defaults ?? [])].slice(1), [
    '--tool',
    'memcheck',
    '--error-exitcode',
    '1',
    'build/cuda-device-tests',
    '-sf=*norm_test*',
  ]);
  assert.equal(chosenSteps(steps, 'nothing', []), []);
});

test('each file of the tests for a device is a step', () => {
  const filesIn = (folder: string) => readdirSync(join(ROOT, 'test/cuda-runner', folder));
  const names = [...filesIn('.'), ...filesIn('kernels')].flatMap(
    (file) => /^(\w+)_test\.cc$/.exec(file)?.[1] ?? [],
  );
  assert.equal([...DEVICE_TEST_FILES].sort(), names.sort());
});

const testOf = (file: string): string => `tests: ${file}`;

test('the steps have names of their own, and those on bits come before those on speed', () => {
  const folder = temporaryFolder();
  mkdirSync(join(folder.path, 'bin'));
  for (const isEmulated of [false, true]) {
    const steps = allSteps(folder.path, isEmulated, join(folder.path, 'bin'));
    const names = steps.map(({ name }) => name);
    assert.is(new Set(names).size, names.length);
    assert.equal(names.slice(0, 3), ['probe', 'driver', testOf(isEmulated ? 'checkpoint' : 'golden_models')]);
    const first = names.findIndex((name) => name.endsWith(': kernels'));
    for (const name of ['exactness', 'gateway', ...(isEmulated ? [] : DEVICE_TEST_FILES.map(testOf))])
      assert.ok(names.includes(name) && names.indexOf(name) < first, name);
    const sanitizers = names.indexOf('memcheck');
    assert.equal(names.slice(sanitizers, sanitizers + 3), ['memcheck', 'synccheck', 'racecheck']);
    assert.is(steps[sanitizers]?.obstacle, 'compute-sanitizer is not installed.');
    if (!isEmulated) assert.ok(sanitizers < names.indexOf('8b q4_0: written'), 'before what takes longest');
  }
});

test('each random model is written before it is measured, and is what its steps are named after', async () => {
  const folder = temporaryFolder();
  // It writes its arguments to the file that is the last of them.
  const runner = join(folder.path, 'runner');
  writeFileSync(runner, '#!/bin/sh\nfor file; do :; done\necho "$*" >"$file"\n', { mode: 0o755 });
  const steps = allSteps(folder.path, false);
  const models = new Map<string, string>();
  for (const { name, command } of steps) {
    if (name.endsWith(': written')) {
      const [sh, option, script, , path = '', ...kind] = command as string[];
      const writes = { ...shell(name, ''), command: [sh, option, script, runner, path, ...kind] as string[] };
      assert.equal(statuses(await run([writes])), [`${name}: passed`]);
      models.set(path, readFileSync(path, 'utf8').replace(path, 'FILE'));
    } else if (command.includes('--model')) {
      const path = String(command[command.indexOf('--model') + 1]);
      const [, shape, type] = /^(\S+) (\S+): /.exec(name) ?? [];
      const architecture = shape === '0.6b' ? 'qwen3' : 'llama';
      const flags = `--arch ${architecture} --shape ${shape} --type ${type} --byte-tokenizer`;
      assert.is(models.get(path), `synth ${flags} FILE.part\n`, name);
    }
  }
  assert.equal(
    steps.filter(({ command }) => command.includes('--workload')).map(({ name }) => name),
    [
      '0.6b bf16: workload, cache of f16',
      '0.6b q8_0: workload, cache of f16',
      '0.6b q8_0: workload, cache of q8_0',
    ],
  );
});

test.run();
