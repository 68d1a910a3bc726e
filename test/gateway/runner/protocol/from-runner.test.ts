import Long from 'long';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ProtocolError } from '../../../../gateway/runner/protocol/frame.ts';
import { decodeFromRunner } from '../../../../gateway/runner/protocol/from-runner.ts';
import { runner } from '../../../../gateway/runner/protocol/proto/runner.js';

const { v1 } = runner;

const hello = { protocolVersion: 3, kind: 'cpu', numericsId: 'cpu-1' };
const ready = {
  modelIdentity: 'm',
  architecture: 'llama',
  vocabSize: 10,
  maxModelLen: 100,
  maxNumSeqs: 4,
  maxNumBatchedTokens: 64,
  blockSize: 32,
  numBlocks: 4,
  kvCacheType: 'f16',
};

function decode(message: runner.v1.FromRunner.$Properties) {
  return decodeFromRunner(v1.FromRunner.encode(message).finish());
}

function refuses(message: runner.v1.FromRunner.$Properties, sentence: RegExp) {
  assert.throws(
    () => decode(message),
    (error: unknown) =>
      error instanceof ProtocolError && error.kind === 'field' && sentence.test(error.message),
  );
}

const test = suite('messages from the runner');

test('hello and ready name what is missing', () => {
  refuses({ hello: { ...hello, kind: '' } }, /nothing as Hello\.kind/);
  refuses({ hello: { ...hello, protocolVersion: 0 } }, /0 as Hello\.protocol_version/);
  refuses(
    { hello: { ...hello, kind: 'k'.repeat(65) } },
    /length of Hello\.kind; it must be at most 64 bytes/,
  );
  for (const field of Object.keys(ready)) {
    const { [field as keyof typeof ready]: _, ...rest } = ready;
    refuses({ ready: rest }, /Ready\./);
  }
  refuses({ ready: { ...ready, vocabSize: 2 ** 24 + 1 } }, /16777217 as Ready\.vocab_size/);
  refuses({ ready: { ...ready, blockSize: 48 } }, /48 as Ready\.block_size; it must be a power of two/);
});

test('a hello of another version is readable whatever else it lacks', () => {
  const message = decode({ hello: { protocolVersion: 4 } });
  assert.is(message.type === 'hello' && message.protocolVersion, 4);
});

test('outputs are held to their limits', () => {
  const step = (output: runner.v1.Output.$Properties) => ({ step: { step: Long.ONE, outputs: [output] } });
  refuses({ step: {} }, /0 as Step\.step/);
  refuses(step({ tokenIds: [1] }), /0 as Output\.request_id/);
  refuses(step({ requestId: 1, tokenIds: new Array(65).fill(1) }), /65 as the number of Output\.token_ids/);
  refuses(step({ requestId: 1 }), /0 as the number of Output\.token_ids; it must be 1 to 64/);
  refuses(
    step({ requestId: 1, tokenIds: [1], finishReason: 9 as runner.v1.FinishReason }),
    /9 as Output\.finish_reason/,
  );
  const logprobs = (entry: runner.v1.TokenLogprobs.$Properties) =>
    step({ requestId: 1, tokenIds: [1], logprobs: [entry] });
  refuses(
    logprobs({ topIds: new Array(21).fill(1), topLogprobs: new Array(21).fill(-1) }),
    /21 as the number/,
  );
  refuses(logprobs({ topIds: [1, 2], topLogprobs: [-1] }), /1 as the number of top_logprobs/);
  refuses(logprobs({ logprob: Number.NaN }), /NaN as a log-probability/);
});

test('a frame with two members is refused, whatever they are, before they are decoded', () => {
  const heartbeat = v1.FromRunner.encode({ heartbeat: { phase: v1.Phase.PHASE_IDLE } }).finish();
  const stats = v1.FromRunner.encode({ stats: { numRunning: 1 } }).finish();
  const ofLaterVersion = Uint8Array.of(0x9a, 0x06, 0x02, 0x08, 0x01);
  assert.is(decodeFromRunner(heartbeat).type, 'heartbeat');
  for (const [first, second] of [
    [heartbeat, stats],
    [heartbeat, heartbeat],
    [heartbeat, ofLaterVersion],
    [ofLaterVersion, heartbeat],
    [heartbeat, Uint8Array.of(0)],
  ] as const) {
    assert.throws(
      () => decodeFromRunner(Buffer.concat([first, second])),
      (error: unknown) =>
        error instanceof ProtocolError && error.message === 'A frame holds more than one message.',
    );
  }
});

