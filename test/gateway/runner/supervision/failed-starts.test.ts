/** Starts for which the machine has nothing left, in virtual time: requests wait for a process, though not for ever. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type GenerateRequest, GenerationError } from '../../../../gateway/runner/runner.ts';
import type { RunnerCrash } from '../../../../gateway/runner/supervision/exit-policy.ts';
import {
  FailedStarts,
  firstPauseMs,
  maxPauseMs,
  startPatienceMs,
} from '../../../../gateway/runner/supervision/restarts.ts';
import type { RunnerEvent } from '../../../../gateway/runner/supervision/runner-event.ts';
import { RunnerPool } from '../../../../gateway/runner/supervision/runner-pool.ts';
import { batchesOf } from '../../../fixtures/batches.ts';
import { answerOf, fakeModelIdentity } from '../../../fixtures/fake-tokens.ts';
import { requestOf } from '../../../fixtures/requests.ts';
import { Counts } from '../../../fixtures/simulation/counts.ts';
import { Faults } from '../../../fixtures/simulation/faults.ts';
import { type RunnerWorld, SimulatedRunner } from '../../../fixtures/simulation/simulated-runner.ts';
import { VirtualClock } from '../../../fixtures/virtual-clock.ts';

const identity = `${fakeModelIdentity} 0`;
const numTokens = 200;
const shortMs = 20_000;

/** A pool on a machine that may have nothing left for another process. */
class ShortMachine {
  readonly clock = new VirtualClock();
  readonly events: RunnerEvent[] = [];
  readonly crashes: RunnerCrash[] = [];
  readonly lives: SimulatedRunner[] = [];
  /** No process is made before this time, and no file is read. */
  noProcessUntilMs = 0;
  noFileUntilMs = 0;
  readonly pool: RunnerPool;

  constructor() {
    const { clock } = this;
    const ignore = (): void => {};
    const isShort = () => clock.now() < this.noProcessUntilMs;
    const world: RunnerWorld = {
      clock,
      faults: new Faults(1, new Counts(), []),
      oldFrames: [],
      modelFile: { identity, salt: [], maxLoadMs: 100, refusedWith: undefined },
      get isShort() {
        return isShort();
      },
      poisonedAt: () => undefined,
      ...{ onHandedOver: ignore, onTakenBack: ignore, onToken: ignore, onPause: ignore },
      ...{ onDeath: ignore, onOomKill: ignore },
    };
    this.pool = new RunnerPool({
      command: () => ({ file: 'runner', args: [] }),
      // As when a file is read: the identity is known first.
      prepare: () => new Promise((resolve) => setImmediate(resolve, undefined)),
      modelPath: '/dev/null',
      modelIdentity: async () => {
        if (clock.now() < this.noFileUntilMs)
          throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
        return identity;
      },
      ...{ maxOpenRequests: 4, maxQueuedTokens: 1000, clock },
      log: (event) => this.events.push(event),
      onCrash: (crash) => this.crashes.push(crash),
      spawn: () => {
        const life = new SimulatedRunner(this.lives.length + 1, world);
        this.lives.push(life);
        return life;
      },
    });
    this.pool.start();
  }

  /** Lets time pass until the condition holds. */
  async until(isSo: () => boolean): Promise<void> {
    for (;;) {
      // setImmediate runs after all promises and stream events: then everything waits for the next timer, or for prepare().
      await new Promise(setImmediate);
      await new Promise(setImmediate);
      if (isSo()) return;
      assert.ok(this.clock.ringNext(), 'something is still to come');
    }
  }

  untilState(state: string): Promise<void> {
    return this.until(() => this.pool.status().state === state);
  }

  ask(request: GenerateRequest): { readonly ids: number[]; readonly end: () => unknown } {
    const ids: number[] = [];
    let end: unknown;
    const read = async (): Promise<void> => {
      for await (const batch of batchesOf(this.pool, request)) ids.push(...batch.tokenIds);
    };
    void read().then(
      () => (end = 'finished'),
      (error: unknown) => (end = error),
    );
    return { ids, end: () => end };
  }

  /** Kills the runner as soon as the request has a few tokens. */
  async killAmid(ids: readonly number[]): Promise<void> {
    await this.until(() => ids.length > 5);
    this.lives.at(-1)?.kill('SIGKILL');
  }

  async stop(): Promise<void> {
    let isStopped = false;
    void this.pool.stop(0).then(() => (isStopped = true));
    await this.until(() => isStopped);
  }
}

function longRequest(): GenerateRequest {
  return requestOf([1, 2], numTokens, { modelIdentity: identity });
}

const test = suite('failed starts');

