import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { cacheSaltOf, KeyDigests } from '../../../../gateway/server/guard/caller.ts';
import { loopbackOnly } from '../../../../gateway/server/guard/guard.ts';
import { testApp } from '../../../fixtures/app.ts';
import { keysOf } from '../../../fixtures/keys.ts';
import { readNativeAnswer } from '../../../fixtures/native-stream.ts';

const test = suite('caller');

const KEY = 'correct-horse-battery';

test('two gateways have different salts for one key, in one process or two', () => {
  const saltOf = () => Buffer.from(cacheSaltOf('per-key', new KeyDigests().of(KEY))).toString('hex');
  const here = saltOf();
  assert.is.not(saltOf(), here);
  const module = fileURLToPath(new URL('../../../../gateway/server/guard/caller.ts', import.meta.url));
  const script = `import { KeyDigests } from ${JSON.stringify(module)};
    process.stdout.write(Buffer.from(new KeyDigests().of(${JSON.stringify(KEY)})).toString('hex'));`;
  const args = ['--import', 'tsx', '--input-type=module', '--eval', script];
  const there = execFileSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 });
  assert.match(there, /^[0-9a-f]{64}$/);
  assert.match(here, /^[0-9a-f]{64}$/);
  assert.is.not(there, here);
});

test('a journal that is opened late takes no job from its caller', async () => {
  const key = 'a-key-of-this-client';
  const keyDigests = new KeyDigests();
  const { post, runner } = testApp({ keyDigests, guard: { ...loopbackOnly, apiKeys: keysOf([key]) } });
  runner.script = [[97], 'wait'];
  const headers = { 'x-api-key': key };
  const stream = await post('/execute', { job_id: 'a', prompt: 'x' }, headers);
  const before = keyDigests.keptOf(key);
  keyDigests.keep(new Uint8Array(32), true);
  assert.not.equal(keyDigests.keptOf(key), before, 'jobs of an earlier process are found by its secret');
  await post('/cancel', { job_id: 'a' }, headers);
  assert.is((await readNativeAnswer(stream)).last.data.code, 'CANCELLED');
});

test.run();
