import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';
import { readNativeAnswer } from '../../../fixtures/native-stream.ts';
import type { ScriptedRunner } from '../../../fixtures/scripted-runner.ts';
import { readEvents } from '../../../fixtures/sse.ts';
import { until } from '../../../fixtures/within.ts';

const PATIENCE_MS = 10_000;

const test = suite<{ runner: ScriptedRunner; post: (path: string, body: unknown) => Promise<Response> }>(
  'execute',
);

test.before.each((context) => {
  const { runner, post } = testApp({ now: () => Date.UTC(2026, 0, 2, 3, 4, 5), monotonicNow: () => 0 });
  Object.assign(context, { runner, post });
});

const bytes = (text: string): number[] => [...Buffer.from(text)];

test('a stream is started, token, end, each with its name, and its data', async ({ runner, post }) => {
  runner.script = [bytes('He'), bytes('llo'), [EOS_ID]];
  const response = await post('/execute', { job_id: 'test', prompt: 'Hi', max_tokens: 10, seed: 42 });
  const events = [];
  for await (const event of readEvents(response)) events.push(event);
  assert.equal(events[0], {
    event: 'started',
    data: '{"job_id":"test","model":"bytes","started_at":"2026-01-02T03:04:05.000Z","seed":42}',
  });
  assert.equal(
    events.slice(1, 6).map(({ data }) => data),
    ['{"t":"H","i":0}', '{"t":"e","i":1}', '{"t":"l","i":2}', '{"t":"l","i":3}', '{"t":"o","i":4}'],
  );
  assert.equal(events[6], {
    event: 'end',
    data: '{"tokens_out":6,"decode_time_ms":0,"stop_reason":"eos","stop_sequence_matched":null,"seed":42,"cached_tokens":0}',
  });
});

test('all parameters of the request reach the runner', async ({ runner, post }) => {
  runner.script = [[EOS_ID]];
  const body =
    '{"job_id":"a","prompt":"Hi","max_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":9,"min_p":0.125,' +
    '"repetition_penalty":1.5,"seed":18446744073709551615,"min_tokens":3,"stop_token_ids":[5,5],' +
    `"allowed_token_ids":[5,6,${EOS_ID}],"banned_token_ids":[7]}`;
  const answer = await readNativeAnswer(await post('/execute', body));
  assert.is(answer.last.event, 'end');
  assert.equal(runner.requests, [
    {
      promptIds: bytes('Hi'),
      modelIdentity: 'bytes',
      maxTokens: 7,
      minTokens: 3,
      stopIds: [EOS_ID, 5],
      cacheSalt: new Uint8Array(),
      api: 'native',
      sampling: {
        temperature: 0.5,
        topP: 0.25,
        topK: 9,
        minP: 0.125,
        repetitionPenalty: 1.5,
        presencePenalty: 0,
        frequencyPenalty: 0,
        logitBias: new Map(),
        allowedTokenIds: [5, 6, EOS_ID],
        bannedTokenIds: [7],
        seed: 18446744073709551615n,
      },
    },
  ]);
});

test('defaults: temperature 1, filters off, a random seed that is reported', async ({ runner, post }) => {
  runner.script = [[EOS_ID]];
  const first = await readNativeAnswer(await post('/execute', { job_id: 'a', prompt: 'Hi' }));
  const second = await readNativeAnswer(await post('/execute', { job_id: 'a', prompt: 'Hi' }));
  const sampling = runner.requests[0]?.sampling;
  assert.is(String(sampling?.seed), String(first.started.seed));
  assert.is(first.last.data.seed, first.started.seed);
  assert.is.not(first.started.seed, second.started.seed);
  assert.equal(
    { ...sampling, seed: 0n },
    {
      temperature: 1,
      topK: 0,
      topP: 1,
      minP: 0,
      repetitionPenalty: 1,
      presencePenalty: 0,
      frequencyPenalty: 0,
      logitBias: new Map(),
      allowedTokenIds: [],
      bannedTokenIds: [],
      seed: 0n,
    },
  );
  assert.is(runner.requests[0]?.maxTokens, 510, 'the default of 2048 tokens ends at the context');
});

