import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { doctor as command } from '../../../gateway/cli/doctor.ts';
import type { DeviceReport } from '../../../gateway/runner/backends/devices.ts';
import { type Diagnosis, diagnose } from '../../../gateway/runner/backends/diagnosis.ts';
import { remedies, remediesIn } from '../../../gateway/runner/backends/remedies.ts';
import { NODE_LINES, nodeFacts } from '../../../gateway/system/version.ts';
import { CPU_RUNNER } from '../../fixtures/default-model.ts';
import { runCommand } from '../../fixtures/run-command.ts';
import { deviceReport, script } from '../../fixtures/stand-in-runners.ts';
import { type Directory, temporaryDirectory } from '../../fixtures/supervised.ts';

const test = suite('doctor');

const PROCESSOR = { device: 'cpu, avx2, 2 threads on 2 nodes' };

function runner(
  directory: Directory,
  name: string,
  version: string,
  report: DeviceReport | typeof PROCESSOR = PROCESSOR,
): string {
  return script(directory, name, [
    `if [ "$1" = --version ]; then echo ${version}; exit; fi`,
    `echo '${JSON.stringify(report)}'`,
  ]);
}

/** If `report` is undefined there is no cuda-runner. */
async function doctor(directory: Directory, report: DeviceReport | undefined, ...more: string[]) {
  const cudaRunner =
    report === undefined ? directory.path('absent') : runner(directory, 'cuda-runner', '0.1.0', report);
  const files = ['--runner', runner(directory, 'cpu-runner', '0.1.0'), '--cuda-runner', cudaRunner];
  return runCommand(command.run, ...files, ...more);
}

test('a machine with a device: what it is, and that it serves', async () => {
  const directory = temporaryDirectory();
  const { exitCode, stdout } = await doctor(directory, deviceReport());
  assert.is(exitCode, 0);
  const lines = stdout.trimEnd().split('\n').slice(5);
  assert.equal(lines.slice(0, 5), [
    `cpu-runner   0.1.0 (${directory.path('cpu-runner')})`,
    `cuda-runner  0.1.0 (${directory.path('cuda-runner')})`,
    'CUDA         built for 13.0; driver: up to 13.1',
    'device 0     Stand-in 9000, compute capability 9.0, 137.4 GB, 68.7 GB free',
    'serve        computes on a CUDA device',
  ]);
  assert.is(lines.length, 5, 'nothing is missing');
});

test('each backend with and without what it needs: what serves, the exit status, and the command that helps', async () => {
  const directory = temporaryDirectory();
  const unusable = deviceReport({ usable: false, reason: 'No kernel image is for it.' });
  const cases: [string[], DeviceReport | undefined, Diagnosis['serves'], RegExp | undefined][] = [
    [[], deviceReport(), 'cuda', undefined],
    [[], deviceReport(null), 'cpu', /no CUDA-capable device/],
    [[], unusable, 'cpu', /No kernel image is for it/],
    [[], undefined, 'cpu', undefined],
    [['--backend', 'cuda'], deviceReport(), 'cuda', undefined],
    [['--backend', 'cuda'], deviceReport(null), null, /no CUDA-capable device/],
    [['--backend', 'cuda'], undefined, null, /absent does not exist; "make cuda-runner" builds it/],
    [['--backend', 'cuda', '--gpu-device', '4'], deviceReport(), null, /CUDA device 4 does not exist/],
    [['--backend', 'cpu'], deviceReport(), 'cpu', undefined],
    [['--gpu-device=-1'], deviceReport(null), 'cpu', undefined],
  ];
  for (const [args, report, serves, advice] of cases) {
    const { exitCode, stdout } = await doctor(directory, report, '--json', ...args);
    const diagnosis = JSON.parse(stdout) as Diagnosis;
    const what = `${args.join(' ')} ${stdout}`;
    assert.is(diagnosis.serves, serves, what);
    assert.is(exitCode, serves === null ? 69 : 0, what);
    if (advice !== undefined)
      assert.ok(
        diagnosis.advice.some((sentence) => advice.test(sentence)),
        what,
      );
  }
});

