/** Which requests are with the runner. The test plays the runner of each client. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type AnswerEnd, TextStream } from '../../../../gateway/generation/text-stream.ts';
import type { Loading } from '../../../../gateway/runner/kv-disk/kv-disk.ts';
import { runner } from '../../../../gateway/runner/protocol/proto/runner.js';
import { type GenerateRequest, GenerationError, type TokenSink } from '../../../../gateway/runner/runner.ts';
import { AdmissionLimits } from '../../../../gateway/runner/supervision/admission-limits.ts';
import { Quarantine } from '../../../../gateway/runner/supervision/quarantine.ts';
import { RequestScheduler } from '../../../../gateway/runner/supervision/request-scheduler.ts';
import { affinityBlockTokens } from '../../../../gateway/runner/supervision/scheduled-runner.ts';
import { pauseAboveTokens } from '../../../../gateway/runner/supervision/token-stream.ts';
import { ANONYMOUS } from '../../../../gateway/system/caller.ts';
import { byteTokenizer } from '../../../fixtures/byte-model.ts';
import { connect, finishMax, hello, ready, step } from '../../../fixtures/connected-client.ts';
import { requestOf } from '../../../fixtures/requests.ts';

const { v1 } = runner;
const modelIdentity = 'm';

function dispatching(numRunners = 1, load?: () => Loading | undefined) {
  const told: string[] = [];
  const coming = new Set<number>();
  const limits = new AdmissionLimits({ maxOpenRequests: 16, maxQueuedTokens: 1000 });
  const now = () => 0;
  const dispatch = new RequestScheduler(
    { numRunners, quarantine: new Quarantine(now), limits, now },
    {
      onIdle: () => told.push('idle'),
      onProven: () => told.push('proven'),
      onParked: () => {},
      onQuarantined: () => told.push('quarantined'),
      isComing: (index) => coming.has(index),
      kvFrom: (index, places) => places.filter((place) => place !== index).map((place) => 10 + place),
      load: () => load?.(),
    },
  );
  const ends: (string | undefined)[] = [];
  const admit = (request: GenerateRequest) =>
    dispatch.admit(request, {
      onTokens: ({ finish }) => {
        if (finish !== undefined) ends.push(finish);
      },
      onError: ({ code }) => ends.push(code),
    });
  return {
    dispatch,
    told,
    coming,
    admit: (...promptIds: number[]) => admit(requestOf(promptIds, 5, { modelIdentity })),
    admitRequest: admit,
    /** How requests ended, as their consumers heard it. */
    ends,
    /** Connects another runner, which is ready. */
    connectRunner: (isOnProbation = false, index = 0) => {
      const kvFrom: number[][] = [];
      const connection = connect(({ generate }) => {
        if (generate) kvFrom.push(generate.kvFrom ?? []);
      });
      connection.listener.onReleased = () => dispatch.onReleased();
      connection.say(hello, { ready: { ...ready.ready, maxModelLen: 1000, maxNumSeqs: 8 } });
      dispatch.onReady(index, connection.client, modelIdentity, isOnProbation);
      return {
        heard: connection.heard,
        /** For each request that the runner was given. */
        kvFrom,
        say: connection.say,
        obeyCancel: (requestId: number) =>
          connection.say({ requestError: { requestId, code: v1.ErrorCode.ERROR_CODE_CANCELLED } }),
        /** The runner dies of what it computes. */
        crash: () => {
          dispatch.onLost(index);
          dispatch.onDied(index, true);
        },
        /** The runner is killed from outside. */
        kill: () => {
          dispatch.onLost(index);
          dispatch.onDied(index, false);
        },
      };
    },
  };
}

const test = suite('dispatch');

test('a replacement while a suspect is alone begins anew: the suspect alone, then all', () => {
  const { admit, connectRunner, dispatch } = dispatching();
  const first = connectRunner();
  admit(1);
  admit(2);
  first.crash();
  const second = connectRunner();
  assert.equal(second.heard, ['generate 1'], 'a suspect is alone');
  dispatch.takeBack(0);
  assert.equal(second.heard, ['generate 1', 'cancel 1']);
  // Its end was requested, so no death is reported.
  dispatch.onLost(0);
  const third = connectRunner();
  assert.equal(third.heard, ['generate 1'], 'and alone again with the one that takes over');
  third.say(step(1, { requestId: 1, tokenIds: [7], finishReason: finishMax }));
  assert.equal(third.heard, ['generate 1', 'generate 2'], 'the other suspect is next');
  third.say(step(2, { requestId: 2, tokenIds: [7], finishReason: finishMax }));
  assert.equal(third.heard.slice(2), ['generate 3', 'generate 4'], 'then all');
});

