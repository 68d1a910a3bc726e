/** One session over a process that the test plays. recovery.test.ts has sessions of real processes. */
import { PassThrough } from 'node:stream';
import Long from 'long';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunnerExit } from '../../../../gateway/runner/process/process.ts';
import { encodeFrame, maxBytesFromRunner } from '../../../../gateway/runner/protocol/frame.ts';
import { protocolVersion } from '../../../../gateway/runner/protocol/from-runner.ts';
import { runner } from '../../../../gateway/runner/protocol/proto/runner.js';
import { neutralSampling } from '../../../../gateway/runner/runner.ts';
import type { Death } from '../../../../gateway/runner/supervision/exit-policy.ts';
import { defaultSessionLimits, RunnerSession } from '../../../../gateway/runner/supervision/session.ts';
import { StepTimes } from '../../../../gateway/runner/supervision/watchdog.ts';
import { systemClock } from '../../../../gateway/system/clock.ts';
import { PATIENCE_MS, until, within } from '../../../fixtures/within.ts';

const { v1 } = runner;

function live(oomKills: () => number | undefined, needsCanary = false, contextLength = () => 100) {
  let exit: (exit: RunnerExit) => void = () => {};
  const exited = new Promise<RunnerExit>((resolve) => {
    exit = resolve;
  });
  const stdout = new PassThrough();
  const heard: string[] = [];
  let onDied: (death: Death) => void = () => {};
  const died = new Promise<Death>((resolve) => {
    onDied = resolve;
  });
  const process = {
    pid: 1,
    stdin: new PassThrough(),
    stdout,
    exited,
    outputClosed: new Promise<void>((resolve) => stdout.once('close', resolve)),
    stderrTail: '',
    dropOutput: () => void stdout.destroy(),
    kill: (signal: string) => heard.push(signal),
  };
  const ignore = (): void => {};
  const limits = { ...defaultSessionLimits, exitGraceMs: 20, killedGraceMs: 20 };
  const support = {
    spawn: () => process,
    clock: systemClock,
    limits,
    stepTimes: new StepTimes(),
    oomKills,
    contextLength,
  };
  const { client } = new RunnerSession({ file: 'runner', args: [] }, needsCanary, support, {
    onReady: () => heard.push('ready'),
    onNotice: (notice) => {
      if (notice.type === 'stats') heard.push(`stats of ${notice.numFinished}`);
    },
    onReleased: ignore,
    onStderrLine: ignore,
    onInternalError: ignore,
    onLost: () => heard.push('lost'),
    onDied,
  });
  const say = (message: runner.v1.FromRunner.$Properties): void => {
    stdout.write(encodeFrame(v1.FromRunner.encode(message).finish(), maxBytesFromRunner));
  };
  const beReady = (): void => {
    say({ hello: { protocolVersion, kind: 'cpu', build: '1', numericsId: 'n' } });
    const sizes = {
      vocabSize: 9,
      maxModelLen: 9,
      maxNumSeqs: 1,
      maxNumBatchedTokens: 8,
      blockSize: 8,
      numBlocks: 2,
    };
    say({ ready: { modelIdentity: 'm', architecture: 'llama', kvCacheType: 'f16', ...sizes } });
  };
  /** Says the only token of this request, in this step. */
  const answer = (requestId: number, step: number): void => {
    const output = { requestId, tokenIds: [1], finishReason: v1.FinishReason.FINISH_REASON_MAX_TOKENS };
    say({ step: { step: Long.fromInt(step), outputs: [output], firstOutputs: [{ requestId }] } });
  };
  return { client, exit, died, heard, say, beReady, answer };
}

const request = {
  tokenIds: [0],
  numEmitted: 0,
  maxTokens: 1,
  minTokens: 0,
  stopIds: [],
  sampling: { ...neutralSampling, seed: 0n },
  cacheSalt: new Uint8Array(),
};
const onPromptLogprobs = (): void => {};
const fail = (): void => assert.unreachable();

const killed = { code: undefined, signal: 'SIGKILL', spawnError: undefined };

const test = suite('runner life');

test('the exit is the end, also while a grandchild holds the pipes open, and of what it died is not changed', async () => {
  const { exit, died, heard } = live(() => undefined);
  exit(killed);
  await Promise.resolve();
  assert.equal(heard, ['lost'], 'nobody is given to a runner that is gone');
  const death = await within(PATIENCE_MS, 'the death', died);
  assert.equal([death.exit.signal, death.verdict, heard], ['SIGKILL', undefined, ['lost']]);
});

test('out-of-memory kills are recognized by the kernel’s counter', async () => {
  for (const [counts, isOutOfMemory] of [
    [[4, 5], true],
    [[4, 4], false],
    [[undefined, undefined], false],
  ] as const) {
    let reads = 0;
    const { exit, died } = live(() => counts[reads++]);
    exit(killed);
    assert.is((await within(PATIENCE_MS, 'the death', died)).isOutOfMemory, isOutOfMemory);
  }
});

test('a runner that has not answered its canary does not serve, and its statistics are nobody’s', async () => {
  const { say, beReady, answer, exit, died, heard } = live(() => undefined, true);
  beReady();
  say({ stats: { numFinished: Long.fromInt(1) } });
  answer(1, 1);
  say({ stats: { numFinished: Long.fromInt(2) } });
  await until(PATIENCE_MS, 'Statistics', () => heard.length >= 2);
  assert.equal(heard, ['ready', 'stats of 2']);
  exit(killed);
  await within(PATIENCE_MS, 'the death', died);
});

test('a process that SIGKILL does not end is left to the system, and said to be dead', async () => {
  const { say, died, heard } = live(() => undefined);
  say({ hello: { protocolVersion: protocolVersion + 1, kind: 'cpu', build: '1', numericsId: 'n' } });
  const { exit, verdict } = await within(PATIENCE_MS, 'the death', died);
  assert.equal(heard, ['SIGKILL', 'lost']);
  assert.is(exit.signal, 'SIGKILL');
  assert.is(verdict?.kind, 'version');
  assert.match(
    verdict?.sentence ?? '',
    / Process 1 is still there 20 ms after SIGKILL, and is left to the system\.$/,
  );
});

test('the canary’s token is nobody’s: a runner that gives no other dies without tokens', async () => {
  for (const needsCanary of [false, true]) {
    for (const hasRequest of [false, true]) {
      const { client, beReady, answer, exit, died, heard } = live(() => undefined, needsCanary);
      beReady();
      if (needsCanary) answer(1, 1);
      await until(PATIENCE_MS, 'Readiness', () => heard.includes('ready'));
      if (hasRequest) {
        const answered = new Promise<void>((resolve) => {
          const sink = { onOutput: () => resolve(), onPromptLogprobs, onEmbedding: fail, onError: fail };
          client.generate(request, sink);
        });
        const next = needsCanary ? 2 : 1;
        answer(next, next);
        await within(PATIENCE_MS, 'the token', answered);
      }
      exit(killed);
      assert.is((await within(PATIENCE_MS, 'the death', died)).hasTokens, hasRequest);
    }
  }
});

test.run();
