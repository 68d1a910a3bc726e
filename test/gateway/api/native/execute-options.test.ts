import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { packMsgpack } from '../../../../gateway/api/msgpack.ts';
import { ObservedRunner } from '../../../../gateway/runner/observed-runner.ts';
import { GenerationError, type GenerationErrorCode } from '../../../../gateway/runner/runner.ts';
import { TimeLimit } from '../../../../gateway/runner/time-limit.ts';
import type { Log } from '../../../../gateway/telemetry/log.ts';
import { type TestApp, testApp } from '../../../fixtures/app.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';
import { readNativeAnswer } from '../../../fixtures/native-stream.ts';
import { type Act, ScriptedRunner, scriptedInfo } from '../../../fixtures/scripted-runner.ts';

/** Options of POST /execute besides the answer: encodings, ids, metrics, deadlines, a name. */

const test = suite('execute options');

const MSGPACK = { 'content-type': 'application/x-msgpack', accept: 'application/x-msgpack' };
const bytes = (text: string): number[] => [...Buffer.from(text)];
const body = { job_id: 'a', prompt: 'Hi', seed: 7 };

/** A clock that advances by this much each time it is read. */
function ticking(stepMs: number): () => number {
  let nowMs = 0;
  return () => {
    nowMs += stepMs;
    return nowMs;
  };
}

/** The application behind the server's time limit. */
function limitedApp(limitMs: number): TestApp {
  const inner = new ScriptedRunner();
  const app = testApp({ runner: new ObservedRunner(inner, [new TimeLimit(limitMs, Date.now)], Date.now) });
  return { ...app, runner: inner };
}

test('both encodings have the same events, of every kind', async () => {
  const scripts: Act[][] = [
    [bytes('One 👋'), bytes('two'), [EOS_ID]],
    [bytes('a STOP b'), 'wait'],
    [bytes('a'), new GenerationError('OUT_OF_MEMORY', 'Too large.', { retriable: false })],
  ];
  for (const script of scripts) {
    const answers = [];
    for (const headers of [{}, MSGPACK]) {
      const { runner, post } = testApp({
        now: () => Date.UTC(2026, 0, 2, 3, 4, 5),
        monotonicNow: ticking(600),
      });
      runner.script = script;
      const request = {
        ...body,
        seed: 18446744073709551615n,
        stop: ['STOP'],
        metrics: true,
        token_ids: true,
      };
      const sent =
        headers === MSGPACK
          ? packMsgpack(request)
          : JSON.stringify({ ...request, seed: 0 }).replace('"seed":0', `"seed":${request.seed}`);
      const response = await post('/execute', sent, headers);
      assert.is(
        response.headers.get('content-type'),
        headers === MSGPACK ? MSGPACK.accept : 'text/event-stream',
      );
      answers.push(await readNativeAnswer(response));
      assert.is(runner.requests[0]?.sampling.seed, request.seed);
    }
    assert.equal(answers[0], answers[1]);
    assert.ok((answers[0]?.metrics.length ?? 0) > 0 || script.length < 3, 'metrics were among them');
  }
});

test('the encoding of the answer is the client’s choice, whatever it sent', async () => {
  const { runner, post } = testApp();
  runner.script = [[EOS_ID]];
  const typeFor = async (accept: string): Promise<string | null> => {
    const response = await post('/execute', body, { accept });
    await readNativeAnswer(response);
    return response.headers.get('content-type');
  };
  for (const accept of [
    '*/*',
    'text/event-stream',
    'application/json',
    'text/event-stream, application/x-msgpack;q=0.5',
  ])
    assert.is(await typeFor(accept), 'text/event-stream', accept);
  for (const accept of ['application/x-msgpack', 'Application/X-Msgpack, */*;q=0.1'])
    assert.is(await typeFor(accept), 'application/x-msgpack', accept);
});

test('faults of a msgpack body are the same as of a JSON body; other types are 415 by name', async () => {
  const { post, runner } = testApp();
  const asMsgpack = await post('/execute', packMsgpack({ job_id: '', prompt: 'x' }), MSGPACK);
  const asJson = await post('/execute', { job_id: '', prompt: 'x' });
  assert.is(asMsgpack.status, 400);
  assert.equal(await asMsgpack.json(), await asJson.json());
  const damaged = await post('/execute', Uint8Array.of(0x81, 0xa1), MSGPACK);
  assert.is(damaged.status, 400);
  const { errors } = (await damaged.json()) as { errors: { constraint: string }[] };
  assert.is(errors[0]?.constraint, 'msgpack');
  const other = await post('/execute', 'x', { 'content-type': 'text/plain' });
  assert.is(other.status, 415);
  assert.match(await other.text(), 'application/json and application/x-msgpack');
  assert.is((await post('/cancel', packMsgpack({ job_id: 'a' }), MSGPACK)).status, 202);
  assert.is(runner.requests.length, 0);
});

test('prompt_ids reach the runner as they are, and must be in the vocabulary and the context', async () => {
  const { runner, post } = testApp();
  runner.script = [[EOS_ID]];
  await readNativeAnswer(await post('/execute', { job_id: 'a', prompt_ids: [257, 0, 1] }));
  assert.equal(runner.requests[0]?.promptIds, [257, 0, 1]);
  const refused = async (prompt_ids: number[]): Promise<unknown> => {
    const response = await post('/execute', { job_id: 'a', prompt_ids });
    assert.is(response.status, 400);
    return ((await response.json()) as { errors: unknown[] }).errors[0];
  };
  assert.equal(await refused([1, 258]), {
    field: 'prompt_ids.1',
    constraint: 'range(0..258)',
    message: 'prompt_ids.1 is token 258, but the vocabulary ends at 257',
    value: '258',
  });
  const tooLong = (await refused(new Array(512).fill(1))) as { field: string; constraint: string };
  assert.equal([tooLong.field, tooLong.constraint], ['prompt_ids', 'context(512)']);
});

