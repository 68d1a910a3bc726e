import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError, type TokenBatch } from '../../../../gateway/runner/runner.ts';
import {
  pauseAboveLogprobs,
  pauseAboveTokens,
  TokenStream,
} from '../../../../gateway/runner/supervision/token-stream.ts';

const failure = new GenerationError('INFERENCE_FAILED', 'It failed.', { retriable: false });

function streamOf() {
  const flows: string[] = [];
  const heard: (TokenBatch | GenerationError)[] = [];
  const stream = new TokenStream(
    { onTokens: (batch) => heard.push(batch), onError: (error) => heard.push(error) },
    (flow) => flows.push(flow),
  );
  let index = 0;
  const push = (numTokens: number, finish?: 'stop_id' | 'max_tokens') => {
    const tokenIds = Array.from({ length: numTokens }, (_, offset) => index + offset);
    stream.push({ requestId: 1, firstIndex: index, tokenIds, ...(finish === undefined ? {} : { finish }) });
    index += numTokens;
  };
  /** What was heard since the last call. */
  const news = () => heard.splice(0);
  /** What a consumer hears that takes one batch and no more. */
  const next = () => {
    stream.resume();
    stream.pause();
    return news();
  };
  return { stream, flows, push, next, news };
}

const tokenStream = suite('token stream');

tokenStream('counts from where an answer that was begun elsewhere goes on', () => {
  const heard: (TokenBatch | GenerationError)[] = [];
  const sink = { onTokens: (batch: TokenBatch) => heard.push(batch), onError: () => {} };
  const stream = new TokenStream(sink, () => {}, 7);
  stream.push({ requestId: 1, firstIndex: 7, tokenIds: [1, 2] });
  stream.push({ requestId: 1, firstIndex: 9, tokenIds: [3] });
  assert.equal(heard, [
    { firstIndex: 7, tokenIds: [1, 2] },
    { firstIndex: 9, tokenIds: [3] },
  ]);
});

tokenStream('gives all that has come during a pause, at once', () => {
  const { stream, push, next } = streamOf();
  stream.pause();
  push(1);
  push(2);
  assert.equal(next(), [{ firstIndex: 0, tokenIds: [0, 1, 2] }]);
  push(1, 'stop_id');
  assert.equal(next(), [{ firstIndex: 3, tokenIds: [3], finish: 'stop_id' }]);
  assert.equal(next(), [], 'and nothing behind the end');
});

tokenStream('gives a token before its push returns to a consumer that has not paused', () => {
  const { push, news } = streamOf();
  push(0);
  assert.equal(news(), []);
  push(1);
  assert.equal(news(), [{ firstIndex: 0, tokenIds: [0] }]);
  push(1);
  assert.equal(news(), [{ firstIndex: 1, tokenIds: [1] }]);
});

tokenStream('says of the first tokens of another runner that they are, and of no others', () => {
  const { stream, push, news } = streamOf();
  push(1);
  stream.resumed();
  push(0);
  push(2);
  push(1);
  assert.equal(
    news().map((batch) => 'isResumed' in batch && batch.isResumed),
    [false, true, false],
  );
});

tokenStream('gives an end without a token', () => {
  const { push, news } = streamOf();
  push(0, 'max_tokens');
  assert.equal(news(), [{ firstIndex: 0, tokenIds: [], finish: 'max_tokens' }]);
});

tokenStream('log-probabilities weigh more than tokens', () => {
  const { stream, flows, next } = streamOf();
  stream.pause();
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
    next();
    assert.equal(flows.slice(2 * round), ['pause', 'resume']);
  }
});

tokenStream('keeps log-probabilities beside their tokens', () => {
  const { stream, next } = streamOf();
  stream.pause();
  const entry = (logprob: number) => ({ logprob, topIds: [], topLogprobs: [] });
  stream.push({ requestId: 1, firstIndex: 0, tokenIds: [7], logprobs: [entry(-1)] });
  stream.push({ requestId: 1, firstIndex: 1, tokenIds: [8], logprobs: [entry(-2)] });
  assert.equal(next(), [{ firstIndex: 0, tokenIds: [7, 8], logprobs: [entry(-1), entry(-2)] }]);
});

tokenStream('pauses above the bound and resumes when it is emptied', () => {
  const { stream, push, next, flows } = streamOf();
  stream.pause();
  push(pauseAboveTokens);
  assert.equal(flows, []);
  push(1);
  push(1);
  assert.equal(flows, ['pause'], 'once');
  assert.is(stream.isPaused, true);
  const [batch] = next();
  assert.is((batch as TokenBatch).tokenIds.length, pauseAboveTokens + 2);
  assert.equal(flows, ['pause', 'resume']);
  assert.is(stream.isPaused, false);
});

tokenStream('a consumer that never pauses has nothing held, and no flow is asked for', () => {
  const { push, news, flows } = streamOf();
  for (let count = 0; count < 2 * pauseAboveTokens; count++) push(1);
  assert.equal([news().length, flows], [2 * pauseAboveTokens, []]);
});

tokenStream('a consumer that pauses while it hears what had waited hears the error when it goes on', () => {
  const heard: unknown[] = [];
  const stream: TokenStream = new TokenStream(
    {
      onTokens: ({ tokenIds }) => {
        heard.push(tokenIds);
        stream.pause();
      },
      onError: (error) => heard.push(error),
    },
    () => {},
  );
  stream.pause();
  stream.push({ requestId: 1, firstIndex: 0, tokenIds: [5] });
  stream.fail(failure);
  stream.resume();
  assert.equal(heard, [[5]]);
  stream.resume();
  stream.resume();
  assert.equal(heard, [[5], failure]);
});

tokenStream('fails after the tokens received', () => {
  const { stream, push, news } = streamOf();
  stream.pause();
  push(2);
  stream.fail(failure);
  assert.equal(news(), []);
  stream.resume();
  assert.equal(news(), [{ firstIndex: 0, tokenIds: [0, 1] }, failure]);
  stream.fail(failure);
  assert.equal(news(), [], 'once');
});

tokenStream('a closed stream delivers neither pending nor later tokens', () => {
  const { stream, push, next, news } = streamOf();
  stream.pause();
  push(2);
  stream.close();
  assert.equal(next(), []);
  stream.resume();
  push(1, 'stop_id');
  stream.fail(failure);
  assert.equal(news(), []);
});

tokenStream('says once how the answer began, whoever goes on with it', () => {
  const { stream, news } = streamOf();
  const first = (numCachedTokens: number) => ({ numCachedTokens, queuedUs: 1, prefillUs: 2 });
  const scores = [{ logprob: -1, topIds: [], topLogprobs: [] }];
  stream.pause();
  stream.pushPromptLogprobs(scores);
  stream.push({ requestId: 1, firstIndex: 0, tokenIds: [5], first: first(3) });
  stream.push({ requestId: 2, firstIndex: 1, tokenIds: [6], first: first(9) });
  stream.resume();
  assert.equal(news(), [{ firstIndex: 0, tokenIds: [5, 6], first: first(3), promptLogprobs: scores }]);
  stream.push({ requestId: 3, firstIndex: 2, tokenIds: [7], first: first(9) });
  assert.equal(news(), [{ firstIndex: 2, tokenIds: [7] }]);
});

tokenStream.run();