test('the first failure has a pause already, and the pauses double up to a bound', () => {
  let nowMs = 5000;
  const failed = new FailedStarts(() => nowMs);
  const next = () => {
    const pauseMs = failed.nextPauseMs();
    nowMs += pauseMs;
    return pauseMs;
  };
  assert.equal(Array.from({ length: 5 }, next), [250, 500, 1000, 2000, 2000]);
  assert.equal([firstPauseMs, maxPauseMs], [250, 2000]);
  assert.not(failed.areTooMany);
  nowMs = 5000 + startPatienceMs;
  assert.ok(failed.areTooMany);
  failed.end();
  assert.equal([failed.areTooMany, next()], [false, 250]);
});

test('a machine without descriptors, memory or processes for a while is a pause of every stream', async () => {
  const machine = new ShortMachine();
  const { clock, pool, events, crashes } = machine;
  await machine.untilState('ready');
  const { ids, end } = machine.ask(longRequest());
  machine.noProcessUntilMs = clock.now() + shortMs;
  await machine.killAmid(ids);
  await machine.until(() => pool.status().reason?.startsWith('The runner could not be started') ?? false);
  assert.is(pool.status().state, 'recovering');
  const other = machine.ask(requestOf([3, 4], 5, { modelIdentity: identity }));
  await machine.until(() => end() !== undefined && other.end() !== undefined);
  assert.equal([end(), other.end()], ['finished', 'finished']);
  assert.equal(ids, answerOf([1, 2], longRequest().sampling.seed, numTokens));
  assert.ok(clock.now() >= machine.noProcessUntilMs);
  const failures = events.filter(({ spawnError }) => spawnError !== undefined);
  assert.ok(failures.length > 5, `${failures.length} starts failed`);
  const pauses = events.flatMap(({ event, delayMs }) => (event === 'runner_restarting' ? [delayMs] : []));
  assert.equal(pauses.slice(0, 5), [0, 250, 500, 1000, 2000]);
  assert.is(pool.status().restarts, 1, 'a start without a process is none');
  assert.equal(
    crashes.map(({ death }) => death.exit.spawnError ?? death.exit.signal),
    ['SIGKILL', 'spawn runner EAGAIN'],
  );
  await machine.stop();
});

test('where no process comes, streams end after half a minute, and requests are refused until one does', async () => {
  const machine = new ShortMachine();
  const { clock, pool } = machine;
  await machine.untilState('ready');
  const { ids, end } = machine.ask(longRequest());
  machine.noProcessUntilMs = clock.now() + 4 * startPatienceMs;
  await machine.killAmid(ids);
  const killedAtMs = clock.now();
  await machine.until(() => end() !== undefined);
  const waitedMs = clock.now() - killedAtMs;
  assert.ok(waitedMs >= startPatienceMs && waitedMs < startPatienceMs + 2 * maxPauseMs, `${waitedMs} ms`);
  const error = end() as GenerationError;
  assert.instance(error, GenerationError);
  assert.equal([error.code, error.retriable], ['NOT_READY', true]);
  assert.match(error.message, 'spawn runner EAGAIN');
  assert.throws(() => pool.assertAcceptsRequests(), /could not be started/);
  await machine.untilState('ready');
  const { end: endOfNext } = machine.ask(longRequest());
  await machine.until(() => endOfNext() !== undefined);
  assert.is(endOfNext(), 'finished');
  await machine.stop();
});

test('a model that cannot be looked at for lack of descriptors is no other model, and is looked at again', async () => {
  const machine = new ShortMachine();
  const { clock, events } = machine;
  await machine.untilState('ready');
  const { ids, end } = machine.ask(longRequest());
  machine.noFileUntilMs = clock.now() + shortMs;
  await machine.killAmid(ids);
  await machine.until(() => end() !== undefined);
  assert.is(end(), 'finished');
  assert.ok(clock.now() >= machine.noFileUntilMs);
  assert.not.ok(events.some(({ event }) => event === 'model_failed'));
  await machine.stop();
});

test('a replacement for which there is no process goes back to what was served, and no stream ends', async () => {
  const machine = new ShortMachine();
  const { clock, pool } = machine;
  await machine.untilState('ready');
  const { ids, end } = machine.ask(longRequest());
  await machine.until(() => ids.length > 5);
  machine.noProcessUntilMs = clock.now() + shortMs;
  let outcome: string | undefined;
  void pool.replaceRunner({}).then((failure) => (outcome = failure ?? 'replaced'));
  await machine.until(() => end() !== undefined);
  assert.is(end(), 'finished');
  assert.match(outcome ?? '', 'could not be started');
  await machine.stop();
});

test.run();
