import Long from 'long';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { maxNoticesAtOnce } from '../../../../gateway/runner/protocol/checks.ts';
import { runner } from '../../../../gateway/runner/protocol/proto/runner.js';
import { maxNeedlessSteps } from '../../../../gateway/runner/protocol/sent-requests.ts';
import { vocabularyFrames } from '../../../../gateway/runner/protocol/to-runner.ts';
import {
  connect,
  connectAndAsk,
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

const client = suite('client');

client('reports hello, progress and ready in their order', () => {
  const { say, events } = connect();
  say(
    hello,
    { loadProgress: { loadedBytes: Long.fromInt(5) } },
    { heartbeat: { phase: v1.Phase.PHASE_LOADING } },
    ready,
  );
  assert.equal(events, ['hello', 'progress 5', 'heartbeat 0', 'ready']);
});

client('has the numerics id of Hello until Ready has another one', () => {
  const { say, client: connection } = connect();
  assert.is(connection.numericsId, '');
  say(hello);
  assert.is(connection.numericsId, 'fake-1');
  say({ ready: { ...ready.ready, numericsId: 'fake-1-long' } });
  assert.is(connection.numericsId, 'fake-1-long');
  assert.is(connectAndAsk().client.numericsId, 'fake-1', 'with a Ready that has none');
});

client('names both versions when they differ', async () => {
  const { say, closed } = connect();
  say({ hello: { protocolVersion: 999, kind: 'cpu', numericsId: 'x' } });
  const error = await closed();
  assert.is(error?.kind, 'version');
  assert.match(error?.message ?? '', /version 999, the gateway version 3/);
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
  assert.is(connection.requests.numCancelled, 1);
  say(step(1, { requestId, tokenIds: [7] }));
  say({ requestError: { requestId, code: v1.ErrorCode.ERROR_CODE_CANCELLED } });
  assert.is(connection.requests.numCancelled, 0);
  assert.equal([sink.outputs, sink.errors], [[], []]);
});

client('takes a finish that crosses a cancel for the end', () => {
  const { say, sink, requestId, client: connection } = connectAndAsk({ maxTokens: 1 });
  connection.cancel(requestId);
  say(step(1, { requestId, tokenIds: [7], finishReason: finishMax }));
  assert.is(connection.requests.numCancelled, 0);
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

client('sends the vocabulary once per runner, before the first grammar', async () => {
  const grammar = { kind: 'regex', source: 'a', strict: false } as const;
  const spelling = () => Buffer.alloc(2 ** 12, 97);
  const vocabulary = await vocabularyFrames(100, spelling);
  for (const _runner of [1, 2]) {
    const { client: connection, say, heard } = connect();
    say(hello, ready);
    connection.generate(request, sinkOf(), vocabulary);
    connection.generate({ ...request, grammar }, sinkOf(), vocabulary);
    connection.generate({ ...request, grammar }, sinkOf(), vocabulary);
    assert.equal(heard, ['generate 1', 'vocabulary 0', 'vocabulary 64', 'generate 2', 'generate 3']);
  }
});

client('refuses a grammar without the vocabulary that belongs to the runner', async () => {
  const grammar = { kind: 'regex', source: 'a', strict: false } as const;
  const { client: connection, say, heard } = connect();
  say(hello, ready);
  assert.throws(() => connection.generate({ ...request, grammar }, sinkOf()), /needs the spellings/);
  const larger = await vocabularyFrames(101, () => new Uint8Array());
  const ask = () => connection.generate({ ...request, grammar }, sinkOf(), larger);
  assert.throws(ask, /has 101 spellings, and the runner draws from 100 tokens/);
  assert.equal(heard, []);
});

client('reports statistics as long as the runner sends frames', () => {
  const { say, events } = connect();
  const stats = { numRunning: 2, numGeneratedTokens: Long.fromInt(9) };
  say(hello, ready, { stats }, { failure: { exitCode: 70, message: 'x' } }, { stats });
  assert.equal(events, ['hello', 'ready', 'stats 2 9', 'failure x', 'stats 2 9']);
});

client('counts the tokens of cancelled requests until their end', () => {
  const { say, requestId, client: connection } = connectAndAsk();
  assert.is(connection.requests.numCancelledTokens, 0);
  connection.cancel(requestId);
  assert.is(connection.requests.numCancelledTokens, 3);
  say({ requestError: { requestId, code: v1.ErrorCode.ERROR_CODE_CANCELLED } });
  assert.is(connection.requests.numCancelledTokens, 0);
});

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

client('distinguishes a stream that ends between frames from one that ends within', async () => {
  for (const [bytes, kind] of [
    [[], undefined],
    [[5, 1], 'truncated'],
  ] as const) {
    const { input, closed } = connect();
    input.end(Uint8Array.from(bytes));
    assert.is((await closed())?.kind, kind);
  }
});

client('empty steps are limited by the pending tokens; output or an event resets the count', async () => {
  const { say, requestId, closed, events, client: connection } = connectAndAsk();
  let number = 0;
  const rest = () => {
    for (let index = 0; index < maxNeedlessSteps + 3; index += 1) say(step(++number));
  };
  rest();
  say(step(++number, { requestId, tokenIds: [1] }));
  rest();
  connection.generate(request, sinkOf());
  rest();
  say({ heartbeat: { phase: v1.Phase.PHASE_DECODE, numFreeBlocks: 7 } });
  assert.is(events.at(-1), 'heartbeat 7', 'it is listened to still');
  rest();
  assert.match((await closed())?.message ?? '', /brought nothing/);
});

client('progress of a load has a rate, too', async () => {
  const { say, closed } = connect();
  say(hello);
  for (let index = 0; index <= maxNoticesAtOnce; index += 1) say({ loadProgress: {} });
  assert.match((await closed())?.message ?? '', /sent load_progress again and again/);
});

client('a fault of the gateway at what the runner says ends the runner, and nothing else', async () => {
  const { say, listener, closed } = connect();
  const fault = new TypeError('something is undefined');
  listener.onNotice = () => {
    throw fault;
  };
  say(hello);
  const error = await closed();
  assert.equal([error?.kind, error?.cause], ['internal', fault]);
  assert.match(error?.message ?? '', /The gateway failed .*: something is undefined/);
});

client('a request that is paused is owed nothing, one that goes on or is cancelled is', () => {
  const { requestId, client: connection } = connectAndAsk();
  assert.ok(connection.requests.owesTokens);
  connection.pause(requestId);
  assert.not(connection.requests.owesTokens);
  connection.resume(requestId);
  assert.ok(connection.requests.owesTokens);
  connection.pause(requestId);
  connection.cancel(requestId);
  assert.ok(connection.requests.owesTokens, 'its end is due');
});

client('generate() before ready is the caller’s mistake', () => {
  const { client: connection } = connect();
  assert.throws(() => connection.generate(request, sinkOf()), /before the runner was ready/);
});

client.run();
