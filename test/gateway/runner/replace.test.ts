import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { collectExact, fakeCommand, patienceMs, requestOf, supervised } from '../../fixtures/supervised.ts';
import { until, within } from '../../fixtures/within.ts';

const test = suite('replace');

test('five new runners under eight streams: every stream is as if there had been one', async () => {
  const flags = ['--delay-ms', '2'];
  await supervised(flags, {}, async ({ supervisor, state, eventsOf }) => {
    await state('ready');
    const streams = Array.from({ length: 8 }, (_, index) => {
      return collectExact(supervisor, requestOf([index, 3], 1500, index % 2 === 0 ? {} : { stopIds: [] }));
    });
    for (let round = 0; round < 5; round++) {
      const { pid } = supervisor.status();
      const replaced = supervisor.replaceRunner({ command: () => fakeCommand(...flags) });
      assert.is(supervisor.status().state, 'recovering');
      assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
      assert.is.not(supervisor.status().pid, pid);
      assert.is(supervisor.status().openRequests, 8, 'the streams go on');
    }
    await Promise.all(streams);
    assert.is(supervisor.status().restarts, 5);
    assert.equal(
      eventsOf('runner_exited').map(({ code }) => code),
      [0, 0, 0, 0, 0],
      'each ended by itself, at the end of a step',
    );
  });
});

test('a new runner that cannot be: the command of before runs again, and the streams go on', async () => {
  for (const [bad, reason] of [
    [['--exit-code', '64', '--failure', 'It has no such flag.'], 'It has no such flag.'],
    [['--crash-at', 'load', '--crash-after', '0'], 'SIGSEGV'],
    [['--wrong-version'], 'version'],
  ] as const) {
    await supervised(['--delay-ms', '2'], {}, async ({ supervisor, state, eventsOf }) => {
      await state('ready');
      const stream = collectExact(supervisor, requestOf([7], 400));
      const replaced = supervisor.replaceRunner({ command: () => fakeCommand(...bad) });
      assert.match((await within(patienceMs, 'The failure', replaced)) ?? '', reason);
      await stream;
      assert.is(supervisor.status().state, 'ready');
      assert.is(eventsOf('runner_replacement_failed').length, 1);
    });
  }
});

test('a runner that does not end by itself is ended, and replaced all the same', async () => {
  const limits = { terminateAfterMs: 50 };
  await supervised(['--stubborn', '--delay-ms', '2'], { limits }, async ({ supervisor, state }) => {
    await state('ready');
    const stream = collectExact(supervisor, requestOf([7], 200));
    const replaced = supervisor.replaceRunner({ command: () => fakeCommand() });
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
    await stream;
  });
});

test('two replacements at once: the last one counts, and both hear of it', async () => {
  await supervised(['--delay-ms', '2'], {}, async ({ supervisor, state }) => {
    await state('ready');
    const stream = collectExact(supervisor, requestOf([7], 400));
    const first = supervisor.replaceRunner({ command: () => fakeCommand('--wrong-version') });
    const second = supervisor.replaceRunner({ command: () => fakeCommand('--max-model-len', '2000') });
    assert.equal(await within(patienceMs, 'The new runner', Promise.all([first, second])), [
      undefined,
      undefined,
    ]);
    assert.is(supervisor.status().info?.maxModelLen, 2000);
    await stream;
  });
});

test('a runner that is slower than the one before is not taken for one that hangs', async () => {
  await supervised(['--delay-ms', '1'], { limits: { wedgeMs: 50 } }, async ({ supervisor, state }) => {
    await state('ready');
    await collectExact(supervisor, requestOf([7], 200));
    const replaced = supervisor.replaceRunner({ command: () => fakeCommand('--delay-ms', '1000') });
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
    await collectExact(supervisor, requestOf([7], 4));
    assert.is(supervisor.status().restarts, 1);
  });
});

test('a runner that gets ready after it was told to end is not taken for the new one', async () => {
  const limits = { terminateAfterMs: 1500 };
  await supervised(['--stubborn', '--slow-load', '300'], { limits }, async ({ supervisor, eventsOf }) => {
    const loading = () => (supervisor.status().loadProgress ?? 0) > 0;
    await until(patienceMs, 'The load', loading);
    const replaced = supervisor.replaceRunner({ command: () => fakeCommand('--max-model-len', '2000') });
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
    assert.is(supervisor.status().info?.maxModelLen, 2000);
    assert.is(eventsOf('model_load_complete').length, 1);
  });
});

test('a plan that comes while another is prepared is prepared itself', async () => {
  let fail = (_: Error): void => {};
  const prepare = () => new Promise<undefined>((_, reject) => (fail = reject));
  await supervised([], { prepare }, async ({ supervisor }) => {
    let numPrepared = 0;
    const replaced = supervisor.replaceRunner({
      prepare: async () => {
        numPrepared++;
        return undefined;
      },
      command: () => fakeCommand(),
    });
    fail(new Error('There is no such file.'));
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
    assert.is(numPrepared, 1);
  });
});

test('where a runner is failed or not there yet, a new command is another chance', async () => {
  await supervised(['--exit-code', '64'], {}, async ({ supervisor, state }) => {
    await state('failed');
    const replaced = supervisor.replaceRunner({ command: () => fakeCommand() });
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
  });
  await supervised(['--slow-load', '60000'], {}, async ({ supervisor }) => {
    const replaced = supervisor.replaceRunner({ command: () => fakeCommand() });
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
    assert.is(supervisor.status().state, 'ready');
  });
});

test.run();