test('every field at fault is named at once, and the runner sees nothing', async ({ runner, post }) => {
  const response = await post('/execute', {
    job_id: '',
    prompt: 'x',
    max_tokens: 0,
    temperature: 2.5,
    colour: 'red',
  });
  assert.is(response.status, 400);
  assert.equal(await response.json(), {
    errors: [
      { field: 'job_id', constraint: 'non_empty', message: 'job_id must not be empty', value: '' },
      {
        field: 'max_tokens',
        constraint: 'range(1..=2048)',
        message: 'max_tokens must be at least 1 (got 0)',
        value: '0',
      },
      {
        field: 'temperature',
        constraint: 'range(0.0..=2.0)',
        message: 'temperature must be at most 2.0 (got 2.5)',
        value: '2.5',
      },
      { field: 'colour', constraint: 'unknown', message: 'colour is not a field of this request' },
    ],
  });
  assert.is(runner.requests.length, 0);
});

test('32,768 emoji pass the length rule and meet the context; one more does not pass it', async ({
  post,
}) => {
  const field = async (prompt: string): Promise<unknown> => {
    const response = await post('/execute', { job_id: 'a', prompt });
    assert.is(response.status, 400);
    const { errors } = (await response.json()) as { errors: { constraint: string }[] };
    return errors[0]?.constraint;
  };
  assert.is(await field('😀'.repeat(32_768)), 'context(512)');
  assert.is(await field('😀'.repeat(32_769)), 'length(1..=32768)');
});

test('bodies that are invalid JSON, too large or of another type are refused', async ({ post }) => {
  for (const body of ['', '{', '{"a":1,}', `${'['.repeat(65)}${']'.repeat(65)}`, 'null', '[]', '3']) {
    const response = await post('/execute', body);
    assert.is(response.status, 400, body.slice(0, 20));
    const { errors } = (await response.json()) as { errors: { field: string }[] };
    assert.is(errors[0]?.field, 'body', body.slice(0, 20));
  }
  const { app } = testApp({ maxBodyBytes: 1024 });
  assert.is((await app.request('/execute', { method: 'POST', body: '{}' })).status, 415);
  const headers = { 'content-type': 'application/json' };
  assert.is((await app.request('/execute', { method: 'POST', headers, body: ' '.repeat(1025) })).status, 413);
});

test('an answer to a wrong body is no larger than need be', async ({ post }) => {
  const long = '9'.repeat(100_000);
  const stops = JSON.stringify(Array.from({ length: 50_000 }, () => ''));
  const strays = Array.from({ length: 1000 }, (_, i) => `"${'k'.repeat(200)}${i}":1`).join(',');
  const body = `{"job_id":"a","prompt":"x","seed":${long},"stop":${stops},${strays}}`;
  const response = await post('/execute', body);
  assert.is(response.status, 400);
  const text = await response.text();
  assert.ok(text.length < 5000, `${text.length} characters`);
  assert.is((JSON.parse(text) as { errors: unknown[] }).errors.length, 16);
});

test('a stop string across tokens ends the answer, is not sent, and cancels the rest', async ({
  runner,
  post,
}) => {
  runner.script = [bytes('one E'), bytes('N'), bytes('D and more'), 'wait'];
  const answer = await readNativeAnswer(
    await post('/execute', { job_id: 'a', prompt: 'x', stop: ['###', 'END'] }),
  );
  assert.is(answer.text, 'one ');
  assert.equal(answer.last, {
    event: 'end',
    data: { ...answer.last.data, tokens_out: 7, stop_reason: 'stop_sequence', stop_sequence_matched: 'END' },
  });
});

test('the beginning of a stop string that does not come is sent at the end', async ({ runner, post }) => {
  runner.script = [bytes('to be EN'), [EOS_ID]];
  const answer = await readNativeAnswer(await post('/execute', { job_id: 'a', prompt: 'x', stop: ['END'] }));
  assert.is(answer.text, 'to be EN');
  assert.is(answer.last.data.stop_reason, 'eos');
});

