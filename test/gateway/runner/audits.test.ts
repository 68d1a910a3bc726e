import { setImmediate as nextTurn } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Audits, firstPauseMs, MAX_WAITING_AUDITS, maxPauseMs } from '../../../gateway/runner/audits.ts';
import { ObservedRunner } from '../../../gateway/runner/observed-runner.ts';
import { GenerationError, type Runner } from '../../../gateway/runner/runner.ts';
import { batchesOf } from '../../fixtures/batches.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { type Act, ScriptedRunner, scriptedInfo } from '../../fixtures/scripted-runner.ts';
import { requestOf } from '../../fixtures/supervised.ts';

const test = suite('audits');

interface World {
  readonly served: ScriptedRunner;
  readonly auditor: ScriptedRunner;
  /** What the audits have found so far. */
  readonly found: string[];
  /** Reasons that go with it. */
  readonly reasons: string[];
  /** Has an answer computed, and read to its end. */
  answer(request?: ReturnType<typeof requestOf>, signal?: AbortSignal): Promise<void>;
}

/** Answers of `script`, of which the auditor says `again`. random: as in AuditsOptions, for one answer after the other. */
function world(
  script: readonly Act[],
  again: readonly Act[],
  {
    share = 1,
    random = [0],
    ready,
    now = () => 0,
  }: { share?: number; random?: number[]; ready?: () => Promise<Runner>; now?: () => number } = {},
): World {
  const served = new ScriptedRunner();
  const auditor = new ScriptedRunner();
  served.script = script;
  auditor.script = again;
  const found: string[] = [];
  const reasons: string[] = [];
  let numDrawn = 0;
  const audits = new Audits({
    share,
    random: () => random[numDrawn++ % random.length] as number,
    audited: () => served.status().info,
    auditor: ready ?? (async () => auditor),
    now,
    onAudited: (result, reason) => {
      found.push(result);
      reasons.push(reason);
    },
  });
  const runner = new ObservedRunner(served, [audits], () => 0);
  const answer: World['answer'] = async (request = requestOf([1, 2, 3], 4), signal) => {
    for await (const _ of batchesOf(runner, request, signal));
  };
  return { served, auditor, found, reasons, answer };
}

/** Waits until this many audits have ended. */
async function audited({ found }: World, count: number): Promise<void> {
  while (found.length < count) await nextTurn();
}

test('an answer is computed again as it was asked for, and its tokens are equal', async () => {
  const it = world([[5, 6], [7], [8]], [[5, 6, 7, 8]]);
  const request = { ...requestOf([1, 2, 3], 4), topLogprobs: 2, deadlineMs: 5, cacheSalt: Uint8Array.of(7) };
  await it.answer(request);
  await audited(it, 1);
  assert.equal(it.found, ['equal']);
  const { promptIds, modelIdentity, stopIds, sampling, minTokens } = request;
  assert.equal(it.auditor.requests, [
    { promptIds, modelIdentity, stopIds, sampling, maxTokens: 4, minTokens, cacheSalt: new Uint8Array() },
  ]);
});

test('a token that differs is found at its position, and the sentence has no token of the answer', async () => {
  const it = world([[501, 502, 503, 504]], [[501, 502, 603, 604]]);
  await it.answer();
  await audited(it, 1);
  assert.equal(it.found, ['differs']);
  assert.match(it.reasons[0] as string, 'from the token 2 on');
  assert.not.match(it.reasons[0] as string, /50\d|60\d/);
});

test('an answer that ends too early or too late on the auditor differs', async () => {
  const it = world([[5, 6, 7, 8]], [[5, 6, 9]]);
  await it.answer({ ...requestOf([1], 4), stopIds: [9] });
  await audited(it, 1);
  assert.equal(it.found, ['differs']);
});

