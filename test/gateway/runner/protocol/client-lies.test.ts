/** Messages that no honest runner sends: the client names the violation, closes, and ignores everything after it. */
import Long from 'long';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { maxNoticesAtOnce } from '../../../../gateway/runner/protocol/checks.ts';
import { runner } from '../../../../gateway/runner/protocol/proto/runner.js';
import { maxNeedlessSteps } from '../../../../gateway/runner/protocol/sent-requests.ts';
import {
  connect,
  connectAndAsk,
  type FromRunner,
  finishMax,
  finishStop,
  hello,
  masks,
  ready,
  request,
  scores,
  sinkOf,
  step,
} from '../../../fixtures/connected-client.ts';

const { v1 } = runner;

function many(notice: FromRunner): FromRunner[] {
  return new Array(maxNoticesAtOnce + 1).fill(notice);
}

const client = suite('lies to the client');

const lies: [name: string, change: object, says: (requestId: number) => FromRunner[], sentence: RegExp][] = [
  [
    'a gap in the indices',
    {},
    (requestId) => [step(1, { requestId, firstIndex: 1, tokenIds: [1] })],
    /got index 1 where 0/,
  ],
  [
    'a token told twice',
    {},
    (requestId) => [step(1, { requestId, tokenIds: [1] }), step(2, { requestId, tokenIds: [1] })],
    /got index 0 where 1/,
  ],
  [
    'an unknown request',
    {},
    () => [step(1, { requestId: 77, tokenIds: [1] })],
    /request 77, which is not open/,
  ],
  [
    'a token outside the vocabulary',
    {},
    (requestId) => [step(1, { requestId, tokenIds: [100] })],
    /got token 100; the vocabulary has 100/,
  ],
  [
    'tokens behind the end',
    {},
    (requestId) => [
      step(1, { requestId, tokenIds: [99], finishReason: finishStop }),
      step(2, { requestId, firstIndex: 1, tokenIds: [1] }),
    ],
    /request 1, which is not open/,
  ],
  [
    'tokens behind a stop id',
    {},
    (requestId) => [step(1, { requestId, tokenIds: [99, 1] })],
    /goes on behind its stop id 99/,
  ],
  [
    'a stop id that is no end',
    {},
    (requestId) => [step(1, { requestId, tokenIds: [99] })],
    /goes on behind its stop id 99/,
  ],
  [
    'a stop without a stop id',
    {},
    (requestId) => [step(1, { requestId, tokenIds: [1], finishReason: finishStop })],
    /ended by a stop id without one/,
  ],
  [
    'more tokens than asked for',
    {},
    (requestId) => [step(1, { requestId, tokenIds: [1, 2, 3, 4, 5] })],
    /got 5 tokens where 4 were left/,
  ],
  [
    'more tokens than the context has',
    { maxTokens: 100 },
    (requestId) => [step(1, { requestId, tokenIds: new Array(18).fill(1) })],
    /got 18 tokens where 17 were left/,
  ],
  [
    'all tokens and no end',
    { maxTokens: 1 },
    (requestId) => [step(1, { requestId, tokenIds: [1] })],
    /all its tokens and no finish_reason/,
  ],
  [
    'an answer cut off early',
    {},
    (requestId) => [step(1, { requestId, tokenIds: [1], finishReason: finishMax })],
    /cut off with 3 tokens left/,
  ],
  [
    'two outputs for one request',
    {},
    (requestId) => [step(1, { requestId, tokenIds: [1] }, { requestId, firstIndex: 1, tokenIds: [1] })],
    /two outputs in one step/,
  ],
  [
    'more outputs than sequences',
    {},
    () => [step(1, ...[1, 2, 3].map((requestId) => ({ requestId, tokenIds: [1] })))],
    /3 outputs, more than 2/,
  ],
  [
    'an output without a token',
    {},
    (requestId) => [step(1, { requestId })],
    /sent 0 as the number of Output\.token_ids; it must be 1 to 64/,
  ],
  ['a gap in the steps', {}, () => [step(2)], /Step 2 came where 1 comes next/],
  [
    'a step counter beyond all numbers',
    {},
    () => [{ step: { step: Long.MAX_UNSIGNED_VALUE } }],
    /came where 1 comes next/,
  ],
  [
    'log-probabilities nobody asked for',
    {},
    (requestId) => [step(1, { requestId, tokenIds: [1], logprobs: [{ logprob: -1 }] })],
    /got 1 log-probabilities where 0 belong/,
  ],
  [
    'too few log-probabilities',
    { topLogprobs: 1 },
    (requestId) => [step(1, { requestId, tokenIds: [1] })],
    /got 0 log-probabilities where 1 belong/,
  ],
  [
    'more top ids than asked for',
    { topLogprobs: 1 },
    (requestId) => [
      step(1, { requestId, tokenIds: [1], logprobs: [{ topIds: [1, 2], topLogprobs: [-1, -2] }] }),
    ],
    /got 2 top ids; 1 were asked for/,
  ],
  [
    'a top id outside the vocabulary',
    { topLogprobs: 1 },
    (requestId) => [step(1, { requestId, tokenIds: [1], logprobs: [{ topIds: [100], topLogprobs: [-1] }] })],
    /got token 100/,
  ],
  [
    'a cancel nobody asked for',
    {},
    (requestId) => [{ requestError: { requestId, code: v1.ErrorCode.ERROR_CODE_CANCELLED } }],
    /cancelled; nobody had asked/,
  ],
  [
    'a first output without its times',
    {},
    (requestId) => [{ step: { step: Long.ONE, outputs: [{ requestId, tokenIds: [1] }], firstOutputs: [] } }],
    /got its first output without its times/,
  ],
  [
    'a second first output',
    {},
    (requestId) => [
      step(1, { requestId, tokenIds: [1] }),
      {
        step: {
          step: Long.fromInt(2),
          outputs: [{ requestId, firstIndex: 1, tokenIds: [1] }],
          firstOutputs: [{ requestId }],
        },
      },
    ],
    /got a second first output/,
  ],
  [
    'a whole prompt in the cache',
    {},
    (requestId) => [
      {
        step: {
          step: Long.ONE,
          outputs: [{ requestId, tokenIds: [1] }],
          firstOutputs: [{ requestId, numCachedTokens: 3 }],
        },
      },
    ],
    /found 3 of 3 tokens in the cache/,
  ],
  [
    'a banned token',
    masks([], [7]),
    (requestId) => [step(1, { requestId, tokenIds: [7] })],
    /got token 7, which it must not draw/,
  ],
  [
    'a token that is not allowed',
    masks([7, 8], []),
    (requestId) => [step(1, { requestId, tokenIds: [8, 9] })],
    /got token 9, which it must not draw/,
  ],
  [
    'a stop id before its time',
    { minTokens: 2 },
    (requestId) => [step(1, { requestId, tokenIds: [1, 99], finishReason: finishStop })],
    /got token 99, which it must not draw/,
  ],
  [
    'scores of a prompt that nobody asked for',
    {},
    (requestId) => [scores(requestId, 1, 2)],
    /got its prompt's log-probabilities when none were due/,
  ],
  [
    'scores of a prompt behind the first token',
    { promptLogprobs: 0 },
    (requestId) => [scores(requestId, 1, 2), step(1, { requestId, tokenIds: [1] }), scores(requestId, 1, 2)],
    /got its prompt's log-probabilities when none were due/,
  ],
  [
    'a gap in the scores of a prompt',
    { promptLogprobs: 0 },
    (requestId) => [scores(requestId, 2, 1)],
    /of prompt token 2 where 1 comes next/,
  ],
  [
    'more scores than the prompt has tokens',
    { promptLogprobs: 0, tokenIds: [1, 2, 3, 4], numEmitted: 1 },
    (requestId) => [scores(requestId, 1, 3)],
    /of 3 prompt tokens where 2 were left/,
  ],
  [
    'a prompt that is not scored to its end',
    { promptLogprobs: 0 },
    (requestId) => [scores(requestId, 1, 1), step(1, { requestId, tokenIds: [1] })],
    /without the log-probabilities of prompt token 2/,
  ],
  [
    'more top ids of a prompt than asked for',
    { promptLogprobs: 0 },
    (requestId) => [
      { promptLogprobs: { requestId, firstIndex: 1, logprobs: [{ topIds: [1], topLogprobs: [-1] }] } },
    ],
    /got 1 top ids; 0 were asked for/,
  ],
  ['scores of an unknown request', {}, () => [scores(77, 1, 1)], /request 77, which is not open/],
  [
    'a counter that goes back',
    {},
    () => [
      { stats: { numGeneratedTokens: Long.fromInt(5) } },
      { stats: { numGeneratedTokens: Long.fromInt(4) } },
    ],
    /counter numGeneratedTokens went back from 5 to 4/,
  ],
  [
    'steps without end that bring nothing',
    {},
    () =>
      Array.from({ length: maxNeedlessSteps + request.tokenIds.length + 1 }, (_, index) => step(index + 1)),
    /1028 steps in a row brought nothing; the open requests have 3 tokens/,
  ],
  [
    'heartbeats without end',
    {},
    () => many({ heartbeat: { phase: v1.Phase.PHASE_DECODE } }),
    /sent heartbeat again and again: more than 4096, faster than 100 a second/,
  ],
  ['statistics without end', {}, () => many({ stats: {} }), /sent stats again and again/],
  ['a second ready', {}, () => [ready], /sent ready in phase serving/],
  ['a second hello', {}, () => [hello], /sent hello in phase serving/],
  ['progress when loaded', {}, () => [{ loadProgress: {} }], /sent load_progress in phase serving/],
  [
    'words behind the last ones',
    {},
    () => [{ failure: { exitCode: 70 } }, step(1)],
    /sent step in phase exiting/,
  ],
];

