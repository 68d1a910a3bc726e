import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { recordedCases } from '../../fixtures/recorded-cases.ts';
import { markdown, typesTable } from './markdown.ts';
import { instructionSetOf, passed, type Report, sharesOf } from './report.ts';

const test = suite('bench report');

const REPORT = JSON.parse(readFileSync(new URL('example.json', import.meta.url), 'utf8')) as Report;

function reportOf(line: string): string {
  const [{ results = [] } = {}] = REPORT.parts;
  const missing = { engine: 'llama.cpp', metrics: {}, failures: ['llama.cpp -fa 0: ended with 1'] };
  if (line === 'types')
    return typesTable([
      { type: 'q4_k', results },
      { type: 'bf16', results: [...results.slice(0, 1), missing] },
    ]);
  const { loadBefore = REPORT.machine.loadBefore, failure, ...changes } = JSON.parse(line);
  const failed = REPORT.accuracy.map(({ gate }) => ({ gate, failure, passed: false }));
  const accuracy = failure === undefined ? REPORT.accuracy : failed;
  const report: Report = { ...REPORT, machine: { ...REPORT.machine, loadBefore }, accuracy, ...changes };
  return `${markdown(report).replaceAll('\n\n', '\n')}\n${passed(report) ? 'passed' : 'failed'}`;
}

recordedCases(test, import.meta.url, reportOf);

test('shares are of the bandwidth, and of the peak of the instruction set that computed', () => {
  assert.equal(sharesOf(REPORT), [
    { of: 'read bandwidth, by decode of 1 stream', reached: 35, limit: 40, unit: 'GB/s' },
    { of: 'integer peak of avx512vnni, by prefill', reached: 1000, limit: 2000, unit: 'GOPS' },
  ]);
  assert.is(instructionSetOf('cpu, x86-64-v3, 2 threads'), 'avx2');
  const portable = { ...REPORT, device: 'cpu, portable, 2 threads' };
  assert.equal(
    sharesOf(portable).map(({ of }) => of),
    ['read bandwidth, by decode of 1 stream'],
  );
  assert.equal(sharesOf({ ...REPORT, parts: [] }), []);
});

test.run();
