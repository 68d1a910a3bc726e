import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { fasterOf, machineNow, parsePeak, parseTicks, processorOf, stolenShare } from './machine.ts';

const test = suite('bench machine');

/** Output of machine-peak. */
const PEAK =
  '{"threads":2,"read_gb_s":{"median":27.5,"min":23.8,"max":28.0},"int8_gops":{"avx2":{"median":367.9,"min":256.5,"max":396.7},"avx512vnni":{"median":450.4,"min":430.9,"max":457.5}},"missing":["avxvnni"]}';

test('bandwidth and peaks are read, and what the processor lacks', () => {
  const { readGbPerSecond, int8Gops, missing } = parsePeak(PEAK);
  assert.is(readGbPerSecond.median, 27.5);
  assert.is(int8Gops.avx512vnni?.max, 457.5);
  assert.equal(missing, ['avxvnni']);
});

test('of two measurements the faster counts, each figure by itself', () => {
  const before = parsePeak(PEAK);
  const after = parsePeak(PEAK.replace('"median":27.5', '"median":20').replace('450.4', '460.5'));
  const faster = fasterOf(before, after);
  assert.is(faster.readGbPerSecond.median, 27.5);
  assert.is(faster.int8Gops.avx2?.median, 367.9);
  assert.is(faster.int8Gops.avx512vnni?.median, 460.5);
});

test('stolen time is a share of all time', () => {
  const before = parseTicks('cpu  100 0 50 800 10 0 5 35 0 0\ncpu0 1 2 3\n');
  const after = parseTicks('cpu  150 0 60 820 10 0 5 55 0 0\ncpu0 1 2 3\n');
  assert.equal(before, { all: 1000, stolen: 35 });
  assert.is(stolenShare(before, after), 0.2);
});

test('a processor is named by the fields that identify its generation', () => {
  const text =
    'processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n';
  assert.is(processorOf(text), 'AMD EPYC (family 25, model 17)');
  assert.is(processorOf('processor\t: 0\nBogoMIPS\t: 50\n'), 'a processor of an untold kind');
});

test('the machine is described as its kernel reports it', () => {
  const load = () => Number(readFileSync('/proc/loadavg', 'utf8').split(' ')[0]);
  const earlier = load();
  const { processor, processors, memoryBytes, kernel, node, loadBefore } = machineNow();
  const cpuinfo = readFileSync('/proc/cpuinfo', 'utf8');
  assert.is(processor, processorOf(cpuinfo));
  assert.ok(
    processors >= 1 && processors <= (cpuinfo.match(/^processor\s*:/gm) ?? []).length,
    `${processors}`,
  );
  const [, kilobytes] = /^MemTotal:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'utf8')) ?? [];
  assert.is(memoryBytes, 1024 * Number(kilobytes));
  assert.is(kernel, readFileSync('/proc/sys/kernel/osrelease', 'utf8').trim());
  assert.is(node, execFileSync(process.execPath, ['--version'], { encoding: 'utf8' }).trim());
  assert.ok([earlier, load()].includes(loadBefore), `${loadBefore}`);
});

test('the commit is that of the folder, marked if something was changed since', () => {
  const { path, write } = temporaryFolder();
  const git = (...args: string[]): string =>
    execFileSync('git', ['-C', path, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
      encoding: 'utf8',
    });
  const before = process.cwd();
  process.chdir(path);
  try {
    assert.is(machineNow().commit, 'of no repository');
    git('init', '-q');
    write('a', 'one');
    git('add', 'a');
    git('commit', '-q', '-m', 'one');
    const commit = git('rev-parse', 'HEAD').slice(0, 12);
    assert.is(machineNow().commit, commit);
    write('a', 'two');
    assert.is(machineNow().commit, `${commit}-dirty`);
  } finally {
    process.chdir(before);
  }
});

test.run();