test('a request names the caches of the places that had it, the last one first, wherever it goes', () => {
  const { admit, connectRunner } = dispatching(3);
  const first = connectRunner(false, 0);
  admit(1);
  assert.equal(first.kvFrom, [[]]);
  const second = connectRunner(false, 1);
  first.kill();
  assert.equal(second.kvFrom, [[10]]);
  const third = connectRunner(false, 2);
  second.kill();
  assert.equal(third.kvFrom, [[11, 10]]);
  const next = connectRunner(false, 0);
  third.kill();
  assert.equal(next.kvFrom, [[12, 11]], 'and not its own');
});

test('a request waits for its blocks from the disk while others go on, and is told where they are', async () => {
  const loads: { readonly found: (places: readonly number[] | undefined) => void; numReleases: number }[] =
    [];
  const load = (): Loading => {
    let found: (places: readonly number[] | undefined) => void = () => {};
    const done = new Promise<readonly number[] | undefined>((resolve) => (found = resolve));
    const each = { found, numReleases: 0 };
    loads.push(each);
    return { done, release: () => (each.numReleases += 1) };
  };
  let isThere = true;
  const { admit, connectRunner } = dispatching(2, () => (isThere ? load() : undefined));
  const { heard, kvFrom, say } = connectRunner();
  const first = admit(1);
  const second = admit(2);
  isThere = false;
  admit(3);
  assert.equal([heard, kvFrom], [['generate 1'], [[]]]);
  const settled = () => new Promise(setImmediate);
  loads[1]?.found([1, 2]);
  await settled();
  assert.equal([heard.slice(1), kvFrom.slice(1)], [['generate 2'], [[11, 12]]]);
  loads[0]?.found(undefined);
  await settled();
  assert.equal([heard.slice(2), kvFrom.slice(2)], [['generate 3'], [[]]]);
  const numReleases = () => loads.map((each) => each.numReleases);
  assert.equal(numReleases(), [0, 0]);
  say(step(1, { requestId: 2, tokenIds: [7] }));
  assert.equal(numReleases(), [0, 1], 'the runner has copied them by its first token');
  first.cancel();
  second.cancel();
  assert.equal(numReleases(), [1, 1]);
});

test('a request that ends while its blocks are on their way goes to no runner', async () => {
  let numReleases = 0;
  let found: (places: readonly number[]) => void = () => {};
  const loading = {
    done: new Promise<readonly number[]>((resolve) => (found = resolve)),
    release: () => (numReleases += 1),
  };
  const { admit, connectRunner } = dispatching(1, () => loading);
  const { heard } = connectRunner();
  admit(1).cancel();
  assert.is(numReleases, 1);
  found([1]);
  await new Promise(setImmediate);
  assert.equal(heard, []);
});

test('a runner on probation is proven by a token, and not by a request that ends without one', () => {
  const { admit, connectRunner, told } = dispatching();
  const first = admit(1);
  admit(2);
  admit(3);
  const { heard, say, obeyCancel } = connectRunner(true);
  assert.equal(heard, ['generate 1'], 'one request alone');
  first.cancel();
  assert.equal(heard, ['generate 1', 'cancel 1'], 'the next waits until the runner has let go');
  obeyCancel(1);
  assert.equal(heard.slice(2), ['generate 2']);
  assert.equal(told, []);
  say({ requestError: { requestId: 2, code: v1.ErrorCode.ERROR_CODE_INFERENCE_FAILED } });
  assert.equal([told, heard.slice(3)], [[], ['generate 3']], 'nor by one that fails');
  say(step(1, { requestId: 3, tokenIds: [7], finishReason: finishMax }));
  assert.equal(told, ['proven']);
});

test('a cancel says whether the request is complete', () => {
  const { admit, connectRunner } = dispatching();
  const { heard } = connectRunner();
  admit(1).cancel('enough');
  admit(2).cancel();
  assert.equal(heard, ['generate 1', 'cancel 1', 'it is complete', 'generate 2', 'cancel 2']);
});

