import { PassThrough } from 'node:stream';
import Long from 'long';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { RunnerClient } from '../../../gateway/runner/client.ts';
import {
  encodeFrame,
  FrameDecoder,
  maxBytesFromRunner,
  maxBytesToRunner,
} from '../../../gateway/runner/frame.ts';
import type { Output, PromptLogprobs } from '../../../gateway/runner/messages.ts';
import { runner } from '../../../gateway/runner/proto/runner.js';
import type { ProtocolError } from '../../../gateway/runner/protocol-error.ts';
import { within } from '../../fixtures/within.ts';

const { v1 } = runner;

type FromRunner = runner.v1.FromRunner.$Properties;

const hello = { hello: { protocolVersion: 1, kind: 'fake', numericsId: 'fake-1' } };
const ready = {
  ready: {
    modelIdentity: 'm',
    architecture: 'fake',
    vocabSize: 100,
    maxModelLen: 20,
    maxNumSeqs: 2,
    maxNumBatchedTokens: 64,
    blockSize: 32,
    numBlocks: 4,
    kvCacheType: 'f16',
  },
};
const request = {
  tokenIds: [1, 2, 3],
  numEmitted: 0,
  maxTokens: 4,
  minTokens: 0,
  stopIds: [99],
  sampling: {
    temperature: 1,
    topK: 0,
    topP: 1,
    minP: 0,
    repetitionPenalty: 1,
    presencePenalty: 0,
    frequencyPenalty: 0,
    logitBias: new Map(),
    allowedTokenIds: [],
    bannedTokenIds: [],
    seed: 5n,
  },
  cacheSalt: new Uint8Array(),
};
const finishStop = v1.FinishReason.FINISH_REASON_STOP_ID;
const finishMax = v1.FinishReason.FINISH_REASON_MAX_TOKENS;

function step(number: number, ...outputs: runner.v1.Output.$Properties[]): FromRunner {
  return { step: { step: Long.fromInt(number), outputs } };
}

/** A client with both ends of its pipes in the test's hands. */
function connect() {
  const input = new PassThrough();
  const output = new PassThrough();
  const heard: string[] = [];
  const decoder = new FrameDecoder(maxBytesToRunner, (bytes) => {
    const message = v1.ToRunner.decode(bytes);
    const member = message.message ?? 'nothing';
    const body = message[member as 'cancel'];
    heard.push(member === 'drain' ? 'drain' : `${member} ${body?.requestId}`);
  });
  output.on('data', (chunk: Uint8Array) => decoder.push(chunk));
  let onClosed: (error: ProtocolError | undefined) => void = () => {};
  const closed = new Promise<ProtocolError | undefined>((resolve) => {
    onClosed = resolve;
  });
  const events: string[] = [];
  const begun = new Set<number>();
  const client = new RunnerClient(input, output, {
    onHello: () => events.push('hello'),
    onLoadProgress: ({ loadedBytes }) => events.push(`progress ${loadedBytes}`),
    onReady: () => events.push('ready'),
    onHeartbeat: ({ numFreeBlocks }) => events.push(`heartbeat ${numFreeBlocks}`),
    onStep: () => {},
    onLetGo: () => events.push('let go'),
    onStats: ({ numRunning, numGeneratedTokens }) => events.push(`stats ${numRunning} ${numGeneratedTokens}`),
    onFailure: ({ message }) => events.push(`failure ${message}`),
    onClosed: (error) => onClosed(error),
  });
  return {
    client,
    heard,
    events,
    input,
    /**
     * Delivered before it returns: the client listens to 'data', which a flowing stream passes on at once. A step
     * without first_outputs gets those that belong to it.
     */
    say(...messages: FromRunner[]) {
      for (const message of messages) {
        if (message.step) message.step.firstOutputs ??= firstsOf(message.step.outputs ?? [], begun);
        input.emit('data', encodeFrame(v1.FromRunner.encode(message).finish(), maxBytesFromRunner));
      }
    },
    closed: () => within(1000, 'the end of the client', closed),
  };
}

