import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';

const FIXTURE = fileURLToPath(new URL('../../fixtures/start-programs.ts', import.meta.url));

const test = suite('start program');

test('without descriptors nothing starts, the caller gets an error, the process lives', () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', FIXTURE], {
    encoding: 'utf8',
  });
  assert.is(status, 0, stderr);
  const { besideReads, ...starts } = JSON.parse(stdout);
  const none = 'no descriptors';
  assert.equal(starts, {
    ...{ first: 0, full: none, createdWhenFull: 0, afterwards: 0 },
    ...{ race: none, afterRace: 0, kept: 0 },
  });
  for (const outcome of besideReads) assert.ok([0, none].includes(outcome), outcome);
});

test.run();