test('a cancelled request holds its place and tokens until the runner releases it', () => {
  const { admit, connectRunner, dispatch } = dispatching();
  const { obeyCancel } = connectRunner();
  const open = admit(1, 2, 3);
  admit(4, 5);
  open.cancel();
  assert.equal([dispatch.numOpen, dispatch.numOpenTokens], [1, 2]);
  const assertRoom = () => dispatch.assertRoom(ANONYMOUS, 15, 1);
  assert.throws(assertRoom, /its open requests have 2 answers, and 15 more would exceed the limit of 16/);
  assert.throws(() => dispatch.assertRoom(ANONYMOUS, 1, 996), /have 5 prompt tokens, and 996 more/);
  obeyCancel(1);
  assertRoom();
  dispatch.assertRoom(ANONYMOUS, 1, 996);
});

test('a request that crashes its runner alone is refused from then on, under another key and seed, too', () => {
  const { admit, connectRunner, dispatch, told, ends } = dispatching();
  admit(1, 2);
  connectRunner().crash();
  connectRunner().crash();
  assert.equal(ends, ['RUNNER_CRASHED']);
  assert.ok(told.includes('quarantined'));
  const again = requestOf([1, 2], 5, { modelIdentity });
  const { sampling } = again;
  for (const change of [{}, { cacheSalt: Uint8Array.of(7) }, { sampling: { ...sampling, seed: 1n } }])
    assert.throws(
      () => dispatch.assertNotQuarantined({ ...again, ...change }),
      /crashes whenever it computes/,
    );
  dispatch.assertNotQuarantined({ ...again, promptIds: [1, 3] });
});

test('ending all cancels the runner’s requests and sends it no others', () => {
  const { admit, connectRunner, dispatch } = dispatching();
  admit(1);
  admit(2);
  admit(3);
  connectRunner().crash();
  const { heard } = connectRunner();
  dispatch.failAll(new GenerationError('INFERENCE_FAILED', 'It is over.', { retriable: true }));
  assert.equal(heard, ['generate 1', 'cancel 1']);
  assert.is(dispatch.numOpen, 0);
});

test('the last token of an answer ends it, although it was asked for alone', () => {
  const { admitRequest, connectRunner, told, ends } = dispatching();
  admitRequest(requestOf([1], 1, { modelIdentity }));
  connectRunner().crash();
  const second = connectRunner();
  second.say(step(1, { requestId: 1, tokenIds: [7], finishReason: finishMax }));
  assert.equal(ends, ['max_tokens']);
  assert.equal([second.heard, told], [['generate 1'], ['idle']]);
});

test('of two runners the less loaded one gets a request, and the one that knows its prompt as long as it has no more than its share', () => {
  const { admit, connectRunner } = dispatching(2);
  const first = connectRunner(false, 0);
  const second = connectRunner(false, 1);
  const prompt = Array.from({ length: 2 * affinityBlockTokens }, (_, index) => index);
  admit(...prompt);
  admit(1);
  assert.equal([first.heard, second.heard], [['generate 1'], ['generate 1']]);
  admit(...prompt, 7);
  assert.equal(first.heard, ['generate 1', 'generate 2'], 'it has the prefix');
  admit(...prompt, 8);
  admit(...prompt, 9);
  admit(...prompt, 10);
  assert.equal(
    [first.heard.length, second.heard.length],
    [4, 2],
    'of six, four are the most that one may have',
  );
});

test('requests of a runner that is killed go on at once on the other one', () => {
  const { admit, connectRunner } = dispatching(2);
  const first = connectRunner(false, 0);
  const second = connectRunner(false, 1);
  admit(1);
  admit(2);
  admit(3);
  assert.equal([first.heard, second.heard], [['generate 1', 'generate 2'], ['generate 1']]);
  first.kill();
  assert.equal(second.heard, ['generate 1', 'generate 2', 'generate 3']);
});

test('suspects wait for the runner that is coming, one alone with it after the other, while the other runner serves on', () => {
  const { admit, coming, connectRunner } = dispatching(2);
  const first = connectRunner(false, 0);
  const second = connectRunner(false, 1);
  for (const id of [1, 2, 3]) admit(id);
  coming.add(0);
  first.crash();
  assert.equal(second.heard, ['generate 1'], 'innocents are not endangered');
  admit(4);
  assert.equal(second.heard, ['generate 1', 'generate 2'], 'who comes meanwhile is served');
  coming.delete(0);
  const third = connectRunner(false, 0);
  assert.equal(third.heard, ['generate 1'], 'one suspect alone');
  third.say(step(1, { requestId: 1, tokenIds: [7], finishReason: finishMax }));
  assert.equal(third.heard, ['generate 1', 'generate 2'], 'then the other');
  assert.equal(
    second.heard,
    ['generate 1', 'generate 2', 'generate 3'],
    'the first one goes on beside others',
  );
});

