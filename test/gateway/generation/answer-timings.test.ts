import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type AnswerTimings, timingsOf } from '../../../gateway/generation/answer-timings.ts';
import { AnswerTimes } from '../../../gateway/runner/runner.ts';
import { testApp } from '../../fixtures/app.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { readNativeAnswer } from '../../fixtures/native-stream.ts';

const test = suite('timings of an answer');

test('an answer says how long it waited, and how fast its tokens came', () => {
  const times = new AnswerTimes(1000);
  const first = { numCachedTokens: 4, queuedUs: 2500, prefillUs: 30_000 };
  times.onTokens({ tokenIds: [1, 2], first }, 1040);
  times.onTokens({ tokenIds: [3] }, 1060);
  times.onTokens({ tokenIds: [4, 5, 6], isResumed: true }, 1240);
  times.onTokens({ tokenIds: [] }, 1245);
  times.endMs = 1245;
  assert.equal(timingsOf(times, 7, 6), {
    queue_ms: 2.5,
    prefill_ms: 30,
    first_token_ms: 40,
    between_tokens_ms: 50,
    tokens_per_second: 20,
    total_ms: 245,
    resume_pause_ms: 180,
    prompt_tokens: 7,
    cached_tokens: 4,
    completion_tokens: 6,
  });
});

test('times of events that never happened are null', () => {
  const none = timingsOf(new AnswerTimes(0), 1, 0);
  const { queue_ms, prefill_ms, first_token_ms, between_tokens_ms, tokens_per_second } = none;
  assert.equal(
    [queue_ms, prefill_ms, first_token_ms, between_tokens_ms, tokens_per_second],
    [null, null, null, null, null],
  );
  const times = new AnswerTimes(0);
  times.onTokens({ tokenIds: [1] }, 0);
  const one = timingsOf(times, 1, 1);
  assert.equal([one.first_token_ms, one.between_tokens_ms], [0, null]);
});

interface Choice {
  readonly finish_reason: string | null;
  readonly timings?: AnswerTimings;
}

test('answers of /execute and of OpenAI’s routes have timings, if asked and not else', async () => {
  const { runner, post } = testApp();
  const isRight = (timings: AnswerTimings | undefined, name: string): void => {
    assert.is(timings?.completion_tokens, 3, name);
    assert.is(timings?.queue_ms, 1, name);
    assert.is(timings?.prefill_ms, 2, name);
    assert.ok((timings?.total_ms ?? -1) >= 0, name);
  };
  const bodies: Record<string, object> = {
    '/v1/completions': { model: 'bytes', prompt: 'Hi' },
    '/v1/chat/completions': { model: 'bytes', messages: [{ role: 'user', content: 'Hi' }] },
  };
  runner.script = [[97], [98], [EOS_ID]];
  for (const timings of [true, false]) {
    const { last } = await readNativeAnswer(await post('/execute', { job_id: 'a', prompt: 'Hi', timings }));
    if (timings) isRight(last.data.timings as AnswerTimings, '/execute');
    else assert.not.ok('timings' in last.data);
    for (const [path, body] of Object.entries(bodies)) {
      const whole = (await (await post(path, { ...body, n: 2, timings })).json()) as { choices: Choice[] };
      assert.is(whole.choices.length, 2);
      for (const choice of whole.choices) {
        if (timings) isRight(choice.timings, path);
        else assert.not.ok('timings' in choice);
      }
      const text = await (await post(path, { ...body, stream: true, timings })).text();
      const chunks = [...text.matchAll(/^data: (\{.*)$/gm)].map(
        ([, data = '']) => JSON.parse(data) as typeof whole,
      );
      for (const { finish_reason, timings: told } of chunks.flatMap(({ choices }) => choices)) {
        if (timings && finish_reason !== null) isRight(told, `${path}, streamed`);
        else assert.is(told, undefined);
      }
    }
  }
});

test.run();
