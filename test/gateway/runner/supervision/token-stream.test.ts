import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import {
  pauseAboveLogprobs,
  pauseAboveTokens,
  TokenStream,
} from '../../../../gateway/runner/supervision/token-stream.ts';
import { within } from '../../../fixtures/within.ts';

const failure = new GenerationError('INFERENCE_FAILED', 'It failed.', { retriable: false });

function streamOf() {
  const flows: string[] = [];
  const stream = new TokenStream((flow) => flows.push(flow));
  let index = 0;
  const push = (numTokens: number, finish?: 'stop_id' | 'max_tokens') => {
    const tokenIds = Array.from({ length: numTokens }, (_, offset) => index + offset);
    stream.push({ requestId: 1, firstIndex: index, tokenIds, ...(finish === undefined ? {} : { finish }) });
    index += numTokens;
  };
  return { stream, flows, push, next: () => within(1000, 'a batch', stream.next()) };
}

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

const tokenStream = suite('token stream');

tokenStream('gives all that has come since the last take', async () => {
  const { push, next } = streamOf();
  push(1);
  push(2);
  assert.equal(await next(), { firstIndex: 0, tokenIds: [0, 1, 2] });
  push(1, 'stop_id');
  assert.equal(await next(), { firstIndex: 3, tokenIds: [3], finish: 'stop_id' });
});

tokenStream('gives a token to a consumer that waits', async () => {
  const { push, next } = streamOf();
  const batch = next();
  push(0);
  push(1);
  assert.equal(await batch, { firstIndex: 0, tokenIds: [0] });
});

tokenStream('gives an end without a token', async () => {
  const { push, next } = streamOf();
  push(0, 'max_tokens');
  assert.equal(await next(), { firstIndex: 0, tokenIds: [], finish: 'max_tokens' });
});

tokenStream('log-probabilities weigh more than tokens', async () => {
  const { stream, flows, next } = streamOf();
  const topIds = Array.from({ length: 20 }, (_, id) => id);
  const entry = { logprob: -1, topIds, topLogprobs: topIds };
  const numFull = Math.ceil((pauseAboveLogprobs + 1) / 21);
  for (const round of [0, 1]) {
    for (let index = 0; index < numFull; index++) {
      assert.equal(flows.slice(2 * round), [], `${index} tokens`);
      const firstIndex = round * numFull + index;
      stream.push({ requestId: 1, firstIndex, tokenIds: [7], logprobs: [entry] });
    }
    assert.equal(flows.slice(2 * round), ['pause']);
    await next();
    assert.equal(flows.slice(2 * round), ['pause', 'resume']);
  }
});

tokenStream('keeps log-probabilities beside their tokens', async () => {
  const { stream, next } = streamOf();
  const entry = (logprob: number) => ({ logprob, topIds: [], topLogprobs: [] });
  stream.push({ requestId: 1, firstIndex: 0, tokenIds: [7], logprobs: [entry(-1)] });
  stream.push({ requestId: 1, firstIndex: 1, tokenIds: [8], logprobs: [entry(-2)] });
  assert.equal((await next()).logprobs, [entry(-1), entry(-2)]);
});

tokenStream('pauses above the bound and resumes when it is emptied', async () => {
  const { stream, push, next, flows } = streamOf();
  push(pauseAboveTokens);
  assert.equal(flows, []);
  push(1);
  push(1);
  assert.equal(flows, ['pause'], 'once');
  assert.is(stream.isPaused, true);
  assert.is((await next()).tokenIds.length, pauseAboveTokens + 2);
  assert.equal(flows, ['pause', 'resume']);
  assert.is(stream.isPaused, false);
});

tokenStream('fails behind the tokens that have come', async () => {
  const { stream, push, next } = streamOf();
  push(2);
  stream.fail(failure);
  assert.equal((await next()).tokenIds, [0, 1]);
  assert.is(await rejection(next()), failure);
  assert.is(await rejection(next()), failure, 'and stays so');
});

tokenStream('aborts at once, for a consumer that waits and for one that does not', async () => {
  const waiting = streamOf();
  const batch = rejection(waiting.next());
  waiting.stream.abort(failure);
  assert.is(await batch, failure);

  const late = streamOf();
  late.push(2, 'stop_id');
  late.stream.abort(failure);
  assert.is(await rejection(late.next()), failure);
});

tokenStream('says once how the answer began, whoever goes on with it', async () => {
  const { stream, next } = streamOf();
  const first = (numCachedTokens: number) => ({ numCachedTokens, queuedUs: 1, prefillUs: 2 });
  const scores = [{ logprob: -1, topIds: [], topLogprobs: [] }];
  stream.pushPromptLogprobs(scores);
  stream.push({ requestId: 1, firstIndex: 0, tokenIds: [5], first: first(3) });
  stream.push({ requestId: 2, firstIndex: 1, tokenIds: [6], first: first(9) });
  const batch = await next();
  assert.equal([batch.first, batch.promptLogprobs], [first(3), scores]);
  stream.push({ requestId: 3, firstIndex: 2, tokenIds: [7], first: first(9) });
  assert.equal(await next(), { firstIndex: 2, tokenIds: [7] });
});

tokenStream.run();