test('where no other runner comes, the one there is is freed for suspects, and its requests wait', () => {
  const { admit, connectRunner } = dispatching(2);
  const first = connectRunner(false, 0);
  const second = connectRunner(false, 1);
  admit(1);
  admit(2);
  first.crash();
  assert.equal(second.heard, ['generate 1', 'cancel 1']);
  second.obeyCancel(1);
  assert.equal(second.heard.slice(2), ['generate 2'], 'the suspect, alone');
  second.say(step(1, { requestId: 2, tokenIds: [7], finishReason: finishMax }));
  assert.equal(second.heard.slice(3), ['generate 3', 'generate 4'], 'then both');
});

test('a request taken back from a runner is no suspect in its crash', () => {
  const { admit, connectRunner } = dispatching(2);
  const first = connectRunner(false, 0);
  const second = connectRunner(false, 1);
  const taken = admit(1);
  const suspect = admit(2);
  second.crash();
  assert.equal(first.heard, ['generate 1', 'cancel 1']);
  first.crash();
  assert.equal([taken.isSuspect, suspect.isSuspect], [false, true]);
});

test('a lost runner that computes on fills no buffer; its successor computes the rest', () => {
  const { admitRequest, connectRunner, dispatch } = dispatching();
  const open = admitRequest(requestOf([1], 600, { modelIdentity }));
  open.pause();
  const token = (firstIndex: number) => ({ requestId: 1, firstIndex, tokenIds: [7] });
  const first = connectRunner();
  dispatch.onLost(0);
  for (let index = 0; index < pauseAboveTokens + 50; index++) first.say(step(index + 1, token(index)));
  assert.is(open.state.numEmitted, pauseAboveTokens + 1);
  dispatch.onDied(0, true);

  const second = connectRunner();
  dispatch.onLost(0);
  second.say(step(1, { ...token(open.state.numEmitted), finishReason: finishMax }));
  assert.is(open.state.numEmitted, pauseAboveTokens + 2, 'the token of an isolation run is heard');
  dispatch.onDied(0, true);

  const third = connectRunner();
  assert.equal(third.heard, ['generate 1', 'pause 1']);
  dispatch.onLost(0);
  third.say(step(1, token(open.state.numEmitted)));
  assert.is(open.state.numEmitted, pauseAboveTokens + 2, 'none is, of one that was lost before it obeyed');
  dispatch.onDied(0, true);
  open.resume();
  assert.equal(connectRunner().heard, ['generate 1'], 'and the request goes on');
});

test('a runner that is replaced gives its requests to the other one', () => {
  const { admit, connectRunner, dispatch } = dispatching(2);
  const first = connectRunner(false, 0);
  const second = connectRunner(false, 1);
  admit(1);
  dispatch.takeBack(0);
  assert.equal([first.heard, second.heard], [['generate 1', 'cancel 1'], ['generate 1']]);
});

test('requests of a runner that broke out end, and the other runner serves', () => {
  const { admit, connectRunner, dispatch, ends } = dispatching(2);
  connectRunner(false, 0);
  const second = connectRunner(false, 1);
  admit(1);
  admit(2);
  dispatch.onLost(0);
  dispatch.onDied(0, true, new GenerationError('INFERENCE_FAILED', 'It broke out.', { retriable: true }));
  assert.equal(ends, ['INFERENCE_FAILED']);
  assert.equal([second.heard, dispatch.numOpen], [['generate 1'], 1]);
});

/** Thinks until 7 comes, for at most two tokens. */
const thinkingLimit = {
  maxTokens: 2,
  endIds: [7],
  thinking: { format: { begin: '<think>', end: '</think>' }, isOpen: true },
  isThinking: (ids: readonly number[]) => !ids.includes(7),
};

