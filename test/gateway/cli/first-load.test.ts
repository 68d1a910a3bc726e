import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { FirstLoad } from '../../../gateway/cli/first-load.ts';
import type { RunnerEventName } from '../../../gateway/runner/supervision/runner-event.ts';

const test = suite('first load');

type Fields = Readonly<Record<string, unknown>>;

/** How the load has failed after these events, or undefined if it has not. */
async function outcomeOf(...events: readonly (readonly [event: RunnerEventName, fields?: Fields])[]) {
  const load = new FirstLoad();
  for (const [event, fields] of events) load.observe({ level: 'info', event, ...fields });
  return Promise.race([load.failed, Promise.resolve().then(() => undefined)]);
}

const exited = (fields: Fields) => ['runner_exited', { reason: 'It died.', ...fields }] as const;

test('a runner that dies before one is ready is a failure with its status, or its signal as a shell has it', async () => {
  const cases: [Fields, number][] = [
    [{ code: 71 }, 71],
    [{ code: 0 }, 70],
    [{ signal: 'SIGSEGV' }, 139],
    [{ signal: 'SIGKILL' }, 137],
    [{ spawnError: 'ENOENT' }, 71],
  ];
  for (const [exit, exitCode] of cases) {
    assert.equal(await outcomeOf(exited(exit), ['runner_restarting']), { reason: 'It died.', exitCode });
  }
  assert.equal(await outcomeOf(exited({ code: 65 }), ['model_failed', { reason: 'Bad.', exitCode: 65 }]), {
    reason: 'Bad.',
    exitCode: 65,
  });
});

test('a failed load includes the runner’s message about missing memory', async () => {
  const facts = { device: 'cpu, 2 threads', requiredBytes: 100, availableBytes: 0 };
  assert.equal(await outcomeOf(exited({ code: 71, ...facts }), ['runner_restarting']), {
    ...{ reason: 'It died.', exitCode: 71 },
    ...facts,
  });
  const failed = { reason: 'No room.', exitCode: 64, ...facts };
  assert.equal(await outcomeOf(exited({ code: 64, ...facts }), ['model_failed', failed]), failed);
});

test('a file that the gateway itself cannot read has its status without any runner', async () => {
  assert.equal(await outcomeOf(['model_failed', { reason: 'There is no file.', exitCode: 66 }]), {
    reason: 'There is no file.',
    exitCode: 66,
  });
});

test('a machine that lacks what reading the file takes is status 71', async () => {
  assert.equal(await outcomeOf(['runner_restarting', { reason: 'EMFILE', delayMs: 250 }]), {
    reason: 'EMFILE',
    exitCode: 71,
  });
});

test('a death that another backend makes up for is none, and neither is one after the first runner was ready', async () => {
  assert.is(await outcomeOf(exited({ code: 69 }), ['model_load_start']), undefined);
  assert.is(
    await outcomeOf(exited({ code: 69 }), ['model_load_complete'], exited({ code: 71 }), [
      'runner_restarting',
    ]),
    undefined,
  );
});

test.run();
