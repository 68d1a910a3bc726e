import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ObservedRunner } from '../../../gateway/runner/observed-runner.ts';
import { GenerationError } from '../../../gateway/runner/runner.ts';
import { TimeLimit } from '../../../gateway/runner/time-limit.ts';
import { batchesOf } from '../../fixtures/batches.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { collect, requestOf } from '../../fixtures/supervised.ts';
import { within } from '../../fixtures/within.ts';

const test = suite('time limit');

const NOW_MS = 1_000_000;

function limited(limitMs: number): { inner: ScriptedRunner; runner: ObservedRunner } {
  const inner = new ScriptedRunner();
  return { inner, runner: new ObservedRunner(inner, [new TimeLimit(limitMs, () => NOW_MS)], Date.now) };
}

async function timeoutOf(action: () => unknown): Promise<GenerationError> {
  const error = await within(5000, 'the timeout', errorOf(action));
  if (!(error instanceof GenerationError)) throw error;
  assert.is(error.code, 'TIMEOUT');
  assert.ok(error.retriable);
  return error;
}

test('an answer that takes longer than the server allows is cancelled and ends with TIMEOUT', async () => {
  const { inner, runner } = limited(20);
  inner.script = [[1, 2], 'wait'];
  const error = await timeoutOf(() => collect(runner, requestOf([1], 10)));
  assert.match(error.message, 'within 0.02 s');
  assert.is(inner.cancelled, 1);
});

test('the earlier of deadline and limit counts', async () => {
  const { inner, runner } = limited(60_000);
  inner.script = ['wait'];
  const error = await timeoutOf(() => collect(runner, requestOf([1], 10, { deadlineMs: NOW_MS + 20 })));
  assert.match(error.message, 'deadline');
  const far = limited(20);
  far.inner.script = ['wait'];
  const farRequest = requestOf([1], 10, { deadlineMs: NOW_MS + 1e14 });
  assert.match((await timeoutOf(() => collect(far.runner, farRequest))).message, 'limit');
});

test('a deadline that has passed is refused before the runner hears of it', async () => {
  const { inner, runner } = limited(60_000);
  await timeoutOf(() => batchesOf(runner, requestOf([1], 10, { deadlineMs: NOW_MS })));
  assert.is(inner.requests.length, 0);
});

test('an answer in time is as it would be; a cancel stays a cancel', async () => {
  const { inner, runner } = limited(60_000);
  inner.script = [[1, 2], [3]];
  assert.equal(await collect(runner, requestOf([1], 3)), [1, 2, 3]);
  inner.script = ['wait'];
  const leave = new AbortController();
  const reading = errorOf(() => collect(runner, requestOf([1], 3), { signal: leave.signal }));
  leave.abort();
  assert.is(((await reading) as GenerationError).code, 'CANCELLED');
});

/** The number of timers of this process. */
const numTimers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;

test('there is one timer for all, and none for those that have ended or left', async () => {
  const { inner, runner } = limited(60_000);
  const before = numTimers();
  inner.script = ['wait'];
  const heard: string[] = [];
  const sink = {
    onTokens: () => heard.push('tokens'),
    onError: ({ code }: GenerationError) => heard.push(code),
  };
  const handles = Array.from({ length: 10 }, () => runner.generate(requestOf([1], 3), sink));
  assert.is(numTimers(), before + 1);
  for (const handle of handles) handle.cancel();
  assert.is(numTimers(), before);
  inner.script = [[1, 2], [3]];
  await collect(runner, requestOf([1], 3));
  assert.is(numTimers(), before);
  assert.equal(heard, [], 'who has left hears nothing');
});

test.run();
