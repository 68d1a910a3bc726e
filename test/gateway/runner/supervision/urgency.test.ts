/** Requests that are parked for more urgent ones of their caller, counted in a runner's steps. The test plays the runner. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { answerOf } from '../../../fixtures/fake-tokens.ts';
import { callerNamed } from '../../../fixtures/keys.ts';
import { Random } from '../../../fixtures/random.ts';
import { type Asked, finish, serving } from '../../../fixtures/stepped-runner.ts';

const SEED = process.env.RUNNEL_TEST_SEED;
const NUM_SEEDS = Number(process.env.RUNNEL_TEST_SEEDS ?? 50);
const parksByPriority = true;
const caller = callerNamed('one');
const other = callerNamed('other');

const test = suite('urgency');

type Server = ReturnType<typeof serving>;

const steps = ({ step }: Server, count: number): void => {
  for (let i = 0; i < count; i++) step();
};

function assertExact(asked: readonly (Asked | undefined)[], where = ''): void {
  for (const each of asked) {
    assert.ok(each);
    const { promptIds, sampling, maxTokens } = each.request;
    assert.equal(
      each.tokens,
      answerOf(promptIds, sampling.seed, maxTokens),
      `none lost, none repeated ${where}`,
    );
  }
}

test('a request without a place gets that of the least urgent one that runs, which goes on later with its next token', () => {
  const server = serving(2, { parksByPriority });
  const [least] = server.ask(caller, 1, 9, { priority: 10 });
  const [less] = server.ask(caller, 1, 9, { priority: 5 });
  steps(server, 3);
  const [urgent] = server.ask(caller, 1, 4);
  steps(server, 4);
  assert.equal([urgent?.isDone, least?.tokens.length, less?.tokens.length], [true, 3, 7]);
  assert.equal(server.parked, [{ priority: 10, forPriority: 0, numEmitted: 3 }]);
  finish([least, less], server.step);
  assertExact([urgent, least, less]);
});

test('without the switch a request waits, however urgent it is', () => {
  const server = serving(1);
  const [running] = server.ask(caller, 1, 5, { priority: 100 });
  steps(server, 2);
  const [urgent] = server.ask(caller, 1, 2, { priority: -100 });
  steps(server, 3);
  assert.equal([running?.isDone, urgent?.tokens.length, server.parked.length], [true, 0, 0]);
});

test('requests of one priority are computed as without the switch, step by step', () => {
  const trace = (options: Parameters<typeof serving>[1]): unknown[] => {
    const server = serving(3, options);
    const asked: Asked[] = [];
    return Array.from({ length: 60 }, (_, index) => {
      if (index % 4 === 0) asked.push(...server.ask(index % 8 === 0 ? caller : other, 2, 7, { priority: 5 }));
      server.step();
      server.tell();
      return asked.map(({ tokens }) => tokens.length);
    });
  };
  assert.equal(trace({ parksByPriority }), trace({}));
});

test('what was parked goes on in the order of priority, and then of admission', () => {
  const server = serving(3, { parksByPriority });
  const asked = [4, 2, 4].map((priority) => server.ask(caller, 1, 6, { priority })[0]);
  steps(server, 1);
  const urgent = server.ask(caller, 3, 2, { priority: 1 });
  steps(server, 2);
  assert.ok(urgent.every(({ isDone }) => isDone));
  assert.is(server.parked.length, 3);
  const holding = server.ask(caller, 2, 3, { priority: 0 });
  const begun: number[] = [];
  while (begun.length < 3) {
    server.step();
    for (const [index, each] of asked.entries())
      if ((each?.tokens.length ?? 0) > 1 && !begun.includes(index)) begun.push(index);
  }
  assert.equal(begun, [1, 0, 2]);
  finish([...asked, ...holding], server.step);
  assertExact(asked);
});

test('a request does not park those of another caller, whose share it would take', () => {
  const server = serving(2, { parksByPriority });
  const theirs = server.ask(other, 1, 9, { priority: 100 });
  const own = server.ask(caller, 1, 9, { priority: 50 });
  steps(server, 1);
  const [urgent] = server.ask(caller, 1, 3, { priority: -100 });
  steps(server, 3);
  assert.equal([urgent?.isDone, theirs[0]?.tokens.length, own[0]?.tokens.length], [true, 4, 1]);
  assert.equal(server.parked, [{ priority: 50, forPriority: -100, numEmitted: 1 }]);
  finish([...theirs, ...own], server.step);
  assertExact([...theirs, ...own]);
});

test('a request that is the only urgent one is not kept waiting by what its caller has at the runner ahead of places', () => {
  const server = serving(4, { parksByPriority });
  const many = server.ask(caller, 40, 5, { priority: 1 });
  steps(server, 1);
  const [urgent] = server.ask(caller, 1, 2);
  steps(server, 2);
  assert.equal([urgent?.isDone, server.parked.length], [true, 1]);
  finish(many, server.step);
  assertExact(many);
});

test('a request that finds no block of the KV cache gets those of less urgent ones, which wait in the runner behind it', () => {
  const server = serving(8, { parksByPriority, numBlocks: 6 });
  const low = server.ask(caller, 3, 100, { priority: 1, promptIds: Array.from({ length: 40 }, () => 7) });
  steps(server, 2);
  server.tell();
  const [urgent] = server.ask(caller, 1, 4, { promptIds: Array.from({ length: 90 }, () => 9) });
  for (let second = 0; second < 2; second++) {
    steps(server, 3);
    server.tell();
  }
  assert.is(urgent?.tokens.length, 0);
  assert.equal(
    server.parked.map(({ forPriority }) => forPriority),
    [0, 0],
    'as many as have the blocks that it lacks',
  );
  steps(server, 4);
  assert.equal([urgent?.isDone, low[0]?.tokens.length], [true, 12]);
  server.tell();
  server.tell();
  assert.is(server.parked.length, 2, 'what waits behind it is left there');
  finish(low, server.step);
  assertExact([...low, urgent]);
});

test('what was parked for blocks is left in the runner, behind the urgent one, while another caller has the others', () => {
  const server = serving(8, { parksByPriority, numBlocks: 6 });
  const prompt = (length: number) => ({ promptIds: Array.from({ length }, () => 7) });
  const theirs = server.ask(other, 2, 20, prompt(40));
  const low = server.ask(caller, 1, 20, { priority: 1, ...prompt(40) });
  steps(server, 2);
  server.tell();
  const urgent = server.ask(caller, 1, 4, prompt(90));
  for (let second = 0; second < 6; second++) {
    steps(server, 2);
    server.tell();
  }
  assert.equal([urgent[0]?.tokens.length, server.parked.length], [0, 1]);
  finish([...theirs, ...low, ...urgent], server.step);
  assertExact([...theirs, ...low, ...urgent]);
});

test('a long prompt that is being computed has nobody parked', () => {
  const server = serving(8, { parksByPriority, numBlocks: 6, numRows: 3 });
  server.ask(caller, 1, 30, { priority: 1 });
  steps(server, 1);
  const [urgent] = server.ask(caller, 1, 9, { promptIds: Array.from({ length: 90 }, () => 9) });
  for (let second = 0; second < 5; second++) {
    server.tell();
    steps(server, 4);
  }
  assert.equal([urgent?.tokens.length, server.parked.length], [0, 0]);
});

test(`${NUM_SEEDS} random crowds end, each request with its own tokens, and none is parked for one that is not more urgent`, () => {
  const seeds = SEED === undefined ? Array.from({ length: NUM_SEEDS }, (_, seed) => seed) : [Number(SEED)];
  let numParked = 0;
  for (const seed of seeds) {
    const random = new Random(seed);
    const server = serving(1 + random.below(4), { parksByPriority, numBlocks: 4 + random.below(6) });
    const asked: Asked[] = [];
    for (let turn = 0; turn < 80; turn++) {
      if (random.below(3) === 0) {
        const promptIds = Array.from({ length: 1 + random.below(90) }, () => random.below(1000));
        const change = { priority: random.below(4), promptIds };
        asked.push(
          ...server.ask(random.pick([caller, other]), 1 + random.below(3), 1 + random.below(30), change),
        );
      }
      server.step();
      if (random.below(4) === 0) server.tell();
    }
    let turn = 0;
    finish(asked, () => {
      server.step();
      turn += 1;
      if (turn % 4 === 0) server.tell();
    });
    assertExact(asked, `seed ${seed}`);
    for (const { priority, forPriority } of server.parked) assert.ok(priority > forPriority, `seed ${seed}`);
    numParked += server.parked.length;
  }
  assert.ok(numParked > seeds.length, `${numParked} were parked`);
});

test.run();
