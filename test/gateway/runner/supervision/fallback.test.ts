/** Runners of another spec replace those whose device fails. */

import * as assert from 'uvu/assert';
import { modelIdentity } from '../../../../gateway/models/model-slot.ts';
import { Backoff } from '../../../../gateway/runner/supervision/restarts.ts';
import type { RunnerFailure, RunnerSpec } from '../../../../gateway/runner/supervision/runner-spec.ts';
import { batchesOf } from '../../../fixtures/batches.ts';
import { closingSuite } from '../../../fixtures/closing-suite.ts';
import {
  collectExact,
  fakeCommand,
  patienceMs,
  ready,
  requestOf,
  supervised,
  temporaryDirectory,
} from '../../../fixtures/supervised.ts';
import { until, within } from '../../../fixtures/within.ts';

const test = closingSuite('fallback');

function planB(failures: RunnerFailure[], ...flags: string[]): Required<Pick<RunnerSpec, 'fallback'>> {
  const plan = {
    command: () => fakeCommand('--kind', 'b', ...flags),
    modelPath: '/dev/null',
    modelIdentity: () => modelIdentity('/dev/null'),
  };
  return {
    fallback: (failure) => {
      failures.push(failure);
      return plan;
    },
  };
}

test('a device that does not answer at the start: the other plan’s runner is the first that is ready', async () => {
  const failures: RunnerFailure[] = [];
  const flags = ['--exit-code', '69', '--failure', 'No device.'];
  const { supervisor, eventsOf } = await ready(flags, planB(failures));
  assert.is(supervisor.status().info?.kind, 'b');
  assert.equal(
    failures.map(({ reason, death }) => [reason, death.readyForMs]),
    [['No device.', undefined]],
  );
  assert.is(eventsOf('runner_restarting').length, 0, 'nobody waits for a back-off');
  await collectExact(supervisor, requestOf([1], 20));
});

test('a plan that is found to be of no use before a start gives way to another: no runner of it is started', async () => {
  const instead = {
    command: () => fakeCommand('--kind', 'b'),
    modelPath: '/dev/null',
    modelIdentity: () => modelIdentity('/dev/null'),
  };
  const absent = { command: () => fakeCommand('--kind', 'a'), prepare: async () => instead };
  const { supervisor, eventsOf } = await ready([], absent);
  assert.is(supervisor.status().info?.kind, 'b');
  assert.is(eventsOf('model_load_start').length, 1);
  const back = await within(patienceMs, 'The new runner', supervisor.replaceRunner(absent));
  assert.is(back, undefined, 'that is what the new plan comes to');
  assert.is(supervisor.status().info?.kind, 'b');
});

test('a device that is lost under eight streams: each is whole, and says that it went on by other arithmetic', async () => {
  const directory = temporaryDirectory();
  const numericsFile = directory.write('numerics', 'other-1');
  const failures: RunnerFailure[] = [];
  const flags = ['--crash-after', '30', '--crash-signal', 'exit:79', '--numerics-file', numericsFile];
  const { supervisor, eventsOf } = await ready([...flags, '--delay-ms', '2'], planB(failures));
  const streams = [0, 1, 2, 3, 4, 5, 6, 7].map((first) => collectExact(supervisor, requestOf([first], 60)));
  await within(patienceMs, 'All streams', Promise.all(streams));
  assert.is(supervisor.status().info?.kind, 'b');
  assert.is(failures.length, 1);
  assert.ok((failures[0]?.death.readyForMs ?? 0) > 0);
  assert.equal(
    eventsOf('numerics_changed').map(({ from, to }) => [from, to]),
    [['other-1', 'fake-1']],
  );
  assert.is(eventsOf('breaker_opened').length, 0);
});

test('only an answer that was begun by other arithmetic says so, once', async () => {
  const directory = temporaryDirectory();
  const numericsFile = directory.write('numerics', 'other-1');
  const flags = ['--crash-after', '5', '--crash-signal', 'exit:79', '--numerics-file', numericsFile];
  const { supervisor } = await ready([...flags, '--delay-ms', '2'], planB([]));
  const marks: (string | undefined)[][] = [];
  for (let round = 0; round < 2; round++) {
    const found: (string | undefined)[] = [];
    for await (const batch of batchesOf(supervisor, requestOf([1], 30))) found.push(batch.continuedBy);
    marks.push(found.filter((mark) => mark !== undefined));
  }
  assert.equal(marks, [['fake-1'], []]);
});

test('runners that crash too often are given up for the other plan’s, instead of holding everybody back', async () => {
  const backoff = new Backoff(
    () => 0,
    () => 0.5,
  );
  const options = { backoff, ...planB([]) };
  const flags = ['--crash-at', 'hello', '--crash-after', '0'];
  const { supervisor, eventsOf } = await ready(flags, options);
  assert.is(supervisor.status().info?.kind, 'b');
  assert.is(eventsOf('breaker_opened').length, 0);
  assert.is(eventsOf('runner_exited').length, 6);
});

test('a new plan whose device fails settles for its own fallback; one that crashes goes back to what was there', async () => {
  const { supervisor, eventsOf } = await ready(['--kind', 'a']);
  const stream = collectExact(supervisor, requestOf([3], 400));
  const crashing = { command: () => fakeCommand('--crash-at', 'load'), ...planB([]) };
  const failure = await within(patienceMs, 'The failure', supervisor.replaceRunner(crashing));
  assert.match(failure ?? '', 'SIGSEGV');
  assert.is(supervisor.status().info?.kind, 'a');
  const absent = { command: () => fakeCommand('--exit-code', '69'), ...planB([]) };
  assert.is(await within(patienceMs, 'The new runner', supervisor.replaceRunner(absent)), undefined);
  assert.is(supervisor.status().info?.kind, 'b');
  assert.is(eventsOf('runner_replacement_failed').length, 1);
  await stream;
});

test('without another plan a device that fails is tried again', async () => {
  const directory = temporaryDirectory();
  const model = directory.write('model', 'bad');
  const flags = ['--model', model, '--exit-code', '69', '--failure', 'No device.'];
  const { supervisor, state, eventsOf } = supervised(flags);
  await until(patienceMs, 'Three attempts', () => eventsOf('runner_restarting').length >= 3);
  assert.is(supervisor.status().state, 'starting');
  assert.is(supervisor.status().reason, 'No device.');
  directory.write('model', 'good');
  await state('ready');
});

test.run();