test('token_ids: every token is in exactly one event, the one whose text it completed', async () => {
  const { runner, post } = testApp();
  runner.script = [bytes('a👋'), bytes('EN'), bytes('x'), [EOS_ID]];
  const answer = await readNativeAnswer(await post('/execute', { ...body, token_ids: true, stop: ['END'] }));
  assert.equal(answer.ids, [...bytes('a👋ENx'), EOS_ID]);
  assert.equal(answer.last.data.ids, [EOS_ID]);
  const without = await readNativeAnswer(await post('/execute', body));
  assert.equal(without.ids, []);
  assert.not('ids' in without.last.data);
});

test('text released at the end joins the last token, so no index repeats', async () => {
  const { runner, post } = testApp();
  runner.script = [bytes('EE')];
  const answer = await readNativeAnswer(await post('/execute', { ...body, max_tokens: 2, stop: ['END'] }));
  assert.is(answer.text, 'EE');
  assert.equal(answer.indices, [1]);
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

test('a deadline that passes in the stream ends it with TIMEOUT; one that has passed is a 504', async () => {
  const { runner, post } = limitedApp(60_000);
  runner.script = [bytes('a'), 'wait'];
  const soon = String(Date.now() + 100);
  const answer = await readNativeAnswer(await post('/execute', body, { 'x-deadline': soon }));
  assert.is(answer.text, 'a');
  assert.equal(answer.last, {
    event: 'error',
    data: {
      code: 'TIMEOUT',
      message: "The request's deadline passed before the answer was finished.",
      retriable: true,
    },
  });
  const late = await post('/execute', body, { 'x-deadline': '2026-01-01T00:00:00Z' });
  assert.is(late.status, 504);
  assert.is(((await late.json()) as { code: string }).code, 'TIMEOUT');
  assert.is((await post('/execute', body, { 'x-deadline': 'soon' })).status, 400);
  assert.is(runner.requests.length, 1);
  runner.script = [[EOS_ID]];
  assert.is((await readNativeAnswer(await post('/execute', body))).last.event, 'end', 'its id is free again');
});

test('the server’s own limit ends a stream with TIMEOUT', async () => {
  const { runner, post } = limitedApp(50);
  runner.script = [bytes('a'), 'wait'];
  assert.is((await readNativeAnswer(await post('/execute', body))).last.data.code, 'TIMEOUT');
});

test('every answer has a correlation id: the client’s if valid, else a random one', async () => {
  const { runner, post, get } = testApp();
  runner.script = [[EOS_ID]];
  const echoed = async (response: Promise<Response>) => (await response).headers.get('x-correlation-id');
  const id = { 'x-correlation-id': 'A-1' };
  assert.is(await echoed(post('/execute', body, id)), 'A-1');
  assert.is(await echoed(post('/execute', {}, id)), 'A-1', 'also on a refusal');
  assert.is(await echoed(post('/nowhere', {}, id)), 'A-1');
  const drawn = await echoed(get('/health'));
  assert.match(drawn ?? '', /^[A-Za-z0-9-]{1,64}$/);
  assert.is.not(drawn, await echoed(get('/health')));
  for (const strange of ['', 'a b', 'a_b', 'é', 'x'.repeat(65), '<script>']) {
    const response = await post('/execute', { ...body, job_id: 'strange' }, { 'x-correlation-id': strange });
    const { last } = await readNativeAnswer(response);
    assert.is(last.event, 'end', `"${strange}" hinders nobody`);
    assert.match(response.headers.get('x-correlation-id') ?? '', /^[0-9a-f-]{36}$/, 'nor is it repeated');
  }
});

test('each code of a failed generation has its status before the stream and its code within', async () => {
  const cases: [GenerationErrorCode, number, string, string][] = [
    ['INVALID_REQUEST', 400, 'INVALID_REQUEST', 'INVALID_REQUEST'],
    ['CANCELLED', 500, 'CANCELLED', 'CANCELLED'],
    ['TIMEOUT', 504, 'TIMEOUT', 'TIMEOUT'],
    ['OUT_OF_MEMORY', 400, 'VRAM_OOM', 'VRAM_OOM'],
    ['QUEUE_FULL', 429, 'QUEUE_FULL', 'INFERENCE_FAILED'],
    ['NOT_READY', 503, 'WORKER_UNHEALTHY', 'INFERENCE_FAILED'],
    ['INFERENCE_FAILED', 500, 'INFERENCE_FAILED', 'INFERENCE_FAILED'],
  ];
  for (const [code, status, before, within] of cases) {
    for (const retriable of [true, false]) {
      const { runner, post } = testApp();
      const error = new GenerationError(
        code,
        'A sentence.',
        retriable ? { retriable, retryAfterSec: 3 } : { retriable },
      );
      runner.refuse = error;
      const response = await post('/execute', body);
      assert.is(response.status, status, code);
      assert.equal(await response.json(), { code: before, message: 'A sentence.', retriable });
      assert.is(response.headers.get('retry-after'), retriable ? '3' : null);
      runner.refuse = undefined;
      runner.script = [bytes('a'), error];
      const { last } = await readNativeAnswer(await post('/execute', body));
      assert.equal(last.data, { code: within, message: 'A sentence.', retriable });
    }
  }
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
