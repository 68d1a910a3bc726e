import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { outcomeOfPart, split, together } from './doctest.ts';

const test = suite('doctest');

const said = (code: number | null, ...lines: string[]) => ({
  code,
  output: lines.join('\n'),
  seconds: '1.0',
});
const three = { first: 4, last: 6 };

test('each case of a program is in one part', () => {
  for (const numCases of [1, 7, 8, 9, 565]) {
    const parts = split(numCases);
    const numbers = parts.flatMap(({ first, last }) =>
      Array.from({ length: last - first + 1 }, (_, index) => first + index),
    );
    assert.equal(
      numbers,
      Array.from({ length: numCases }, (_, index) => index + 1),
    );
  }
});

test('each case is counted once, whatever is in its name, and a skipped one is named', () => {
  const outcome = outcomeOfPart(
    three,
    said(
      1,
      '[case] begins: a; b, (c) "d"',
      '[case] passed',
      '[doctest] some output[case] begins: no line of its own',
      '[case] begins: a sandbox',
      '[case] skipped',
      '[case] begins: x',
      'ERROR: CHECK( 1 == 2 ) is NOT correct!',
      '[case] failed',
      '[doctest] test cases:  3 |  2 passed | 1 failed | 565 skipped',
      '[doctest] assertions: 17 | 16 passed | 1 failed |',
    ),
  );
  assert.equal(outcome, {
    passed: 1,
    failed: 1,
    skipped: 1,
    assertions: 17,
    namesOfFailed: ['x'],
    namesOfSkipped: ['a sandbox'],
  });
});

test('a program that dies fails the current and the remaining cases', () => {
  const dies = outcomeOfPart(three, said(134, '[case] begins: a', '[case] passed', '[case] begins: b'));
  assert.equal([dies.passed, dies.assertions], [1, 0]);
  assert.equal(dies.namesOfFailed, ['b (did not end)', 'a case that did not run']);
  assert.is(outcomeOfPart(three, said(0)).failed, 3);
});

test('a program that ends with an error after its cases, or has none, has failed', () => {
  const one = { first: 1, last: 1 };
  const leaks = outcomeOfPart(one, said(86, '[case] begins: a', '[case] passed'));
  assert.equal([leaks.passed, leaks.namesOfFailed], [1, ['a program that ended with 86']]);
  assert.is(outcomeOfPart({ first: 1, last: 0 }, said(0)).failed, 1);
});

test('a program has the cases and assertions of its parts', () => {
  const part = (name: string, assertions: number) =>
    outcomeOfPart(
      { first: 1, last: 2 },
      said(0, `[case] begins: ${name}`, '[case] passed', `[doctest] assertions: ${assertions} | `),
    );
  assert.equal(together([part('a', 3), part('b', 14)]), {
    passed: 2,
    failed: 2,
    skipped: 0,
    assertions: 17,
    namesOfFailed: ['a case that did not run', 'a case that did not run'],
    namesOfSkipped: [],
  });
});

test.run();