test('which pages the weights that runners share get, and how to change that', async () => {
  const directory = temporaryDirectory();
  const cpuRunner = runner(directory, 'cpu-runner', '0.1.0');
  const folder = 'sys/kernel/mm/transparent_hugepage';
  mkdirSync(directory.path(folder), { recursive: true });
  const pagesWith = async (setting: string | undefined, kernel: string) => {
    const file = `${folder}/shmem_enabled`;
    if (setting === undefined) rmSync(directory.path(file), { force: true });
    else
      directory.write(file, `always within_size advise never deny force\n`.replace(setting, `[${setting}]`));
    const { huge_pages, advice } = await diagnose({
      ...{ backend: 'cpu', gpuDevice: 0, root: directory.path(''), kernel },
      ...{ runner: cpuRunner, cudaRunner: directory.path('absent') },
    });
    assert.is(huge_pages.shared_setting, setting ?? null);
    return [huge_pages.for_weights, advice.filter((sentence) => sentence.includes('shmem_enabled')).length];
  };
  assert.equal(await pagesWith('never', '6.1.0-40-amd64'), [true, 0]);
  assert.equal(await pagesWith('never', '5.15.0'), [false, 1]);
  assert.equal(await pagesWith('advise', '5.15.0'), [true, 0]);
  assert.equal(await pagesWith('deny', '6.18.44'), [false, 1]);
  assert.equal(await pagesWith(undefined, '6.18.44'), [false, 0]);
});

test('what computes on the processor is what the runner says, if it says it', async () => {
  const directory = temporaryDirectory();
  const options = { backend: 'cpu', gpuDevice: 0, cudaRunner: directory.path('absent') } as const;
  const of = async (file: string) => (await diagnose({ ...options, runner: file })).processor.device;
  assert.is(await of(runner(directory, 'says', '0.1.0')), PROCESSOR.device);
  assert.is(await of(script(directory, 'older', ['[ "$1" = --version ] && echo 0.0.9'])), null);
  assert.is(await of(directory.path('absent')), null);
  const { stdout } = await doctor(directory, undefined);
  assert.match(stdout, `\ncomputes     ${PROCESSOR.device}, unless settings say otherwise\n`);
  assert.match((await of(CPU_RUNNER)) ?? '', /^cpu, \w+, \d+ threads?/);
});

test('an installation, which has no make, says what helps there', async () => {
  const directory = temporaryDirectory();
  const none = directory.path('none');
  const installed = remediesIn(pathToFileURL(`${none}/`));
  const options = { backend: 'cuda', gpuDevice: 0, remedies: installed } as const;
  const { cpu_runner, cuda_runner } = await diagnose({ ...options, runner: none, cudaRunner: none });
  assert.is(cpu_runner.fault, `${none} does not exist; it comes with Runnel, so install that again.`);
  assert.is(cuda_runner.fault, `${none} does not exist; this installation has none.`);
  const [runnerFile, cudaRunner] = ['0.1.0', '0.0.9'].map((version) =>
    runner(directory, version, version, deviceReport()),
  ) as [string, string];
  const { advice } = await diagnose({ ...options, runner: runnerFile, cudaRunner });
  assert.match(advice.join(), 'cuda-runner 0.0.9: install both from one package.');
  assert.equal(remediesIn(new URL('../../../', import.meta.url)), remedies);
  assert.match(remedies.cudaRunner, /make/);
});

