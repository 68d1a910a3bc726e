import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { outcomeOfCtest, outcomeOfUvu, run, skippedByCtest, Tally } from './tally.ts';

const test = suite('tally');

const ctest = (code: number, ...lines: string[]) => ({ code, output: lines.join('\n'), seconds: '1.0' });

test('a C++ test that could not run is skipped, and named; neither passed nor failed', () => {
  const good = ctest(
    0,
    '      Start  1: runner: a',
    ' 2/12 Test  #2: runner: sandbox: b .............***Skipped   0.00 sec',
    '100% tests passed, 0 tests failed out of 12',
    '',
    'The following tests did not run:',
    '\t  2 - runner: sandbox: b (Skipped)',
    '\t 11 - c (of two) (Disabled)',
  );
  assert.equal(outcomeOfCtest(good), { passed: 10, failed: 0, skipped: 2 });
  assert.equal(skippedByCtest(good), ['runner: sandbox: b', 'c (of two)']);
});

test('a C++ test that has failed, or was not built, has failed', () => {
  const bad = ctest(
    8,
    '50% tests passed, 2 tests failed out of 4',
    'The following tests did not run:',
    '\t  2 - b (Skipped)',
    'The following tests FAILED:',
    '\t  3 - c (Failed)',
    '\t  4 - d (Not Run)',
  );
  assert.equal(outcomeOfCtest(bad), { passed: 1, failed: 2, skipped: 1 });
  assert.is(outcomeOfCtest(ctest(0, 'No tests were found!!!')).failed, 1);
  assert.is(outcomeOfCtest(ctest(8, '100% tests passed, 0 tests failed out of 3')).failed, 1);
});

test('a TypeScript test that could not run is skipped, whether its file or uvu says so', () => {
  const uvu = (said: string, passed: number, skipped: number) =>
    outcomeOfUvu(ctest(0, said, '  Total:     3', `  Passed:    ${passed}`, `  Skipped:   ${skipped}`));
  assert.equal(uvu('', 3, 0), { passed: 3, failed: 0, skipped: 0 });
  assert.equal(uvu('SKIPPED: no network of its own', 3, 1), { passed: 3, failed: 0, skipped: 1 });
  assert.equal(uvu('• SKIPPED: no whole sandbox\n', 3, 0), { passed: 2, failed: 0, skipped: 1 });
  assert.equal(uvu('', 2, 0), { passed: 2, failed: 1, skipped: 0 });
});

test('a file that says more than once why it skips all of its tests has passed none, not less', () => {
  const said = 'SKIPPED: no Chromium\nSKIPPED: no network of its own\nSKIPPED: no sandbox';
  const all = outcomeOfUvu(ctest(0, said, '  Total:     0', '  Passed:    0', '  Skipped:   2'));
  assert.equal(all, { passed: 0, failed: 0, skipped: 2 });
});

test('a file that reports its results but does not exit is ended and fails', async () => {
  const summary = '  Total:     1\\n  Passed:    1\\n  Skipped:   0\\n  Duration:  1.00ms';
  const program = `console.log('${summary}'); setInterval(() => {}, 1000);`;
  const finished = await run([process.execPath, '-e', program], {}, 60_000, 100);
  assert.is(finished.code, null);
  assert.match(finished.output, 'did not end after its tests');
  assert.equal(outcomeOfUvu(finished), { passed: 1, failed: 1, skipped: 0 });
});

test('a file whose tests are all skipped has none that failed; one that neither runs nor skips a test has', () => {
  const none = (skipped: number) =>
    outcomeOfUvu(ctest(0, '  Total:     0', '  Passed:    0', `  Skipped:   ${skipped}`));
  assert.equal(none(7), { passed: 0, failed: 0, skipped: 7 });
  assert.equal(none(0), { passed: 0, failed: 1, skipped: 0 });
  assert.equal(outcomeOfUvu(ctest(0, '')), { passed: 0, failed: 1, skipped: 0 });
});

test('the last line has the totals; the assertions of C++ cases are on the line before', () => {
  const { log } = console;
  const lines: string[] = [];
  console.log = (line: string) => void lines.push(line);
  try {
    const tally = new Tally();
    tally.add('a', { passed: 2, failed: 0, skipped: 1, assertions: 300 }, ctest(0));
    tally.add('b', { passed: 1, failed: 0, skipped: 0, assertions: 9 }, ctest(0));
    tally.add('c', { passed: 4, failed: 0, skipped: 0 }, ctest(0));
    tally.close(61, 2);
  } finally {
    console.log = log;
  }
  assert.equal(lines.slice(3), [
    '\nThe C++ cases made 309 assertions. That took 1 min 1 s on 2 processors:',
    '7 passed, 0 failed, 1 skipped',
  ]);
});

test.run();
