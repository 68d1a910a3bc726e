import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { killRunner } from '../../../gateway/playground/playground.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';

const test = suite('kill runner');

test('the process of a runner ends by SIGKILL, and no other process is touched', async () => {
  const child = spawn('sleep', ['60']);
  try {
    await once(child, 'spawn');
    const pid = child.pid as number;
    const status = new ScriptedRunner().status();
    for (const runners of [[], [{ ...status, pid: undefined }], [{ ...status, pid: pid + 1 }]])
      assert.is(killRunner(runners, pid), false);
    assert.is(child.exitCode ?? child.signalCode, null);
    const single = { ...status, info: undefined, loadProgress: undefined, numFreeBlocks: undefined };
    const several = { ...status, runners: [{ ...single, state: 'ready' as const, pid }] };
    assert.is(killRunner([several], status.pid as number), false, 'each of several by itself');
    const exit = once(child, 'exit');
    assert.is(killRunner([status, several], pid), true);
    assert.equal(await exit, [null, 'SIGKILL']);
  } finally {
    child.kill('SIGKILL');
  }
});

test.run();