test('a missing, failing or mismatched runner is reported', async () => {
  const directory = temporaryDirectory();
  const options = { backend: 'auto', gpuDevice: 0, root: directory.path('') } as const;
  const broken = script(directory, 'broken', ['echo "libfoo.so: not found" >&2', 'exit 127']);
  const other = runner(directory, 'other', '0.0.9', deviceReport());
  const diagnosis = await diagnose({ ...options, runner: broken, cudaRunner: other });
  assert.is(diagnosis.cpu_runner.fault, `${broken} does not run: libfoo.so: not found`);
  assert.is(diagnosis.serves, 'cuda');
  const nothing = await diagnose({ ...options, runner: directory.path('none'), cudaRunner: broken });
  assert.is(nothing.serves, null);
  assert.match(nothing.cpu_runner.fault ?? '', '"make binaries" builds it');
  const good = runner(directory, 'good', '0.1.0');
  const { advice } = await diagnose({ ...options, runner: good, cudaRunner: other });
  assert.match(advice.join(), 'cpu-runner is 0.1.0 and cuda-runner 0.0.9: "make binaries cuda-runner"');
});

test('the processor is described as the kernel reports it', async () => {
  const directory = temporaryDirectory();
  const options = { backend: 'cpu', gpuDevice: 0, root: directory.path('') } as const;
  const none = directory.path('none');
  const facts = async () => (await diagnose({ ...options, runner: none, cudaRunner: none })).processor;
  assert.equal([(await facts()).model, (await facts()).has_fast_path], [null, null]);
  const cpuinfo = (flags: string) => `processor\t: 0\nmodel name\t: Test CPU\nflags\t\t: ${flags}\n`;
  directory.folder('proc');
  directory.write('proc/cpuinfo', cpuinfo('fpu avx2 fma f16c bmi1 bmi2 abm movbe'));
  assert.equal([(await facts()).model, (await facts()).has_fast_path], ['Test CPU', true]);
  directory.write('proc/cpuinfo', cpuinfo('fpu avx'));
  assert.is((await facts()).has_fast_path, false);
  // An ARM processor, whose model the kernel does not name.
  directory.write('proc/cpuinfo', 'processor\t: 0\nFeatures\t: fp asimd asimdhp asimddp i8mm\n');
  assert.equal([(await facts()).model, (await facts()).has_fast_path], [null, true]);
  directory.write('proc/cpuinfo', 'processor\t: 0\nFeatures\t: fp asimd\n');
  assert.is((await facts()).has_fast_path, false);
});

test('Node is of a supported line, or the lines that are supported are named', async () => {
  const directory = temporaryDirectory();
  const none = directory.path('none');
  const files = { runner: none, cudaRunner: none };
  const of = (nodeVersion: string) => diagnose({ ...files, backend: 'cpu', gpuDevice: 0, nodeVersion });
  for (const version of ['v20.0.0', 'v22.23.3', 'v24.21.0']) {
    const { node, advice } = await of(version);
    assert.equal(node, { version, is_supported: true });
    assert.not.match(advice.join(), /Node/, version);
  }
  for (const version of ['v18.20.4', 'v21.7.3', 'v2.0.0', 'v200.0.0', 'v26.0.0']) {
    const { node, advice } = await of(version);
    assert.equal(node, { version, is_supported: false });
    assert.is(advice[0], `Runnel is not tested with Node ${version}: install Node 20, 22 or 24.`);
  }
  const { stdout } = await doctor(directory, undefined);
  const line = nodeFacts(process.version).is_supported ? 'a supported version' : 'not a supported version';
  assert.is(stdout.split('\n')[0], `node         ${process.version}, ${line}`);
});

test('package.json allows exactly the lines of Node that are supported', () => {
  const { engines } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
    engines: { node: string };
  };
  assert.is(engines.node, NODE_LINES.map((line) => `${line}.x`).join(' || '));
});

test('unsupported options are refused', async () => {
  assert.is((await runCommand(command.run, '--threads', '2')).exitCode, 64);
  assert.is((await runCommand(command.run, '--backend', 'cuda', '--gpu-device=-1')).exitCode, 64);
});

test.run();
