import { spawnSync } from 'node:child_process';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';

const test = suite('service unit');

test('systemd finds nothing to complain about', () => {
  // It answers 0 even for settings it does not know; only silence is approval. The program it looks for is installed
  // where the unit will run, which is not here.
  const { stderr, error } = spawnSync('systemd-analyze', ['verify', 'deploy/runnel.service'], {
    encoding: 'utf8',
  });
  assert.is(error, undefined);
  const complaints = stderr.split('\n').filter((line) => line !== '' && !line.includes('is not executable'));
  assert.equal(complaints, []);
});

test.run();
