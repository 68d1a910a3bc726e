/** How callers share a runner, counted in its steps. The test plays the runner. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import { pauseAboveTokens } from '../../../../gateway/runner/supervision/token-stream.ts';
import { inBackground } from '../../../../gateway/system/caller.ts';
import { answerOf } from '../../../fixtures/fake-tokens.ts';
import { callerNamed } from '../../../fixtures/keys.ts';
import { type Asked, finish, NUM_PLACES, serving } from '../../../fixtures/stepped-runner.ts';

function p99(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.ceil(0.99 * sorted.length) - 1] ?? Number.NaN;
}

const greedy = callerNamed('greedy');
const other = callerNamed('other');

/** Chats of two tokens, one after another: steps to the first token of each. */
function chatsOf({ ask, step }: ReturnType<typeof serving>, numChats: number, before: () => void): number[] {
  return Array.from({ length: numChats }, () => {
    before();
    const [chat] = ask(other, 1, 2);
    finish([chat], step);
    return chat?.firstAfter ?? Number.NaN;
  });
}

const test = suite('fair admission');

test('beside one caller’s 32 requests of n=8, another’s first token takes at most 3 times as many steps as alone', () => {
  const alone = p99(chatsOf(serving(), 100, () => {}));
  const server = serving();
  const asked: Asked[] = [];
  /** The greedy caller sends as much as it may, always. */
  const refill = () => {
    for (;;) {
      try {
        asked.push(...server.ask(greedy, 8, 300));
      } catch (error) {
        assert.instance(error, GenerationError);
        assert.is((error as GenerationError).code, 'QUEUE_FULL');
        return;
      }
    }
  };
  refill();
  assert.is(asked.length, 256);
  const beside = chatsOf(server, 100, () => {
    refill();
    server.step();
  });
  assert.ok(p99(beside) <= 3 * alone, `${p99(beside)} steps, ${alone} alone`);
  finish(asked, server.step);
  for (const { request, tokens } of asked)
    assert.equal(tokens, answerOf(request.promptIds, request.sampling.seed, 300), 'none lost, none repeated');
});

test('callers that want more than there is get places in proportion to their shares', () => {
  const server = serving();
  const callers = [callerNamed('one'), callerNamed('three', { shares: 3 })];
  const asked = callers.map((caller) => server.ask(caller, 100, 5000));
  for (let i = 0; i < 100; i++) server.step();
  const got = asked.map((requests) => requests.reduce((sum, { tokens }) => sum + tokens.length, 0));
  const [one = 0, three = 0] = got;
  assert.ok(three / one > 2.9 && three / one < 3.1, `${got}`);
});

test('a caller that is alone gets every place, and no place is empty between its requests', () => {
  const server = serving();
  server.ask(greedy, 256, 1);
  for (let i = 0; i < 4; i++) {
    server.step();
    assert.is(server.stepped.numComputed, NUM_PLACES);
  }
  const before = serving();
  before.ask(other, 1, 2);
  before.step();
  before.step();
  before.ask(greedy, 100, 9);
  before.step();
  assert.is(before.stepped.numComputed, NUM_PLACES, 'one that has gone reserves nothing');
});

test('with a single place, callers take turns, and no answer is handed over back and forth', () => {
  const server = serving(1);
  const asked = [...server.ask(greedy, 3, 4), ...server.ask(other, 2, 4)];
  const ends: string[] = [];
  for (let i = 0; i < 20; i++) {
    const open = asked.filter(({ isDone }) => !isDone);
    server.step();
    for (const { request, isDone } of open) if (isDone) ends.push(request.caller?.name ?? '');
  }
  assert.equal(ends, ['greedy', 'greedy', 'other', 'greedy', 'other']);
});

test('a request of lower priority number comes earlier among its caller’s own', () => {
  const server = serving(1);
  server.ask(greedy, 2, 2);
  const [late] = server.ask(greedy, 1, 2, { priority: 1 });
  const [soon] = server.ask(greedy, 1, 2, { priority: -1 });
  for (let i = 0; i < 6; i++) server.step();
  assert.equal([soon?.isDone, late?.tokens.length], [true, 0]);
});

test('what is in the background gives up even its last place to any other request, and loses no token', () => {
  for (const numPlaces of [1, 3]) {
    const server = serving(numPlaces);
    const behind = server.ask(inBackground(greedy), 4, 6);
    server.step();
    server.step();
    const numTokens = (): number => behind.reduce((sum, { tokens }) => sum + tokens.length, 0);
    // Also to its own caller's.
    const asked = [...server.ask(greedy, 4, 3), ...server.ask(other, 4, 3)];
    server.step();
    const before = numTokens();
    finish(asked.slice(0, 8 - numPlaces), server.step);
    assert.is(numTokens(), before, 'while as many others wait as there are places');
    assert.ok(asked.every(({ firstAfter = 0 }) => firstAfter <= 2 + (8 / numPlaces) * 3));
    finish([...asked, ...behind], server.step);
    assert.equal(
      behind.map(({ tokens }) => tokens.length),
      [6, 6, 6, 6],
    );
  }
});

test('a paused request takes no place from others', () => {
  const server = serving(2);
  const held = server.ask(greedy, 4, 4 * pauseAboveTokens);
  for (const { handle } of held) handle.pause();
  for (let i = 0; i < 2 * pauseAboveTokens + 4; i++) server.step();
  const [next] = server.ask(greedy, 1, 3);
  for (let i = 0; i < 3; i++) server.step();
  assert.is(next?.isDone, true);
});

test('one caller’s open requests do not shut another one out, which gets its share and no more', () => {
  const server = serving();
  server.ask(greedy, 256, 9);
  assert.throws(() => server.ask(greedy, 1, 9), /its open requests have 256 answers/);
  server.ask(other, 128, 9);
  assert.throws(() => server.ask(other, 1, 9), /Try again later/);
});

test('a quota bounds a caller that is alone, too, and the refusal names it', () => {
  const server = serving();
  const bounded = callerNamed('bounded', { quotas: { openRequests: 4, queuedTokens: 10 } });
  const refusalOf = (numRequests: number): unknown => {
    try {
      server.ask(bounded, numRequests, 9);
      return undefined;
    } catch (error) {
      assert.instance(error, GenerationError);
      const { code, retryAfterSec, message } = error as GenerationError;
      return [code, retryAfterSec, message];
    }
  };
  assert.equal(refusalOf(5), [
    'INVALID_REQUEST',
    undefined,
    'The request asks for 5 answers; the caller "bounded" may have at most 4 at once (max-open-requests in the keys file). Ask for fewer.',
  ]);
  assert.is(refusalOf(3), undefined);
  assert.equal(refusalOf(2), [
    'QUEUE_FULL',
    1,
    'The caller "bounded" has 3 answers in its open requests, and 2 more would exceed its quota of 4 (max-open-requests in the keys file). Try again later.',
  ]);
  assert.equal(refusalOf(1), [
    'QUEUE_FULL',
    1,
    'The caller "bounded" has 9 prompt tokens in its open requests, and 3 more would exceed its quota of 10 (max-queued-tokens in the keys file). Try again later.',
  ]);
});

test.run();
