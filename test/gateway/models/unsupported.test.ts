import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { MISSING_OPERATIONS } from '../../../gateway/models/model.ts';

const test = suite('unsupported architectures');

/** The gateway refuses a model before a runner is started, and a runner by hand refuses it too. */

const sorted = (rows: Iterable<readonly [string, string]>) => [...rows].sort(([a], [b]) => (a < b ? -1 : 1));

test('gateway and runners name the same missing operations', () => {
  const source = readFileSync('runner/models/registry.cc', 'utf8');
  const table = source.slice(source.indexOf('kUnsupported[] ='), source.indexOf('}  // namespace'));
  const rows = [...table.matchAll(/\{"([^"]+)",\s+"([^"]+)"\}/g)].map(
    ([, name = '', missing = '']) => [name, missing] as const,
  );
  assert.equal(sorted(rows), sorted(MISSING_OPERATIONS));
});

test('docs/adding-a-model.md has each of them', () => {
  const page = readFileSync('docs/adding-a-model.md', 'utf8');
  const table = page.slice(page.indexOf('| the operation that is missing'));
  const rows = [...table.matchAll(/^\| ([^|]+) \| (`[^|]+`) \|$/gm)].flatMap(([, missing = '', names = '']) =>
    [...names.matchAll(/`([^`]+)`/g)].map(([, name = '']) => [name, missing] as const),
  );
  assert.equal(sorted(rows), sorted(MISSING_OPERATIONS));
});

test.run();
