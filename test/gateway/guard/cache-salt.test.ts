import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { cacheSaltOf } from '../../../gateway/guard/cache-salt.ts';
import { digestOf } from '../../../gateway/guard/caller.ts';

const module = fileURLToPath(new URL('../../../gateway/guard/caller.ts', import.meta.url));

/** Of a process of its own. */
function saltElsewhere(key: string): string {
  const script = `import { digestOf } from ${JSON.stringify(module)};
    process.stdout.write(Buffer.from(digestOf(${JSON.stringify(key)})).toString('hex'));`;
  return execFileSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    encoding: 'utf8',
  });
}

const test = suite('cache salt');

test('a key has one salt in a process, another key another, and nobody’s tells the key', () => {
  const salt = (key: string) => Buffer.from(cacheSaltOf('per-key', digestOf(key))).toString('hex');
  assert.is(salt('one'), salt('one'));
  assert.is.not(salt('one'), salt('two'));
  assert.is(salt('one').length, 64);
  assert.is(cacheSaltOf('all', digestOf('one')).length, 0);
});

test('two processes have different salts for the same key: the secret is drawn, not written down', () => {
  const salts = [saltElsewhere('one'), saltElsewhere('one')];
  for (const salt of salts) assert.match(salt, /^[0-9a-f]{64}$/);
  assert.is(new Set(salts).size, 2);
});

test.run();