test('characters of several tokens come whole', async ({ runner, post }) => {
  runner.script = [...bytes('é👋🏽').map((byte) => [byte]), [EOS_ID]];
  const answer = await readNativeAnswer(await post('/execute', { job_id: 'a', prompt: 'x' }));
  assert.is(answer.text, 'é👋🏽');
  assert.equal(answer.indices, [1, 5, 9]);
});

test('cancel ends the stream with CANCELLED, can be repeated, and knows unknown jobs', async ({
  runner,
  post,
}) => {
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

test('a client that goes away cancels, and its job id is free again', async ({ runner, post }) => {
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

test('refusals before the stream have a status; failures in it are its last event', async ({
  runner,
  post,
}) => {
  runner.refuse = new GenerationError('QUEUE_FULL', 'Too many.', { retriable: true, retryAfterSec: 1.5 });
  const full = await post('/execute', { job_id: 'a', prompt: 'x' });
  assert.is(full.status, 429);
  assert.is(full.headers.get('retry-after'), '2');
  assert.equal(await full.json(), { code: 'QUEUE_FULL', message: 'Too many.', retriable: true });

  runner.refuse = undefined;
  runner.script = [bytes('ab'), new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: true })];
  const answer = await readNativeAnswer(await post('/execute', { job_id: 'a', prompt: 'x' }));
  assert.is(answer.text, 'ab');
  assert.equal(answer.last, {
    event: 'error',
    data: { code: 'INFERENCE_FAILED', message: 'It broke.', retriable: true },
  });
});

test('before the model is ready there is a 503 that says why', async ({ runner, post }) => {
  runner.current = { ...runner.current, state: 'failed', reason: 'The file is damaged.', retryAfterSec: 1 };
  const response = await post('/execute', { job_id: 'a', prompt: 'x' });
  assert.is(response.status, 503);
  assert.ok(response.headers.has('retry-after'));
  assert.equal(await response.json(), {
    code: 'WORKER_UNHEALTHY',
    message: 'The file is damaged.',
    retriable: true,
  });
});

test('the end event reports how much of the prompt was cached', async ({ runner, post }) => {
  runner.script = [[EOS_ID]];
  runner.cachedOf = () => 1;
  const { last } = await readNativeAnswer(await post('/execute', { job_id: 'a', prompt: 'Hi' }));
  assert.is(last.data.cached_tokens, 1);
});

test('a requested stop token is among the ids but not in the text', async ({ runner, post }) => {
  runner.script = [bytes('ab')];
  const asked = { job_id: 'a', prompt: 'Hi', stop_token_ids: bytes('b'), token_ids: true };
  const { text, ids, last } = await readNativeAnswer(await post('/execute', asked));
  assert.equal([text, ids, last.data.stop_reason], ['a', bytes('ab'), 'eos']);
});

test('min_tokens of more than the default length does not speak of what was not sent', async ({ post }) => {
  const response = await post('/execute', { job_id: 'a', prompt: 'Hi', min_tokens: 3000 });
  const { errors } = (await response.json()) as { errors: { message: string }[] };
  assert.equal(
    errors.map(({ message }) => message),
    ['min_tokens must be at most 2048, the default of max_tokens (got 3000)'],
  );
});

test('min_tokens of more than max_tokens is refused', async ({ post }) => {
  const asked = { job_id: 'a', prompt: 'Hi', min_tokens: 9, max_tokens: 8 };
  const response = await post('/execute', asked);
  assert.is(response.status, 400);
  const { errors } = (await response.json()) as { errors: object[] };
  assert.equal(errors, [
    {
      field: 'min_tokens',
      constraint: 'range(0..=8)',
      message: 'min_tokens must be at most max_tokens, which is 8 (got 9)',
      value: '9',
    },
  ]);
});

test.run();