client('a vector that nobody asked for, of another length or that is no number ends the runner', async () => {
  const embed = { tokenIds: [1, 2], pooling: 'last', cacheSalt: new Uint8Array() } as const;
  const vector = (more: object): FromRunner => ({ embedding: { requestId: 1, values: [1, 2, 3], ...more } });
  for (const [says, sentence] of [
    [[vector({ values: [1, 2] })], /got 2 values where 3 belong/],
    [[vector({ values: [1, Number.NaN, 3] })], /sent NaN as Embedding\.values\[1\]/],
    [[vector({ numCachedTokens: 2 })], /found 2 of 2 tokens in the cache/],
    [[vector({ requestId: 2 })], /request 2, which is not open/],
    [[vector({}), vector({})], /request 1, which is not open/],
    [[step(1, { requestId: 1, tokenIds: [1] })], /got a token where it asked for a vector/],
    [[scores(1, 1, 1)], /log-probabilities where it asked for a vector/],
  ] as const) {
    const { client: asking, say, closed } = connect();
    say(hello, ready);
    const sink = sinkOf();
    assert.is(asking.embed(embed, sink), 1);
    say(...says);
    assert.match((await closed())?.message ?? 'no error', sentence);
    assert.is(sink.outputs.length, 0);
  }
  const { say, requestId, closed } = connectAndAsk();
  say(vector({ requestId }));
  assert.match((await closed())?.message ?? 'no error', /got a vector where it asked for tokens/);
});

