import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ObservedRunner, TimeLimit } from '../../../gateway/runner/observed-runner.ts';
import { testApp } from '../../fixtures/app.ts';
import { type Act, ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { readEvents } from '../../fixtures/sse.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

/** The server's time limit is reached in the middle of an answer: OpenAI clients get what there is, and do not retry. */

const test = suite('answers at a time limit');

const LIMIT_MS = 1000;

const ROUTES = [
  { path: '/v1/chat/completions', body: { model: 'bytes', messages: [{ role: 'user', content: 'Hi' }] } },
  { path: '/v1/completions', body: { model: 'bytes', prompt: 'Hi', max_tokens: 50 } },
] as const;

const bytes = (text: string): number[] => [...Buffer.from(text)];

function limitedApp(scriptOf: (choice: number) => readonly Act[]) {
  const inner = new ScriptedRunner();
  inner.scriptOf = ({ sampling }) => scriptOf(Number(sampling.seed));
  const clock = new VirtualClock();
  const runner = new ObservedRunner(inner, [new TimeLimit(LIMIT_MS, Date.now, clock)], () => clock.now());
  const { post } = testApp({ runner });
  return {
    inner,
    /** Lets the time pass when so many choices wait, and have given what they have. */
    postUntilLimit: async (numWaiting: number, path: string, body: object): Promise<Response> => {
      const answer = post(path, body);
      await until(PATIENCE_MS, 'The wait', () => inner.numAtWait === numWaiting);
      clock.pass(LIMIT_MS - 1);
      assert.is(inner.cancelled, 0, 'not before the limit');
      clock.pass(1);
      return answer;
    },
  };
}

interface Choice {
  readonly text?: string;
  readonly message?: { readonly content: string };
  readonly delta?: { readonly content?: string };
  readonly finish_reason: string | null;
  readonly ended_by?: string;
  readonly logprobs: unknown;
}

const textOf = ({ text, message, delta }: Choice): string => text ?? message?.content ?? delta?.content ?? '';

for (const { path, body } of ROUTES) {
  test(`${path}: an answer that has begun ends with what there is, by length, and says that time ended it`, async () => {
    const { inner, postUntilLimit } = limitedApp(() => [bytes('so far EN'), 'wait']);
    const response = await postUntilLimit(1, path, { ...body, seed: 0, stop: 'END' });
    assert.is(response.status, 200);
    assert.not(response.headers.has('x-should-retry'));
    const { choices, usage } = (await response.json()) as {
      choices: Choice[];
      usage: { completion_tokens: number };
    };
    assert.equal(
      choices.map((choice) => [textOf(choice), choice.finish_reason, choice.ended_by]),
      [['so far EN', 'length', 'time_limit']],
    );
    assert.is(usage.completion_tokens, 9);
    assert.is(inner.cancelled, 1, 'the runner works for it no more');
  });

  test(`${path}: a stream that has begun ends in the same way`, async () => {
    const { postUntilLimit } = limitedApp(() => [bytes('so far EN'), 'wait']);
    const stream = { stream: true, stream_options: { include_usage: true } };
    const response = await postUntilLimit(1, path, { ...body, ...stream, seed: 0, stop: 'END' });
    const datas: string[] = [];
    for await (const { data } of readEvents(response)) datas.push(data);
    assert.is(datas.pop(), '[DONE]');
    const chunks = datas.map((data) => JSON.parse(data) as { choices: Choice[]; usage: object | null });
    assert.equal(chunks.pop()?.choices, [], 'usage comes last');
    const choices = chunks.flatMap((chunk) => chunk.choices);
    assert.is(choices.map(textOf).join(''), 'so far EN');
    assert.equal(choices.map(({ finish_reason, ended_by }) => [finish_reason, ended_by]).at(-1), [
      'length',
      'time_limit',
    ]);
    assert.equal(
      choices.slice(0, -1).filter(({ finish_reason, ended_by }) => finish_reason !== null || ended_by),
      [],
    );
  });

  test(`${path}: an answer that has not begun is a 504 that is not to be sent again`, async () => {
    const { postUntilLimit } = limitedApp(() => ['wait']);
    const response = await postUntilLimit(1, path, body);
    assert.is(response.status, 504);
    assert.is(response.headers.get('x-should-retry'), 'false');
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    assert.is(error.code, 'timeout');
    assert.match(error.message, `within ${LIMIT_MS / 1000} s`);
  });

  test(`${path}: of several choices those that ended keep their end, those that wait are empty`, async () => {
    const scripts: Act[][] = [[bytes('whole'), [257]], [bytes('half'), 'wait'], ['wait']];
    const { postUntilLimit } = limitedApp((choice) => scripts[choice] ?? []);
    const asked = { ...body, n: 3, seed: 0, logprobs: path === '/v1/completions' ? 1 : true };
    const { choices } = (await (await postUntilLimit(2, path, asked)).json()) as { choices: Choice[] };
    assert.equal(
      choices.map((choice) => [textOf(choice), choice.finish_reason, choice.ended_by]),
      [
        ['whole', 'stop', undefined],
        ['half', 'length', 'time_limit'],
        ['', 'length', 'time_limit'],
      ],
    );
    for (const { logprobs } of choices) assert.ok(logprobs, 'log-probabilities are there, if only none');
  });
}

test.run();
