import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { cacheSaltOf, digestOf } from '../../../../gateway/server/guard/caller.ts';

const test = suite('caller');

const KEY = 'correct-horse-battery';

test('two processes have different salts for one key', () => {
  const here = Buffer.from(cacheSaltOf('per-key', digestOf(KEY))).toString('hex');
  const module = fileURLToPath(new URL('../../../../gateway/server/guard/caller.ts', import.meta.url));
  const script = `import { digestOf } from ${JSON.stringify(module)};
    process.stdout.write(Buffer.from(digestOf(${JSON.stringify(KEY)})).toString('hex'));`;
  const args = ['--import', 'tsx', '--input-type=module', '--eval', script];
  const there = execFileSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 });
  assert.match(there, /^[0-9a-f]{64}$/);
  assert.match(here, /^[0-9a-f]{64}$/);
  assert.is.not(there, here);
});

test.run();