test('enumerations without a known value are refused', () => {
  refuses({ heartbeat: {} }, /0 as Heartbeat\.phase/);
  refuses({ requestError: { requestId: 1 } }, /0 as RequestError\.code/);
  refuses({ requestError: { requestId: 1, code: 99 as runner.v1.ErrorCode } }, /99 as RequestError\.code/);
});

test('sentences of a runner cannot forge lines or clear a terminal', () => {
  const message = decode({ failure: { exitCode: 65, message: 'a\nb\u001b[2J\u202e' } });
  assert.is(message.type === 'failure' && message.message, 'a\\u000ab\\u001b[2J\\u202e');
  refuses({ failure: { exitCode: 65, message: 'x'.repeat(4097) } }, /4097 as the length of Failure\.message/);
});

test('a first output belongs to an output of its step', () => {
  const step = (...firstOutputs: runner.v1.FirstOutput.$Properties[]) => ({
    step: { step: Long.ONE, outputs: [{ requestId: 7, tokenIds: [1] }], firstOutputs },
  });
  const times = { queuedUs: Long.fromInt(5), prefillUs: Long.fromInt(6) };
  const message = decode(step({ requestId: 7, numCachedTokens: 4, ...times }));
  const first = { numCachedTokens: 4, queuedUs: 5, prefillUs: 6 };
  assert.equal(message.type === 'step' && message.outputs, [
    { requestId: 7, firstIndex: 0, tokenIds: [1], first },
  ]);
  refuses(step({}), /0 as FirstOutput\.request_id/);
  refuses(
    step({ requestId: 8 }),
    /8 as FirstOutput\.request_id; it must be the id of an output in the same step/,
  );
  refuses(
    step({ requestId: 7 }, { requestId: 7 }),
    /7 as FirstOutput\.request_id; it must be sent at most once in a step/,
  );
});

test('prompt scores are bounded and begin after the first token', () => {
  const frame = (firstIndex: number, count: number) => ({
    promptLogprobs: { requestId: 7, firstIndex, logprobs: new Array(count).fill({ logprob: -1 }) },
  });
  const message = decode(frame(1, 256));
  assert.is(message.type === 'prompt_logprobs' && message.logprobs.length, 256);
  refuses(frame(1, 257), /257 as the number of PromptLogprobs\.logprobs; it must be 1 to 256/);
  refuses(frame(1, 0), /0 as the number of PromptLogprobs\.logprobs/);
  refuses(frame(0, 1), /0 as PromptLogprobs\.first_index/);
  refuses({ promptLogprobs: { firstIndex: 1, logprobs: [{}] } }, /0 as PromptLogprobs\.request_id/);
  const nan = { requestId: 7, firstIndex: 1, logprobs: [{ logprob: Number.NaN }] };
  refuses({ promptLogprobs: nan }, /NaN as a log-probability/);
});

test('statistics and the mixed phase arrive', () => {
  const busyUs = Long.fromString('12345678901');
  const message = decode({ stats: { numWaiting: 1, numPreemptions: Long.fromInt(2), busyUs } });
  assert.is(message.type, 'stats');
  if (message.type !== 'stats') return;
  assert.equal([message.numWaiting, message.numPreemptions, message.busyUs], [1, 2, 12345678901]);
  assert.equal([message.numRunning, message.numGeneratedTokens, message.memoryBytes], [0, 0, 0]);
  const heartbeat = decode({ heartbeat: { phase: v1.Phase.PHASE_MIXED } });
  assert.is(heartbeat.type === 'heartbeat' && heartbeat.phase, 'mixed');
});

test.run();
