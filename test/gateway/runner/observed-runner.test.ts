import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ObservedRunner, type RequestObserver, TimeLimit } from '../../../gateway/runner/observed-runner.ts';
import { type GenerateRequest, GenerationError, type TokenSink } from '../../../gateway/runner/runner.ts';
import { ANONYMOUS, inBackground } from '../../../gateway/system/caller.ts';
import { batchesOf } from '../../fixtures/batches.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { collect, requestOf } from '../../fixtures/supervised.ts';
import { PATIENCE_MS, within } from '../../fixtures/within.ts';

const test = suite('observed runner');

const refusal = new GenerationError('QUEUE_FULL', 'Full.', { retriable: true });

/** A runner whose requests are answered by hand, with two observers and a consumer that all write down what they see. */
function observed() {
  const seen: string[] = [];
  const inner = new ScriptedRunner();
  inner.script = ['wait'];
  const observer = (name: string): RequestObserver => ({
    onAsked: ({ promptIds }) => {
      seen.push(`${name} asked`);
      if (promptIds.length === 0) throw refusal;
    },
    onRefused: (outcome) => seen.push(`${name} refused ${outcome}`),
    onAdmitted: () => seen.push(`${name} admitted`),
    onTokens: (_, { tokenIds }) => seen.push(`${name} ${tokenIds}`),
    onEnd: (_, outcome) => seen.push(`${name} ended ${outcome}`),
  });
  const sink: TokenSink = {
    onTokens: ({ tokenIds }) => seen.push(`consumer ${tokenIds}`),
    onError: ({ code }) => seen.push(`consumer ${code}`),
  };
  const runner = new ObservedRunner(inner, [observer('first'), observer('second')], () => 0);
  const generate = (request: GenerateRequest = requestOf([1], 5)) => runner.generate(request, sink);
  /** What was seen since the last call. */
  const taken = (): string[] => seen.splice(0);
  return { inner, runner, generate, taken };
}

test('each observer sees admission, tokens and end, in order and before the consumer', () => {
  const { generate, taken } = observed();
  const request = generate();
  assert.equal(taken(), ['first asked', 'second asked', 'first admitted', 'second admitted']);
  request.onTokens({ firstIndex: 0, tokenIds: [7] });
  assert.equal(taken(), ['first 7', 'second 7', 'consumer 7']);
  request.onTokens({ firstIndex: 1, tokenIds: [8], finish: 'stop_id' });
  assert.equal(taken(), ['first 8', 'second 8', 'first ended eos', 'second ended eos', 'consumer 8']);
  request.cancel('enough');
  assert.equal(taken(), [], 'the end is seen once');
});

test('an observer can fail an answer, whose request is then cancelled on the runner', () => {
  const { inner, generate, taken } = observed();
  const request = generate();
  taken();
  request.fail(new GenerationError('TIMEOUT', 'Too late.', { retriable: true }));
  assert.equal(taken(), ['first ended timeout', 'second ended timeout', 'consumer TIMEOUT']);
  assert.is(inner.cancelled, 1);
});

test('what a runner or an observer refuses is seen as refused, once for each request', () => {
  const { inner, runner, generate, taken } = observed();
  assert.throws(() => generate(requestOf([], 5)), refusal.message);
  assert.equal(taken(), ['first asked', 'first refused queue_full', 'second refused queue_full']);
  assert.is(inner.requests.length, 0, 'the runner does not hear of it');
  inner.refuse = refusal;
  assert.throws(() => runner.assertCapacity([requestOf([1], 5), requestOf([1], 5)]), refusal.message);
  const refused = ['first refused queue_full', 'second refused queue_full'];
  assert.equal(taken(), [...refused, ...refused]);
});

const NOW_MS = 1_000_000;

function limited(limitMs: number): { inner: ScriptedRunner; runner: ObservedRunner } {
  const inner = new ScriptedRunner();
  return { inner, runner: new ObservedRunner(inner, [new TimeLimit(limitMs, () => NOW_MS)], Date.now) };
}

async function timeoutOf(action: () => unknown): Promise<GenerationError> {
  const error = await within(PATIENCE_MS, 'the timeout', errorOf(action));
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

test('a request in the background has no limit but its own deadline', () => {
  const { inner, runner } = limited(60_000);
  const before = numTimers();
  inner.script = ['wait'];
  const sink = { onTokens: () => {}, onError: () => {} };
  const caller = inBackground(ANONYMOUS);
  const unlimited = runner.generate(requestOf([1], 3, { caller }), sink);
  assert.is(numTimers(), before);
  const bounded = runner.generate(requestOf([1], 3, { caller, deadlineMs: NOW_MS + 1000 }), sink);
  assert.is(numTimers(), before + 1);
  for (const handle of [unlimited, bounded]) handle.cancel();
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
