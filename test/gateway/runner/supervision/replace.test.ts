import * as assert from 'uvu/assert';
import type { GenerationError } from '../../../../gateway/runner/runner.ts';
import { closingSuite } from '../../../fixtures/closing-suite.ts';
import { answerOf } from '../../../fixtures/fake-tokens.ts';
import {
  collectExact,
  fakeCommand,
  patienceMs,
  ready,
  requestOf,
  supervised,
} from '../../../fixtures/supervised.ts';
import { until, within } from '../../../fixtures/within.ts';

const test = closingSuite('replace');

const NUM_TOKENS = 1500;

test('a new runner that cannot be: the command of before runs again, and the streams go on', async () => {
  for (const [bad, reason] of [
    [['--exit-code', '64', '--failure', 'It has no such flag.'], 'It has no such flag.'],
    [['--crash-at', 'load', '--crash-after', '0'], 'SIGSEGV'],
    [['--wrong-version'], 'version'],
  ] as const) {
    const { supervisor, eventsOf } = await ready(['--delay-ms', '2']);
    const stream = collectExact(supervisor, requestOf([7], 400));
    const replaced = supervisor.replaceRunner({ command: () => fakeCommand(...bad) });
    assert.match((await within(patienceMs, 'The failure', replaced)) ?? '', reason);
    await stream;
    assert.is(supervisor.status().state, 'ready');
    assert.is(eventsOf('runner_replacement_failed').length, 1);
  }
});

test('a runner that does not end by itself is ended, and replaced all the same', async () => {
  const limits = { terminateAfterMs: 50 };
  const { supervisor } = await ready(['--stubborn', '--delay-ms', '2'], { limits });
  const stream = collectExact(supervisor, requestOf([7], 200));
  const replaced = supervisor.replaceRunner({ command: () => fakeCommand() });
  assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
  await stream;
});

test('two replacements at once: the last one counts, and both hear of it', async () => {
  const { supervisor } = await ready(['--delay-ms', '2']);
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

test('a stream that outgrows the smaller context of a new runner fails for lack of memory, with all tokens until then', async () => {
  // The one stream has room for some tokens more on the new runner, the other for none.
  for (const smaller of [400, 20]) {
    const { supervisor } = await ready(['--delay-ms', '2']);
    const ids: number[] = [];
    const prompt = [7, 3];
    const failed = new Promise<GenerationError>((resolve, reject) => {
      supervisor.generate(requestOf(prompt, NUM_TOKENS), {
        onTokens: ({ tokenIds, finish }) => {
          ids.push(...tokenIds);
          if (finish !== undefined) reject(new Error(`It ended with ${finish}.`));
        },
        onError: resolve,
      });
    });
    await until(patienceMs, 'More tokens than the smaller context holds', () => ids.length > 30);
    const small = { command: () => fakeCommand('--max-model-len', String(smaller)) };
    assert.is(await within(patienceMs, 'The new runner', supervisor.replaceRunner(small)), undefined);
    const { code, message, retriable } = await within(patienceMs, 'The failure', failed);
    assert.is(code, 'OUT_OF_MEMORY');
    assert.is(retriable, false);
    assert.match(message, `holds ${smaller} tokens`);
    assert.equal(ids, answerOf(prompt, requestOf(prompt, 1).sampling.seed, ids.length));
    if (smaller > 30) assert.is(prompt.length + ids.length, smaller, 'it went on as far as it could');
    // A new request is served.
    await collectExact(supervisor, requestOf([5], 10));
  }
});

test('a runner that is slower than the one before is not taken for one that hangs', async () => {
  const { supervisor } = await ready(['--delay-ms', '1'], { limits: { wedgeMs: 500 } });
  await collectExact(supervisor, requestOf([7], 200));
  const replaced = supervisor.replaceRunner({ command: () => fakeCommand('--delay-ms', '1000') });
  assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
  await collectExact(supervisor, requestOf([7], 4));
  assert.is(supervisor.status().restarts, 1);
});

test('a runner that becomes ready after its end was requested is not used', async () => {
  const limits = { terminateAfterMs: 1500 };
  const { supervisor, eventsOf } = supervised(['--stubborn', '--slow-load', '300'], { limits });
  const loading = () => (supervisor.status().loadProgress ?? 0) > 0;
  await until(patienceMs, 'The load', loading);
  const replaced = supervisor.replaceRunner({ command: () => fakeCommand('--max-model-len', '2000') });
  assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
  assert.is(supervisor.status().info?.maxModelLen, 2000);
  assert.is(eventsOf('model_load_complete').length, 1);
});

test('a plan that comes while another is prepared is prepared itself', async () => {
  let fail = (_: Error): void => {};
  const prepare = () => new Promise<undefined>((_, reject) => (fail = reject));
  const { supervisor } = supervised([], { prepare });
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

test('where a runner is failed or not there yet, a new command is another chance', async () => {
  const { supervisor, state } = supervised(['--exit-code', '64']);
  await state('failed');
  const replaced = supervisor.replaceRunner({ command: () => fakeCommand() });
  assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
  const loading = supervised(['--slow-load', '60000']).supervisor;
  const other = loading.replaceRunner({ command: () => fakeCommand() });
  assert.is(await within(patienceMs, 'The new runner', other), undefined);
  assert.is(loading.status().state, 'ready');
});

test.run();
