import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type AnswerSettings, answerPrompts, type Prompt } from '../../../gateway/cli/answer-prompts.ts';
import {
  type GenerateRequest,
  GenerationError,
  type GenerationHandle,
  type TokenSink,
} from '../../../gateway/runner/runner.ts';
import { byteModel, EOS_ID } from '../../fixtures/byte-model.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { ScriptedRunner, scriptedInfo } from '../../fixtures/scripted-runner.ts';
import { requestOf } from '../../fixtures/supervised.ts';

const test = suite('answer prompts');

const settings: AnswerSettings = {
  maxTokens: 9,
  minTokens: 0,
  ignoreEos: false,
  stop: [],
  sampling: { ...requestOf([1], 1).sampling, seed: 2n ** 64n - 1n },
  maxOpen: 4,
  maxOpenTokens: 1000,
};

async function answersOf(runner: ScriptedRunner, prompts: Prompt[], change: Partial<AnswerSettings> = {}) {
  const target = { model: byteModel, info: scriptedInfo };
  const answers = [];
  for await (const answer of answerPrompts(runner, target, prompts, { ...settings, ...change }))
    answers.push(answer);
  return answers;
}

/** Answers each request with its prompt, in reverse order. */
class Backwards extends ScriptedRunner {
  open = 0;
  mostOpen = 0;
  readonly #waiting: (() => void)[] = [];

  override generate(request: GenerateRequest, sink: TokenSink): GenerationHandle {
    this.requests.push(request);
    this.mostOpen = Math.max(this.mostOpen, ++this.open);
    this.#waiting.push(() => {
      this.open--;
      sink.onTokens({ firstIndex: 0, tokenIds: [...request.promptIds, EOS_ID], finish: 'stop_id' });
    });
    setImmediate(() => this.#waiting.pop()?.());
    return { cancel: () => {}, pause: () => {}, resume: () => {} };
  }
}

test('offline answers come in the order of the prompts, whichever ends first, so many at a time', async () => {
  const runner = new Backwards();
  const prompts = Array.from({ length: 20 }, (_, i) => `prompt ${i}`);
  const answers = await answersOf(runner, prompts);
  assert.equal(
    answers.map(({ text }) => text),
    prompts,
  );
  assert.is(runner.mostOpen, settings.maxOpen);
  assert.equal(answers[0], {
    text: 'prompt 0',
    token_ids: [...Buffer.from('prompt 0'), EOS_ID],
    finish: 'eos',
  });
});

test('no more prompts are with the runner than it holds tokens of, but one that is longer is alone', async () => {
  const runner = new Backwards();
  const prompts = Array.from({ length: 12 }, (_, i) => 'x'.repeat(i === 7 ? 30 : 10));
  const answers = await answersOf(runner, prompts, { maxOpenTokens: 29 });
  assert.equal(
    answers.map(({ text }) => text),
    prompts,
  );
  assert.is(runner.mostOpen, 2);
});

test('prompts are texts or ids; each has the seed after the one before', async () => {
  const runner = new ScriptedRunner();
  runner.script = [[97, EOS_ID]];
  await answersOf(runner, ['ab', [1, 2, 3]]);
  assert.equal(
    runner.requests.map(({ promptIds, sampling }) => [promptIds, sampling.seed]),
    [
      [[97, 98], 2n ** 64n - 1n],
      [[1, 2, 3], 0n],
    ],
  );
});

test('an answer ends by its token, a stop text or its length, and says which', async () => {
  const runner = new ScriptedRunner();
  runner.script = [[97, 98, 99, EOS_ID]];
  assert.equal(await answersOf(runner, ['x']), [
    { text: 'abc', token_ids: [97, 98, 99, EOS_ID], finish: 'eos' },
  ]);
  runner.script = [[97, 98, 99, EOS_ID]];
  assert.equal(await answersOf(runner, ['x'], { stop: ['bc'] }), [
    { text: 'a', token_ids: [97, 98, 99], finish: 'stop_sequence' },
  ]);
  assert.equal(await answersOf(runner, ['x'], { maxTokens: 2 }), [
    { text: 'ab', token_ids: [97, 98], finish: 'max_tokens' },
  ]);
  runner.script = [[97], [EOS_ID], [98]];
  assert.equal(await answersOf(runner, ['x'], { ignoreEos: true, maxTokens: 3 }), [
    { text: 'ab', token_ids: [97, EOS_ID, 98], finish: 'max_tokens' },
  ]);
});

test('a prompt that cannot be answered is named before any is sent', async () => {
  const runner = new ScriptedRunner();
  const cases: [Prompt, RegExp][] = [
    ['', /prompt 2 is empty for this model: it has no tokens/],
    [[], /prompt 2 is empty for this model: it has no tokens/],
    ['x'.repeat(512), /maximum context length is 512 tokens, .* but prompt 2 takes 512;/],
    [[1, 258], /prompt 2 has the token id 258, but the largest id is 257/],
  ];
  for (const [prompt, message] of cases) {
    assert.match((await errorOf(() => answersOf(runner, ['good', prompt]))).message, message);
  }
  assert.is(runner.requests.length, 0);
});

test('an answer has min tokens, or as many as the context has room for', async () => {
  const runner = new ScriptedRunner();
  runner.script = [[97, EOS_ID]];
  await answersOf(runner, ['a', 'x'.repeat(509)], { minTokens: 7 });
  assert.equal(
    runner.requests.map(({ minTokens, maxTokens }) => [minTokens, maxTokens]),
    [
      [7, 9],
      [3, 3],
    ],
  );
});

test('a prompt that fails cancels the others', async () => {
  const runner = new ScriptedRunner();
  runner.script = [new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: false })];
  const error = await errorOf(() => answersOf(runner, ['a', 'b', 'c']));
  assert.is(error.message, 'It broke.');
  assert.is(runner.cancelled, 3);
});

test.run();
