import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  cacheSaltOf,
  digestOf,
  keptDigestOf,
  setCallerSecret,
} from '../../../../gateway/server/guard/caller.ts';
import { loopbackOnly } from '../../../../gateway/server/guard/guard.ts';
import { testApp } from '../../../fixtures/app.ts';
import { keysOf } from '../../../fixtures/keys.ts';
import { readNativeAnswer } from '../../../fixtures/native-stream.ts';

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

test('a journal that is opened late takes no job from its caller', async () => {
  const key = 'a-key-of-this-client';
  const { post, runner } = testApp({ guard: { ...loopbackOnly, apiKeys: keysOf([key]) } });
  runner.script = [[97], 'wait'];
  const headers = { 'x-api-key': key };
  const stream = await post('/execute', { job_id: 'a', prompt: 'x' }, headers);
  const before = keptDigestOf(key);
  setCallerSecret(new Uint8Array(32), true);
  assert.not.equal(keptDigestOf(key), before, 'jobs of an earlier process are found by its secret');
  await post('/cancel', { job_id: 'a' }, headers);
  assert.is((await readNativeAnswer(stream)).last.data.code, 'CANCELLED');
});

test.run();
