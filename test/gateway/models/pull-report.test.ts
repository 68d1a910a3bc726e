import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Progress } from '../../../gateway/models/pull-report.ts';

const test = suite('progress');

function shown(isTTY: boolean, ...bytes: number[]): string[] {
  const written: string[] = [];
  const progress = new Progress('Fetching', 10_000_000, { isTTY, write: (text) => written.push(text) });
  for (const count of bytes) progress.update(count);
  progress.done();
  return written;
}

test('elsewhere than on a terminal: a line each tenth', () => {
  assert.equal(shown(false, 0, 500_000, 990_000, 1_900_000, 2_000_000, 5_500_000), [
    'Fetching: 0 %, 0.0 of 10.0 MB\n',
    'Fetching: 19 %, 1.9 of 10.0 MB\n',
    'Fetching: 20 %, 2.0 of 10.0 MB\n',
    'Fetching: 55 %, 5.5 of 10.0 MB\n',
    'Fetching: 100 %, 10.0 of 10.0 MB\n',
  ]);
});

test('on a terminal: one line that changes', () => {
  const written = shown(true, 0, 10_000, 5_000_000);
  assert.is(written[1], `\rFetching [${'#'.repeat(15)}${'-'.repeat(15)}] 50 %, 5.0 of 10.0 MB`);
  assert.is(written.at(-1), '\n');
  assert.is(written.join('').split('\n').length, 2);
});

test('more than was announced counts as all of it', () => {
  assert.equal(shown(false, 20_000_000), ['Fetching: 100 %, 10.0 of 10.0 MB\n']);
});

test.run();