function firstsOf(outputs: readonly runner.v1.Output.$Properties[], begun: Set<number>) {
  const ids = new Set(outputs.map(({ requestId }) => requestId ?? 0));
  const firsts = [...ids].filter((id) => !begun.has(id));
  for (const id of firsts) begun.add(id);
  return firsts.map((requestId) => ({ requestId }));
}

function sinkOf() {
  const outputs: Output[] = [];
  const errors: string[] = [];
  const promptLogprobs: number[] = [];
  return {
    outputs,
    errors,
    promptLogprobs,
    onPromptLogprobs: (frame: PromptLogprobs) =>
      promptLogprobs.push(...frame.logprobs.map(({ logprob }) => logprob)),
    onOutput: (output: Output) => outputs.push(output),
    onError: ({ code, message }: { code: string; message: string }) => errors.push(`${code} ${message}`),
  };
}

/** A client with one request in the runner's hands. */
function connectAndAsk(change: Partial<Parameters<RunnerClient['generate']>[0]> = {}) {
  const connection = connect();
  connection.say(hello, ready);
  const sink = sinkOf();
  const requestId = connection.client.generate({ ...request, ...change }, sink);
  return { ...connection, sink, requestId };
}

const client = suite('client');

client('tells hello, progress and ready in their order', () => {
  const { say, events } = connect();
  say(
    hello,
    { loadProgress: { loadedBytes: Long.fromInt(5) } },
    { heartbeat: { phase: v1.Phase.PHASE_LOADING } },
    ready,
  );
  assert.equal(events, ['hello', 'progress 5', 'heartbeat 0', 'ready']);
});

client('names both versions when they differ', async () => {
  const { say, closed } = connect();
  say({ hello: { protocolVersion: 999, kind: 'cpu', numericsId: 'x' } });
  const error = await closed();
  assert.is(error?.kind, 'version');
  assert.match(error?.message ?? '', /version 999, the gateway version 1/);
});

client('passes on outputs until the finish', () => {
  const { say, sink, requestId, client: connection, heard } = connectAndAsk();
  say(
    step(1),
    step(2, { requestId, tokenIds: [7] }),
    step(3, { requestId, firstIndex: 1, tokenIds: [8, 99], finishReason: finishStop }),
  );
  assert.equal(
    sink.outputs.map(({ tokenIds }) => tokenIds),
    [[7], [8, 99]],
  );
  assert.is(sink.outputs[1]?.finish, 'stop_id');
  connection.cancel(requestId);
  connection.pause(requestId);
  connection.resume(requestId);
  assert.equal(heard, ['generate 1'], 'nothing is said about a request that has ended');
});

client('passes on the error of a request, which ends it', async () => {
  const { say, sink, requestId, closed } = connectAndAsk();
  const error = { requestId, code: v1.ErrorCode.ERROR_CODE_OUT_OF_MEMORY, message: 'Too long.' };
  say({ requestError: error });
  assert.equal(sink.errors, ['OUT_OF_MEMORY Too long.']);
  say({ requestError: error });
  assert.match((await closed())?.message ?? '', /request 1, which is not open/);
});

client('counts indices from what was emitted before, and room from what is left', async () => {
  const { say, sink, requestId } = connectAndAsk({ tokenIds: [1, 2, 3, 4], numEmitted: 2 });
  say(step(1, { requestId, firstIndex: 2, tokenIds: [5, 6], finishReason: finishMax }));
  assert.is(sink.outputs.length, 1);
});