test('a request with a thinking limit runs in segments on one runner', () => {
  const { admitRequest, connectRunner, dispatch, ends } = dispatching();
  const { heard, say } = connectRunner();
  admitRequest(requestOf([1], 5, { modelIdentity, thinkingLimit }));
  dispatch.drain();
  assert.equal(heard, ['generate 1'], 'a runner that drains would refuse the other legs');
  say(step(1, { requestId: 1, tokenIds: [5] }));
  say(step(2, { requestId: 1, firstIndex: 1, tokenIds: [6], finishReason: finishMax }));
  assert.equal(heard, ['generate 1', 'generate 2'], 'the end of the thinking');
  say(step(3, { requestId: 2, firstIndex: 2, tokenIds: [7], finishReason: finishMax }));
  assert.equal(heard.slice(2), ['generate 3', 'drain'], 'all that is left');
  assert.equal(ends, []);
  say(step(4, { requestId: 3, firstIndex: 3, tokenIds: [8, 9], finishReason: finishMax }));
  assert.equal(ends, ['max_tokens']);
});

test('a request that ends in the middle of its legs lets the runner be drained', () => {
  const { admitRequest, connectRunner, dispatch } = dispatching();
  const { heard } = connectRunner();
  const open = admitRequest(requestOf([1], 5, { modelIdentity, thinkingLimit }));
  dispatch.drain();
  open.cancel();
  assert.equal(heard, ['generate 1', 'cancel 1', 'drain']);
});

test('a crash between two segments is held against no request', () => {
  const { admitRequest, connectRunner, dispatch } = dispatching();
  const first = connectRunner();
  const open = admitRequest(requestOf([1], 4, { modelIdentity, thinkingLimit }));
  first.say(step(1, { requestId: 1, tokenIds: [5] }));
  dispatch.onLost(0);
  first.say(step(2, { requestId: 1, firstIndex: 1, tokenIds: [6], finishReason: finishMax }));
  dispatch.onDied(0, true);
  assert.equal([open.isSuspect, open.isSent], [false, false]);
});

test('a leg that ends as its runner is lost is gone on with by the next runner, paused or not', () => {
  const { admitRequest, connectRunner, dispatch, ends } = dispatching();
  const first = connectRunner();
  const open = admitRequest(requestOf([1], 4, { modelIdentity, thinkingLimit }));
  dispatch.onLost(0);
  first.say(step(1, { requestId: 1, tokenIds: [5] }));
  first.say(step(2, { requestId: 1, firstIndex: 1, tokenIds: [6], finishReason: finishMax }));
  open.pause();
  dispatch.onDied(0, false);
  const second = connectRunner();
  assert.equal([first.heard, second.heard], [['generate 1'], ['generate 1']]);
  second.say(step(1, { requestId: 1, firstIndex: 2, tokenIds: [7], finishReason: finishMax }));
  second.say(step(2, { requestId: 2, firstIndex: 3, tokenIds: [8], finishReason: finishMax }));
  open.resume();
  assert.equal(ends, ['max_tokens']);
});

test('a resumed answer keeps its token indexes, so min_tokens and stop end it at the same token', () => {
  const bytes = (text: string): number[] => [...Buffer.from(text)];
  const answer = bytes('a.b.c.d');
  const endOf = (numBegun: number) => {
    const { connectRunner, dispatch } = dispatching();
    const { say } = connectRunner();
    const known = answer.slice(0, numBegun);
    const begun = numBegun === 0 ? {} : { resumeFrom: { tokenIds: known, numericsId: 'fake-1' } };
    const request = requestOf([1], 7, { modelIdentity, minTokens: 2, ...begun });
    const ends: (AnswerEnd | undefined)[] = [];
    const generate = (asked: GenerateRequest, sink: TokenSink) => dispatch.admit(asked, sink);
    const options = { tokenizer: byteTokenizer, stop: ['.'], minTokens: 2 };
    const text = new TextStream({ generate }, request, options, {
      onPart: ({ end }) => ends.push(end),
      onError: (error) => assert.unreachable(String(error)),
    });
    if (numBegun > 0) text.onTokens({ firstIndex: 0, tokenIds: known });
    for (let index = numBegun; index < answer.length && ends.at(-1) === undefined; index++) {
      const output = { requestId: 1, firstIndex: index, tokenIds: [answer[index] as number] };
      say(step(index - numBegun + 1, output));
    }
    return ends.at(-1);
  };
  const whole = endOf(0);
  assert.equal([whole?.reason, whole?.numTokens], ['stop_sequence', 4]);
  for (const numBegun of [1, 2, 3]) assert.equal(endOf(numBegun), whole, `${numBegun} tokens were known`);
});

test.run();
