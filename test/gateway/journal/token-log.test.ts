import { setImmediate as nextTurn } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { emptyContent } from '../../../gateway/journal/records.ts';
import { TokenLog } from '../../../gateway/journal/token-log.ts';
import { GenerationError, type TokenBatch } from '../../../gateway/runner/runner.ts';

const test = suite('token log');

const failure = new GenerationError('INFERENCE_FAILED', 'It failed.', { retriable: false });

function logOf(topLogprobs?: number) {
  return new TokenLog(emptyContent(topLogprobs === undefined ? {} : { topLogprobs }));
}

function readerOf(log: TokenLog, onBatch: () => void = () => {}) {
  const heard: (TokenBatch | GenerationError | 'suspended')[] = [];
  const handle = log.read(
    {
      onTokens: (batch) => {
        heard.push(batch);
        onBatch();
      },
      onError: (error) => heard.push(error),
    },
    () => heard.push('suspended'),
  );
  return { heard, handle };
}

test('whoever reads, and whenever, gets the same batches, a token each', async () => {
  const log = logOf(1);
  const logprobs = [3, 4, 5].map((id) => ({ logprob: -id, topIds: [id], topLogprobs: [-id] }));
  const early = readerOf(log);
  await nextTurn();
  const first = { numCachedTokens: 2, queuedUs: 3, prefillUs: 4 };
  log.append({ firstIndex: 0, tokenIds: [3, 4], logprobs: logprobs.slice(0, 2), first });
  const middle = readerOf(log);
  await nextTurn();
  log.append({
    firstIndex: 2,
    tokenIds: [5],
    logprobs: logprobs.slice(2),
    continuedBy: 'x',
    finish: 'stop_id',
  });
  const late = readerOf(log);
  await nextTurn();
  assert.equal(early.heard, [
    { firstIndex: 0, tokenIds: [3], logprobs: [logprobs[0]], first },
    { firstIndex: 1, tokenIds: [4], logprobs: [logprobs[1]] },
    { firstIndex: 2, tokenIds: [5], logprobs: [logprobs[2]], continuedBy: 'x', finish: 'stop_id' },
  ]);
  assert.equal(middle.heard, early.heard);
  assert.equal(late.heard, early.heard);
});

test('a finish comes after the last token, and an error after all earlier output', async () => {
  const finished = logOf();
  finished.append({ firstIndex: 0, tokenIds: [3] });
  finished.append({ firstIndex: 1, tokenIds: [], finish: 'time_limit' });
  const { heard } = readerOf(finished);
  const failed = logOf();
  failed.append({ firstIndex: 0, tokenIds: [3] });
  failed.end({ kind: 'error', error: failure });
  failed.append({ firstIndex: 1, tokenIds: [4] });
  const other = readerOf(failed);
  await nextTurn();
  assert.equal(heard, [
    { firstIndex: 0, tokenIds: [3] },
    { firstIndex: 1, tokenIds: [], finish: 'time_limit' },
  ]);
  assert.equal(other.heard, [{ firstIndex: 0, tokenIds: [3] }, failure]);
});

test('whoever does not find the end of an answer whose text ended it has it after the last token', async () => {
  const log = logOf(1);
  const logprobs = [3, 4].map((id) => ({ logprob: -id, topIds: [id], topLogprobs: [-id] }));
  log.append({ firstIndex: 0, tokenIds: [3, 4], logprobs });
  const finding = readerOf(log, () => finding.handle.cancel());
  const other = readerOf(log);
  await nextTurn();
  log.end({ kind: 'enough' });
  const late = readerOf(log);
  await nextTurn();
  assert.is(finding.heard.length, 1);
  assert.equal(other.heard, [
    { firstIndex: 0, tokenIds: [3], logprobs: [logprobs[0]] },
    { firstIndex: 1, tokenIds: [4], logprobs: [logprobs[1]] },
    { firstIndex: 2, tokenIds: [], logprobs: [], finish: 'stop_id' },
  ]);
  assert.equal(late.heard, other.heard);
});

test('a paused reader resumes, a cancelled one stops, and others are unaffected', async () => {
  const log = logOf();
  const other = readerOf(log);
  const leaving = readerOf(log);
  const paused = readerOf(log, () => paused.handle.pause());
  log.append({ firstIndex: 0, tokenIds: [1, 2, 3] });
  await nextTurn();
  leaving.handle.cancel();
  log.append({ firstIndex: 3, tokenIds: [4], finish: 'max_tokens' });
  assert.is(paused.heard.length, 1);
  paused.handle.resume();
  assert.is(paused.heard.length, 2);
  assert.is(leaving.heard.length, 3);
  assert.is(other.heard.length, 4);
});

test('a reader that is far behind catches up in several turns, and loses nothing to what comes meanwhile', async () => {
  const log = logOf();
  log.append({ firstIndex: 0, tokenIds: Array.from({ length: 2000 }, (_, id) => id) });
  const { heard } = readerOf(log);
  await Promise.resolve();
  assert.ok(heard.length < 2000);
  log.append({ firstIndex: 2000, tokenIds: [2000], finish: 'max_tokens' });
  for (let turn = 0; turn < 10; turn += 1) await nextTurn();
  assert.equal(
    heard.map((batch) => (batch as TokenBatch).tokenIds[0]),
    Array.from({ length: 2001 }, (_, id) => id),
  );
});

test('readers of an answer that moves elsewhere learn so and see no end', async () => {
  const log = logOf();
  const { heard } = readerOf(log);
  log.append({ firstIndex: 0, tokenIds: [1] });
  await nextTurn();
  log.suspend();
  log.append({ firstIndex: 1, tokenIds: [2] });
  assert.equal(heard, [{ firstIndex: 0, tokenIds: [1] }, 'suspended']);
});

test.run();