client('drops what comes for a cancelled request until its end', () => {
  const { say, sink, requestId, client: connection, heard } = connectAndAsk();
  connection.cancel(requestId);
  connection.cancel(requestId);
  assert.equal(heard, ['generate 1', 'cancel 1']);
  assert.is(connection.numCancelled, 1);
  say(step(1, { requestId, tokenIds: [7] }));
  say({ requestError: { requestId, code: v1.ErrorCode.ERROR_CODE_CANCELLED } });
  assert.is(connection.numCancelled, 0);
  assert.equal([sink.outputs, sink.errors], [[], []]);
});

client('takes a finish that crosses a cancel for the end', () => {
  const { say, sink, requestId, client: connection } = connectAndAsk({ maxTokens: 1 });
  connection.cancel(requestId);
  say(step(1, { requestId, tokenIds: [7], finishReason: finishMax }));
  assert.is(connection.numCancelled, 0);
  assert.equal(sink.outputs, []);
});

client('passes on the scores of a prompt before its first token', () => {
  const { say, sink, requestId } = connectAndAsk({ promptLogprobs: 0, tokenIds: [1, 2, 3, 4] });
  say(scores(requestId, 1, 2), scores(requestId, 3, 1), step(1, { requestId, tokenIds: [7] }));
  assert.equal(sink.promptLogprobs, [-1, -2, -3]);
  assert.is(sink.outputs.length, 1);
});

client('takes masked ids where they are allowed', () => {
  const { say, sink, requestId } = connectAndAsk({ ...masks([7, 99], [8]), minTokens: 1 });
  say(step(1, { requestId, tokenIds: [7, 99], finishReason: finishStop }));
  assert.is(sink.outputs.length, 1);
});

client('tells statistics as long as the runner speaks', () => {
  const { say, events } = connect();
  const stats = { numRunning: 2, numGeneratedTokens: Long.fromInt(9) };
  say(hello, ready, { stats }, { failure: { exitCode: 70, message: 'x' } }, { stats });
  assert.equal(events, ['hello', 'ready', 'stats 2 9', 'failure x', 'stats 2 9']);
});

client('counts the tokens of cancelled requests until their end', () => {
  const { say, requestId, client: connection } = connectAndAsk();
  assert.is(connection.numCancelledTokens, 0);
  connection.cancel(requestId);
  assert.is(connection.numCancelledTokens, 3);
  say({ requestError: { requestId, code: v1.ErrorCode.ERROR_CODE_CANCELLED } });
  assert.is(connection.numCancelledTokens, 0);
});

function masks(allowedTokenIds: number[], bannedTokenIds: number[]) {
  return { sampling: { ...request.sampling, allowedTokenIds, bannedTokenIds } };
}

/** A token's log-probability is minus its index. */
function scores(requestId: number, firstIndex: number, count: number): FromRunner {
  const logprobs = Array.from({ length: count }, (_, offset) => ({ logprob: -(firstIndex + offset) }));
  return { promptLogprobs: { requestId, firstIndex, logprobs } };
}

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
    (requestId) => [step(1, { requestId }, { requestId: 2 }, { requestId: 3 })],
    /3 outputs, more than 2/,
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

client('closes at anything before hello', async () => {
  const { say, closed } = connect();
  say(ready);
  assert.match((await closed())?.message ?? '', /sent ready in phase unknown/);
});

client('hears the last words of a runner that gives up before hello', async () => {
  const { say, events, input, closed } = connect();
  say({ failure: { exitCode: 64, message: 'No such flag.' } });
  assert.equal(events, ['failure No such flag.']);
  input.end();
  assert.is(await closed(), undefined);
});

client('tells a stream that ends between frames from one that ends inside', async () => {
  for (const [bytes, kind] of [
    [[], undefined],
    [[5, 1], 'truncated'],
  ] as const) {
    const { input, closed } = connect();
    input.end(Uint8Array.from(bytes));
    assert.is((await closed())?.kind, kind);
  }
});

client('generate() before ready is the caller’s mistake', () => {
  const { client: connection } = connect();
  assert.throws(() => connection.generate(request, sinkOf()), /before the runner was ready/);
});

client.run();
