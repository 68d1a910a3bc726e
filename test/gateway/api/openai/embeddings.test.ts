import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { maxPromptsAtOnce } from '../../../../gateway/generation/readings.ts';
import { type ModelPooling, poolingOfType } from '../../../../gateway/models/model.ts';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import { ByteBudget } from '../../../../gateway/server/guard/bodies.ts';
import { testApp } from '../../../fixtures/app.ts';
import { byteModel, byteTokenizer, EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';
import { ScriptedRunner, scriptedInfo } from '../../../fixtures/scripted-runner.ts';

const test = suite('embeddings');
const PATH = '/v1/embeddings';

interface Answer {
  readonly object: string;
  readonly data: readonly { object: string; index: number; embedding: number[] | string }[];
  readonly model: string;
  readonly usage: object;
}

test('pooling is the server’s if set, otherwise the model file’s', async () => {
  const poolingWith = async (said: ModelPooling | undefined, pooling?: 'mean' | 'cls') => {
    const { post, runner } = testApp({ model: () => ({ ...byteModel, pooling: said }), pooling });
    const response = await post(PATH, { model: 'bytes', input: 'a' });
    if (response.status !== 200)
      return ((await response.json()) as { error: { message: string } }).error.message;
    return runner.requests[0]?.pooling;
  };
  assert.is(await poolingWith(poolingOfType(undefined)), 'last');
  assert.is(await poolingWith(poolingOfType(0)), 'last');
  assert.is(await poolingWith(poolingOfType(1)), 'mean');
  assert.is(await poolingWith(poolingOfType(2)), 'cls');
  assert.is(await poolingWith(poolingOfType(3)), 'last');
  assert.is(await poolingWith(poolingOfType(1), 'cls'), 'cls');
  assert.is(await poolingWith(poolingOfType(4), 'mean'), 'mean');
  assert.is(
    await poolingWith(poolingOfType(4)),
    "The model's file says pooling_type 4, which is not supported; choose another with --pooling: last, mean, cls.",
  );
});

test('where nothing says how vectors are made, an encoder has the mean, and a model that scores pairs makes none', async () => {
  const answerOf = async (
    architecture: string,
    scoresPairs: boolean,
    said?: ModelPooling,
    pooling?: 'cls',
  ) => {
    const model = { ...byteModel, architecture, pooling: said };
    const { post, runner } = testApp({ model: () => model, pooling });
    runner.current = { ...runner.current, info: { ...scriptedInfo, architecture, scoresPairs } };
    const response = await post(PATH, { model: 'bytes', input: 'a' });
    if (response.status === 200) return runner.requests[0]?.pooling;
    assert.is(response.status, 400);
    return ((await response.json()) as { error: { message: string } }).error.message;
  };
  assert.is(await answerOf('bert', false), 'mean');
  assert.is(await answerOf('nomic-bert', false), 'mean');
  assert.is(await answerOf('bert', false, 'cls'), 'cls');
  assert.is(
    await answerOf('bert', true),
    "The model's file has a classification head and names no pooling, which is not supported; choose another with --pooling: last, mean, cls.",
  );
  assert.is(await answerOf('bert', true, 'mean'), 'mean');
  assert.is(await answerOf('bert', true, undefined, 'cls'), 'cls');
});

test('the runner has a bounded number of texts of one request at once', async () => {
  const { post, runner } = testApp();
  runner.script = ['wait'];
  const controller = new AbortController();
  const { app } = testApp({ runner });
  const numTexts = maxPromptsAtOnce + 10;
  const body = JSON.stringify({ model: 'bytes', input: Array(numTexts).fill('a') });
  const headers = { 'content-type': 'application/json' };
  const asked = app.request(PATH, { method: 'POST', headers, body, signal: controller.signal });
  while (runner.requests.length < maxPromptsAtOnce) await new Promise(setImmediate);
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  assert.is(runner.requests.length, maxPromptsAtOnce);
  controller.abort();
  await asked;
  assert.is(runner.cancelled, maxPromptsAtOnce);
  runner.script = [];
  const { data } = (await (
    await post(PATH, { model: 'bytes', input: Array(numTexts).fill('a') })
  ).json()) as Answer;
  assert.is(data.length, numTexts);
});

test('a queue that is full refuses the first text, and holds back the others', async () => {
  const full = new GenerationError('QUEUE_FULL', 'full', { retriable: true, retryAfterSec: 1 });
  class BoundedRunner extends ScriptedRunner {
    numOpen = 0;
    readonly limit: number;
    constructor(limit: number) {
      super();
      this.limit = limit;
    }
    override generate(...[request, sink]: Parameters<ScriptedRunner['generate']>) {
      if (this.numOpen === this.limit) throw full;
      this.numOpen += 1;
      return super.generate(request, {
        ...sink,
        onTokens: (batch) => {
          this.numOpen -= 1;
          sink.onTokens(batch);
        },
      });
    }
  }
  const busy = testApp({ runner: new BoundedRunner(0) });
  assert.is((await busy.post(PATH, { model: 'bytes', input: ['a', 'b'] })).status, 429);
  const { post } = testApp({ runner: new BoundedRunner(2) });
  const response = await post(PATH, { model: 'bytes', input: ['a', 'b', 'c', 'd', 'e'] });
  assert.is(((await response.json()) as Answer).data.length, 5);
});

test('the failure of one text ends the request and takes back the others', async () => {
  const { post, runner } = testApp();
  const failed = new GenerationError('INFERENCE_FAILED', 'not finite', { retriable: false });
  runner.scriptOf = ({ promptIds }) => (promptIds[0] === 98 ? [failed] : ['wait']);
  const response = await post(PATH, { model: 'bytes', input: ['a', 'b', 'c'] });
  assert.is(response.status, 500);
  assert.is(runner.cancelled, 3);
});

test('the refusal of one text takes back those before it', async () => {
  const refused = new GenerationError('INVALID_REQUEST', 'no', { retriable: false });
  class PickyRunner extends ScriptedRunner {
    override generate(...[request, sink]: Parameters<ScriptedRunner['generate']>) {
      if (request.promptIds[0] === 99) throw refused;
      return super.generate(request, sink);
    }
  }
  const runner = new PickyRunner();
  runner.script = ['wait'];
  const { post } = testApp({ runner });
  assert.is((await post(PATH, { model: 'bytes', input: ['a', 'b', 'c', 'd'] })).status, 400);
  assert.equal([runner.requests.length, runner.cancelled], [2, 2]);
});

test('vectors that there is no room for are refused before they are made', async () => {
  const { post, runner } = testApp({ maxAnswerBytesInFlight: 2 ** 14 + 32 });
  assert.is((await post(PATH, { model: 'bytes', input: ['a', 'b'] })).status, 200);
  const response = await post(PATH, { model: 'bytes', input: ['a', 'b', 'c'] });
  assert.is(response.status, 400);
  assert.match(
    ((await response.json()) as { error: { message: string } }).error.message,
    /3 vectors of 4 values take \d+ bytes, and this server holds at most \d+ for answers; send fewer texts/,
  );
  assert.is(runner.requests.length, 2);
});

test('vectors keep their room from when they are made until they are sent', async () => {
  const input = Array<string>(500).fill('a');
  const { post } = testApp({ maxAnswerBytesInFlight: 2 ** 14 + 16 * input.length });
  const { release } = ByteBudget.prototype;
  // Another request takes the room as soon as it can.
  ByteBudget.prototype.release = function (caller, bytes) {
    release.call(this, caller, bytes);
    queueMicrotask(() => {
      try {
        this.hold(caller, bytes);
      } catch {}
    });
  };
  try {
    const response = await post(PATH, { model: 'bytes', input });
    assert.is(response.status, 200, 'the room was still there');
    assert.is(((await response.json()) as Answer).data.length, input.length);
  } finally {
    ByteBudget.prototype.release = release;
  }
});

test('a truncated text keeps the special tokens around it', async () => {
  for (const [front, behind] of [
    [[], []],
    [[], [EOS_ID]],
    [[TURN_ID], []],
    [[TURN_ID], [EOS_ID, EOS_ID]],
  ]) {
    const around = (text: string) => [...(front ?? []), ...Buffer.from(text), ...(behind ?? [])];
    const tokenizer = {
      ...byteTokenizer,
      encodeTexts: async (texts: readonly string[]) => texts.map(around),
    };
    const { post, runner } = testApp({ model: () => ({ ...byteModel, tokenizer }) });
    const idsOf = async (path: string, more: object): Promise<readonly number[]> => {
      const response = await post(path, { model: 'bytes', input: 'abcdefgh'.repeat(75), ...more });
      if (response.status === 200) return runner.requests.at(-1)?.promptIds ?? [];
      assert.match(await response.text(), 'context_length_exceeded');
      return [];
    };
    const ids = await idsOf('/api/embed', {});
    const text = 'abcdefgh'.repeat(75).slice(0, 512 - around('').length);
    assert.equal(ids, around(text));
    assert.is(ids.length, 512);
    const fewest = around('').length + 1;
    assert.equal(await idsOf('/v1/embeddings', { truncate_prompt_tokens: fewest }), around('a'));
    assert.equal(await idsOf('/api/embed', { options: { num_ctx: fewest } }), around('a'));
    if (fewest > 1)
      assert.equal(await idsOf('/v1/embeddings', { truncate_prompt_tokens: fewest - 1 }), [], 'no text fits');
  }
});

test.run();
