import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parseExecuteRequest, unusualSampling } from '../../../../gateway/api/native/execute.ts';
import { ObservedRunner } from '../../../../gateway/runner/observed-runner.ts';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import type { Log } from '../../../../gateway/telemetry/log.ts';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';
import { readNativeAnswer } from '../../../fixtures/native-stream.ts';
import { ScriptedRunner, scriptedInfo } from '../../../fixtures/scripted-runner.ts';
import { until } from '../../../fixtures/within.ts';

/** What is no request and its answer: cancels, clients that leave, the clock and the log. The rest is in test/wire. */

const test = suite('execute');

const PATIENCE_MS = 10_000;

const bytes = (text: string): number[] => [...Buffer.from(text)];
const body = { job_id: 'a', prompt: 'Hi', seed: 7 };

test('cancel ends the stream with CANCELLED, can be repeated, and knows unknown jobs', async () => {
  const { runner, post } = testApp();
  runner.script = [bytes('a'), 'wait'];
  const response = await post('/execute', { job_id: 'busy', prompt: 'x' });
  assert.is((await post('/execute', { job_id: 'busy', prompt: 'x' })).status, 409);
  let asked = false;
  const answer = await readNativeAnswer(response, () => {
    if (!asked) void post('/cancel', { job_id: 'busy' });
    asked = true;
  });
  assert.is(answer.last.event, 'error');
  assert.is(answer.last.data.code, 'CANCELLED');
  assert.is(answer.last.data.retriable, false);
  for (const job_id of ['busy', 'busy', 'never seen'])
    assert.is((await post('/cancel', { job_id })).status, 202);
  assert.is((await post('/cancel', {})).status, 400);

  runner.script = [[EOS_ID]];
  assert.is(
    (await readNativeAnswer(await post('/execute', { job_id: 'busy', prompt: 'x' }))).last.event,
    'end',
  );
});

test('a client that goes away cancels, and its job id is free again', async () => {
  const { runner, post } = testApp();
  runner.script = [bytes('a'), 'wait'];
  const response = await post('/execute', { job_id: 'gone', prompt: 'x' });
  const reader = response.body?.getReader();
  await reader?.read();
  await reader?.cancel();
  await until(PATIENCE_MS, 'The cancel', () => runner.cancelled > 0);
  assert.is(runner.cancelled, 1);
  runner.script = [[EOS_ID]];
  assert.is((await post('/execute', { job_id: 'gone', prompt: 'x' })).status, 200);
});

test('combinations that leave hardly a choice are allowed, and said', () => {
  const about = (change: object) => unusualSampling(parseExecuteRequest({ ...body, ...change })).length;
  assert.is(about({ top_k: 5, top_p: 0.4 }), 1);
  assert.is(about({ min_p: 0.6, temperature: 0.4 }), 1);
  assert.is(about({ top_k: 9, top_p: 0.49, min_p: 0.51, temperature: 0.49 }), 2);
  for (const usual of [{}, { top_k: 10, top_p: 0.4 }, { top_k: 0, top_p: 0.4 }, { top_k: 5, top_p: 0.5 }])
    assert.is(about(usual), 0, JSON.stringify(usual));
  for (const usual of [
    { min_p: 0.5, temperature: 0.4 },
    { min_p: 0.6, temperature: 0.5 },
  ])
    assert.is(about(usual), 0, JSON.stringify(usual));
});

test('metrics events come when asked for, after tokens, at most once a second', async () => {
  let nowMs = 0;
  const monotonicNow = (): number => nowMs;
  const runner = new ScriptedRunner();
  const clock = {
    onTokens: () => {
      nowMs += 400;
    },
  };
  const { post } = testApp({ runner: new ObservedRunner(runner, [clock], monotonicNow), monotonicNow });
  runner.script = [bytes('a'), bytes('b'), bytes('c'), bytes('d'), bytes('e'), bytes('f'), [EOS_ID]];
  const answer = await readNativeAnswer(await post('/execute', { ...body, metrics: true }));
  const compact = answer.order.join(' ');
  assert.is(compact, 'started token token token metrics token token token metrics end');
  assert.equal(answer.metrics[0], { tokens_per_sec: 2.5, vram_bytes: 0 });
  const without = await readNativeAnswer(await post('/execute', body));
  assert.equal(without.metrics, []);

  runner.current = { ...runner.current, info: { ...scriptedInfo, kind: 'cuda' } };
  const cuda = await readNativeAnswer(await post('/execute', { ...body, metrics: true }));
  assert.is(cuda.metrics[0]?.vram_bytes, 1500);
});

test('an unexpected error is logged in full, and the client sees no internals', async () => {
  const { lines, log } = recordingLog();
  const { runner, post } = testApp({ log });
  runner.script = [bytes('a')];
  const { last } = await readNativeAnswer(await post('/execute', body));
  assert.is(last.data.code, 'INFERENCE_FAILED');
  assert.not.match(String(last.data.message), 'script');
  const error = lines.find(({ event }) => event === 'error');
  assert.match(String(error?.err), 'the script ended');
});

test('the log of a job: start, what is unusual, error, end; with its names and no text', async () => {
  const { lines, log } = recordingLog();
  const { runner, post } = testApp({ log });
  runner.script = [
    bytes('secret-answer'),
    new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: true }),
  ];
  const request = { ...body, prompt: 'secret-prompt', stop: ['secret-stop'], top_k: 3, top_p: 0.2 };
  await readNativeAnswer(await post('/execute', request, { 'x-correlation-id': 'c-1' }));
  runner.script = [[EOS_ID]];
  await readNativeAnswer(await post('/execute', body));
  runner.script = ['wait'];
  const reader = (await post('/execute', body)).body?.getReader();
  await reader?.read();
  await reader?.cancel();
  const cancelled = post('/execute', { ...body, job_id: 'stopped' });
  const stopped = readNativeAnswer(await cancelled);
  await post('/cancel', { job_id: 'stopped' });
  assert.is((await stopped).last.data.code, 'CANCELLED');
  // The cancel is a request with a log line of its own.
  const ofJobs = lines.filter(({ event }) => event !== 'request');
  assert.equal(
    ofJobs.map(({ event, outcome }) => (outcome === undefined ? event : `${event} ${outcome}`)),
    [
      'execute_start',
      'unusual_sampling',
      'error',
      'execute_end error',
      'execute_start',
      'execute_end eos',
      'execute_start',
      'execute_end client_gone',
      'execute_start',
      'execute_end cancelled',
    ],
  );
  for (const line of ofJobs.slice(0, 4)) assert.equal([line.job_id, line.correlation_id], ['a', 'c-1']);
  assert.not.match(JSON.stringify(lines), 'secret');
});

function recordingLog(): { lines: Record<string, unknown>[]; log: Log } {
  const lines: Record<string, unknown>[] = [];
  const logWith = (fields: object): Log => {
    const write = (line: object) => lines.push({ ...fields, ...line });
    const child = (more: object) => logWith({ ...fields, ...more });
    return { debug: write, info: write, warn: write, error: write, child } as unknown as Log;
  };
  return { lines, log: logWith({}) };
}

test.run();
