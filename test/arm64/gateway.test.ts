import { basename } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { emulatedRunner } from '../fixtures/arm64.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { killAll, runAll } from '../fixtures/killed-streams.ts';
import { variedRequests } from '../fixtures/varied-requests.ts';

/** A gateway with a cpu-runner for ARM64. */

const test = suite('ARM64 behind the gateway');

test('it answers the same as on x86-64, through a kill too, and says that it is not confined', async () => {
  const requests = variedRequests(basename(DEFAULT_MODEL, '.gguf'), 6);
  const one = await (await Gateway.start(DEFAULT_MODEL, ['--backend', 'cpu'])).ready();
  let numBytes = 0;
  const expected = await runAll(one, requests, -1, (count) => {
    numBytes += count;
  });
  await one.stop();

  const patience = ['--wedge-timeout-sec', '600'];
  const settings = ['--backend', 'cpu', '--runner', emulatedRunner(), ...patience];
  const gateway = await (await Gateway.start(DEFAULT_MODEL, settings)).ready();
  try {
    // The emulator has neither Landlock nor seccomp.
    assert.match((await gateway.health()).runner.sandbox ?? '', /^none \(.*landlock.*seccomp/);
    await killAll(gateway, requests, expected, numBytes, 1);
  } finally {
    await gateway.stop();
  }
});

test.run();
