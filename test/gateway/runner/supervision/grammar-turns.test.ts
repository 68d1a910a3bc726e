/** How callers share a runner's compiler of grammars, which compiles in the order of arrival. The test plays the runner. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { runner } from '../../../../gateway/runner/protocol/proto/runner.js';
import { AdmissionLimits } from '../../../../gateway/runner/supervision/admission-limits.ts';
import { Quarantine } from '../../../../gateway/runner/supervision/quarantine.ts';
import { RequestScheduler } from '../../../../gateway/runner/supervision/request-scheduler.ts';
import { connect, finishMax, hello, ready, step } from '../../../fixtures/connected-client.ts';
import { callerNamed } from '../../../fixtures/keys.ts';
import { requestOf } from '../../../fixtures/requests.ts';

const { v1 } = runner;
const modelIdentity = 'm';
const numPlaces = 64;
const greedy = callerNamed('greedy');
const other = callerNamed('other');

/** A runner that compiles the grammars of its requests one after another, and then answers with one token. */
function serving() {
  const now = () => 0;
  const limits = new AdmissionLimits({ maxOpenRequests: 256, maxQueuedTokens: 100_000 });
  const scheduler = new RequestScheduler(
    { numRunners: 1, quarantine: new Quarantine(now), limits, now },
    {
      onIdle: () => {},
      onProven: () => {},
      onParked: () => {},
      onQuarantined: () => {},
      isComing: () => false,
      kvFrom: () => [],
    },
  );
  /** The sources of the requests that the runner has, by request id. */
  const held = new Map<number, string>();
  const cancelled: number[] = [];
  const compiled: string[] = [];
  const answered: string[] = [];
  const connection = connect(({ generate, cancel }) => {
    if (generate) held.set(generate.requestId ?? 0, generate.grammar?.source ?? 'none');
    const requestId = cancel?.requestId ?? 0;
    if (held.delete(requestId)) cancelled.push(requestId);
  });
  connection.listener.onReleased = () => scheduler.onReleased();
  connection.say(hello, { ready: { ...ready.ready, maxNumSeqs: numPlaces } });
  scheduler.onReady(0, connection.client, modelIdentity, false);
  let numSteps = 0;
  /** A step that gives every request with a compiled grammar, or with none, its token. */
  const compute = (): void => {
    for (const requestId of cancelled.splice(0))
      connection.say({ requestError: { requestId, code: v1.ErrorCode.ERROR_CODE_CANCELLED } });
    const computed = [...held].filter(([, source]) => source === 'none' || compiled.includes(source));
    if (computed.length === 0) return;
    for (const [requestId] of computed) held.delete(requestId);
    const outputs = computed.map(([requestId]) => {
      return { requestId, tokenIds: [7], firstIndex: 0, finishReason: finishMax };
    });
    connection.say(step(++numSteps, ...outputs));
  };
  return {
    answered,
    /** The grammars that wait at the runner, in the order in which it compiles them. */
    get waiting(): string[] {
      return [...new Set(held.values())].filter((source) => source !== 'none' && !compiled.includes(source));
    },
    ask: (caller: typeof greedy, source?: string): void => {
      const grammar = source === undefined ? {} : { grammar: grammarOf(source) };
      const vocabulary = { numTokens: 10, frames: [] };
      const request = requestOf([1, 2], 1, { modelIdentity, caller, stopIds: [9], vocabulary, ...grammar });
      scheduler.assertRoom(caller, 1, 2);
      scheduler.admit(request, {
        onTokens: () => answered.push(source ?? 'none'),
        onError: (error) => assert.unreachable(error.message),
      });
    },
    compute,
    /** Compiles the grammar that has waited longest. Returns its source. */
    compile(): string | undefined {
      const [source] = this.waiting;
      if (source !== undefined) compiled.push(source);
      compute();
      return source;
    },
  };
}

const grammarOf = (source: string) => ({ kind: 'json_schema', source, strict: false }) as const;

/** Names of this many grammars. */
const grammars = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

const test = suite('grammar turns');

test('behind thirty new grammars of one key, the grammar of another waits for one', () => {
  const server = serving();
  for (const source of grammars('g', 30)) server.ask(greedy, source);
  server.ask(other, 'o');
  assert.equal([server.compile(), server.compile()], ['g0', 'o']);
  assert.equal(server.answered, ['g0', 'o']);
});

test('callers that always have new grammars take turns', () => {
  const server = serving();
  for (const source of grammars('g', 4)) server.ask(greedy, source);
  for (const source of grammars('o', 4)) server.ask(other, source);
  const order = Array.from({ length: 8 }, () => server.compile());
  assert.equal(order, ['g0', 'o0', 'g1', 'o1', 'g2', 'o2', 'g3', 'o3']);
});

test('a caller that is alone has all its grammars at the runner, before and after another came', () => {
  const server = serving();
  for (const source of grammars('g', 30)) server.ask(greedy, source);
  assert.equal(server.waiting, grammars('g', 30));
  server.ask(other, 'o');
  assert.equal(server.waiting, ['g0', 'o']);
  server.compile();
  server.compile();
  assert.equal(server.waiting, grammars('g', 30).slice(1));
});

test('a grammar that the runner has compiled, or a request without one, waits for nobody’s', () => {
  const server = serving();
  server.ask(greedy, 'known');
  server.compile();
  for (const source of grammars('g', 2)) server.ask(greedy, source);
  server.ask(other, 'o');
  for (const source of ['known', undefined, 'known']) server.ask(greedy, source);
  server.compute();
  assert.equal(server.answered, ['known', 'known', 'none', 'known']);
});

test('another caller’s request with a known grammar, or without one, takes no grammars back', () => {
  const server = serving();
  server.ask(other, 'known');
  server.compile();
  for (const source of grammars('g', 3)) server.ask(greedy, source);
  server.ask(other, 'known');
  server.ask(other);
  assert.equal(server.waiting, grammars('g', 3));
});

test('the choices of one request share a grammar, and so a turn', () => {
  const server = serving();
  for (let choice = 0; choice < 8; choice++) server.ask(greedy, 'same');
  server.ask(other, 'o');
  server.compile();
  assert.equal(server.answered, new Array<string>(8).fill('same'));
});

test.run();