client('a requested vector is delivered once', () => {
  const { client: asking, say, heard } = connect();
  say(hello, ready);
  const sink = sinkOf();
  asking.embed({ tokenIds: [1, 2], pooling: 'mean', cacheSalt: Uint8Array.of(5) }, sink);
  say({ embedding: { requestId: 1, values: [1, -2, 0.5], numCachedTokens: 1 } });
  assert.equal([...(sink.embeddings[0]?.values ?? [])], [1, -2, 0.5]);
  assert.is(sink.embeddings[0]?.first.numCachedTokens, 1);
  assert.ok(heard.length > 0);
  const without = connect();
  without.say(hello, { ready: { ...ready.ready, embeddingSize: 0 } });
  assert.throws(
    () => without.client.embed({ tokenIds: [1], pooling: 'last', cacheSalt: new Uint8Array() }, sinkOf()),
    RangeError,
  );
});

for (const [name, change, says, sentence] of lies) {
  client(`closes at ${name}`, async () => {
    const { say, sink, requestId, closed } = connectAndAsk(change);
    say(...says(requestId));
    assert.match((await closed())?.message ?? 'no error', sentence);
    const numOutputs = sink.outputs.length;
    say(step(1, { requestId, tokenIds: [1] }));
    assert.is(sink.outputs.length, numOutputs, 'nothing is heard after the close');
  });
}

client.run();