test('an answer whose client has left is audited as far as it came', async () => {
  const it = world([[5, 6], 'wait'], [[5, 6, 7, 8]]);
  const left = new AbortController();
  const reading = errorOf(() => it.answer(requestOf([1, 2, 3], 4), left.signal));
  while (it.served.numAtWait === 0) await nextTurn();
  left.abort();
  assert.is((await reading).message, 'The request was cancelled.');
  await audited(it, 1);
  assert.equal(it.found, ['equal']);
  assert.is(it.auditor.requests[0]?.maxTokens, 2);
});

test('only the share of the answers is audited that was asked for', async () => {
  const it = world([[5, 6, 7, 8]], [[5, 6, 7, 8]], { share: 0.25, random: [0, 0.25, 0.9, 0.249] });
  for (let count = 0; count < 4; count++) await it.answer();
  await audited(it, 2);
  assert.is(it.auditor.requests.length, 2);
});

test('embeddings and answers that another gateway has begun are not audited', async () => {
  const it = world([[8]], [[8]]);
  await it.answer({ ...requestOf([1], 4), pooling: 'mean' });
  await it.answer({ ...requestOf([1], 4), resumeFrom: { tokenIds: [5, 6, 7], numericsId: 'scripted' } });
  await nextTurn();
  assert.is(it.auditor.requests.length, 0);
});

test('answers of other arithmetic, and those that the auditor refuses or cannot be started for, are unverifiable', async () => {
  const other = world([[5]], [[5]]);
  other.auditor.current = { ...other.auditor.current, info: { ...scriptedInfo, numericsId: 'other' } };
  await other.answer(requestOf([1], 1));
  const refusing = world([[5]], [new GenerationError('OUT_OF_MEMORY', 'No room.', { retriable: true })]);
  await refusing.answer(requestOf([1], 1));
  const absent = world([[5]], [], { ready: () => Promise.reject(new Error('Not built.')) });
  await absent.answer(requestOf([1], 1));
  for (const [it, reason] of [
    [other, 'other'],
    [refusing, 'No room.'],
    [absent, 'Not built.'],
  ] as const) {
    await audited(it, 1);
    assert.equal(it.found, ['unverifiable']);
    assert.match(it.reasons[0] as string, reason);
  }
});

test('an auditor that cannot be started is started again after a pause that grows, and no more than that', async () => {
  let nowMs = 0;
  let numStarts = 0;
  let isStartable = false;
  const ready = async (): Promise<Runner> => {
    numStarts += 1;
    if (isStartable) return it.auditor;
    throw new Error('No memory.');
  };
  const it: World = world([[5]], [[5]], { ready, now: () => nowMs });
  let numAnswers = 0;
  const answerAt = async (atMs: number): Promise<number> => {
    nowMs = atMs;
    await it.answer(requestOf([1], 1));
    numAnswers += 1;
    await audited(it, numAnswers);
    return numStarts;
  };
  assert.equal(
    [await answerAt(0), await answerAt(firstPauseMs - 1), await answerAt(firstPauseMs)],
    [1, 1, 2],
  );
  assert.equal([await answerAt(3 * firstPauseMs - 1), await answerAt(3 * firstPauseMs)], [2, 3]);
  for (let count = 0; count < 20; count++) await answerAt(nowMs + maxPauseMs);
  assert.is(numStarts, 23);
  assert.ok(it.reasons.every((reason) => reason.includes('No memory.')));
  isStartable = true;
  await answerAt(nowMs + maxPauseMs);
  await answerAt(nowMs);
  assert.equal(it.found.slice(-2), ['equal', 'equal']);
});

test('audits come one after the other, and what too many others wait before is skipped', async () => {
  let start: (runner: Runner) => void = () => {};
  const starting = new Promise<Runner>((resolve) => (start = resolve));
  const it = world([[5]], [[5]], { ready: () => starting });
  // One is being audited, or waits for the auditor.
  for (let count = 0; count < MAX_WAITING_AUDITS + 3; count++) await it.answer(requestOf([1], 1));
  assert.equal(it.found, ['skipped', 'skipped']);
  start(it.auditor);
  await audited(it, MAX_WAITING_AUDITS + 3);
  assert.is(it.found.filter((result) => result === 'equal').length, MAX_WAITING_AUDITS + 1);
});

test.run();
