import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';

/** promises.md names tests; they have to be there. */

const test = suite('promises');

const HERE = fileURLToPath(new URL('.', import.meta.url));
const NUM_SCENARIOS = 37;

interface Promised {
  readonly promise: string;
  readonly file: string;
  readonly name: string;
}

function promisesOf(section: string): Promised[] {
  const rows = [...section.matchAll(/^\| (.+?) \| ([\w/-]+): (.+) \|$/gm)];
  assert.is(rows.length, section.split('\n').filter((line) => /^\| (?!promise|scenario)/.test(line)).length);
  return rows.map(([, promise = '', file = '', name = '']) => ({ promise, file, name }));
}

const page = readFileSync(`${HERE}promises.md`, 'utf8');

test('every test that is named is there', () => {
  const promises = promisesOf(page);
  assert.ok(promises.length > 100);
  for (const { promise, file, name } of promises) {
    const path = [`${HERE}${file}.test.ts`, `${HERE}${file}.cc`].find((candidate) => existsSync(candidate));
    assert.ok(path, `${promise}: there is no file ${file}`);
    assert.ok(readFileSync(path, 'utf8').includes(name), `${promise}: ${file} has no test "${name}"`);
  }
});

test('each promise stands once, and each scenario of the worker crates has a line', () => {
  const [promises = '', scenarios = ''] = page.split('## Scenarios of the worker crates');
  const texts = promisesOf(promises).map(({ promise }) => promise);
  assert.is(new Set(texts).size, texts.length);
  assert.is(promisesOf(scenarios).length, NUM_SCENARIOS);
});

test.run();
