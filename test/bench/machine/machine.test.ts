import { loadavg } from 'node:os';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
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

test('a processor is told by what tells its generation', () => {
  const text =
    'processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n';
  assert.is(processorOf(text), 'AMD EPYC (family 25, model 17)');
  assert.is(processorOf('processor\t: 0\nBogoMIPS\t: 50\n'), 'a processor of an untold kind');
});

test('the machine is described without anything that it does not tell', () => {
  const before = loadavg()[0];
  const { processors, node, commit, loadBefore } = machineNow();
  const after = loadavg()[0];
  assert.ok(processors >= 1);
  assert.is(node, process.version);
  assert.match(commit, /^(\w+(-dirty)?|\w.*-g\w+(-dirty)?|of no repository)$/);
  assert.ok([before, after].includes(loadBefore), `${loadBefore}, the load of the last minute`);
});

test.run();
