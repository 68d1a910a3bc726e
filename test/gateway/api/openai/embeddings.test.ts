import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { maxTextsAtOnce } from '../../../../gateway/generation/embeddings.ts';
import { type ModelPooling, poolingOfType } from '../../../../gateway/models/model-pooling.ts';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import { ByteBudget } from '../../../../gateway/server/guard/byte-budget.ts';
import { testApp } from '../../../fixtures/app.ts';
import { byteModel, byteTokenizer, EOS_ID } from '../../../fixtures/byte-model.ts';
import { ScriptedRunner, scriptedInfo } from '../../../fixtures/scripted-runner.ts';

const test = suite('embeddings');
const PATH = '/v1/embeddings';

interface Answer {
  readonly object: string;
  readonly data: readonly { object: string; index: number; embedding: number[] | string }[];
  readonly model: string;
  readonly usage: object;
}

test('a text has a vector of a length of 1, and its tokens are counted', async () => {
  const { post, runner } = testApp();
  const response = await post(PATH, { model: 'bytes', input: '\u0003\u0004' });
  assert.is(response.status, 200);
  assert.is(response.headers.get('content-type'), 'application/json');
  assert.equal(await response.json(), {
    object: 'list',
    data: [{ object: 'embedding', index: 0, embedding: [0.6, 0.8, 0, 0].map(single) }],
    model: 'bytes',
    usage: { prompt_tokens: 2, total_tokens: 2 },
  });
  assert.equal(runner.requests[0]?.promptIds, [3, 4]);
  assert.is(runner.requests[0]?.pooling, 'last');
  assert.is(runner.requests[0]?.api, 'openai');
});

test('texts and lists of ids are taken, in order, and each number can be read as it was', async () => {
  for (const input of [
    ['a', 'bc'],
    [[97], [98, 99]],
  ]) {
    const { post, runner } = testApp();
    runner.vectorOf = ({ promptIds }) => [0.1, promptIds.length / 3, 1e-20, -7];
    const { data, usage } = (await (await post(PATH, { model: 'bytes', input })).json()) as Answer;
    assert.equal(
      data.map(({ index }) => index),
      [0, 1],
    );
    assert.equal(usage, { prompt_tokens: 3, total_tokens: 3 });
    const encoded = await post(PATH, { model: 'bytes', input, encoding_format: 'base64' });
    const packed = ((await encoded.json()) as Answer).data.map(({ embedding }) =>
      fromBase64(String(embedding)),
    );
    assert.equal(
      packed.map((vector) => [...vector]),
      data.map(({ embedding }) => [...Float32Array.from(embedding as number[])]),
    );
    assert.is(packed[0]?.length, 4);
  }
  const { post } = testApp();
  const { data } = (await (await post(PATH, { model: 'bytes', input: [3, 4] })).json()) as Answer;
  assert.is(data.length, 1);
});

test('dimensions takes the first values and scales them anew', async () => {
  const { post } = testApp();
  const ask = async (dimensions: number) => {
    const response = await post(PATH, { model: 'bytes', input: [3, 4, 12, 84], dimensions });
    return { status: response.status, body: (await response.json()) as Answer & { error: object } };
  };
  assert.equal((await ask(2)).body.data[0]?.embedding, [0.6, 0.8].map(single));
  assert.equal((await ask(1)).body.data[0]?.embedding, [1]);
  const { status, body } = await ask(5);
  assert.is(status, 400);
  assert.equal(body.error, {
    message: "dimensions must be at most 4, the values of this model's vectors (got 5)",
    type: 'invalid_request_error',
    param: 'dimensions',
    code: 'invalid_request',
  });
});

test('a text that is too long, or nothing, is named by its place', async () => {
  const { post } = testApp();
  const error = async (body: object) => {
    const response = await post(PATH, { model: 'bytes', ...body });
    assert.is(response.status, 400);
    return ((await response.json()) as { error: { message: string; param: string; code: string } }).error;
  };
  const tooLong = await error({ input: ['a', 'b'.repeat(513)] });
  assert.is(tooLong.param, 'input.1');
  assert.is(tooLong.code, 'context_length_exceeded');
  assert.is(
    tooLong.message,
    "This model's maximum context length is 512 tokens, but input.1 takes 513; send less (context_length_exceeded)",
  );
  assert.match(
    (await error({ input: ['a', ''] })).message,
    /input\.1 is empty for this model: it has no tokens/,
  );
  assert.match((await error({ input: '' })).message, /input is empty for this model: it has no tokens/);
  assert.match((await error({ input: [1, 999] })).message, /input\.1 is token 999/);
  assert.match((await error({ input: { a: 1 } })).message, /input must be a string, a list of strings/);
  assert.match((await error({ input: 'a', encoding_format: 'int8' })).message, /encoding_format/);
  assert.match((await error({ input: Array(2049).fill('a') })).message, /at most 2048 texts \(got 2049\)/);
  assert.match((await error({})).message, /input is required/);
  assert.match((await error({ input: 'a', modality: 'text' })).message, /modality/);
});

test('a text may fill the context', async () => {
  const { post } = testApp();
  assert.is((await post(PATH, { model: 'bytes', input: 'a'.repeat(512) })).status, 200);
});

test('user is ignored and reported, and fields that change the vector are refused', async () => {
  const { post } = testApp();
  const taken = await post(PATH, { model: 'bytes', input: 'a', user: 'u', normalize: true });
  assert.is(taken.status, 200);
  assert.is(taken.headers.get('x-runnel-ignored'), 'user');
  const refused = await post(PATH, { model: 'bytes', input: 'a', normalize: false });
  assert.is(refused.status, 400);
  assert.match(((await refused.json()) as { error: { message: string } }).error.message, /normalize/);
});

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

test('the runner has a bounded number of texts of one request at once', async () => {
  const { post, runner } = testApp();
  runner.script = ['wait'];
  const controller = new AbortController();
  const { app } = testApp({ runner });
  const numTexts = maxTextsAtOnce + 10;
  const body = JSON.stringify({ model: 'bytes', input: Array(numTexts).fill('a') });
  const headers = { 'content-type': 'application/json' };
  const asked = app.request(PATH, { method: 'POST', headers, body, signal: controller.signal });
  while (runner.requests.length < maxTextsAtOnce) await new Promise(setImmediate);
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  assert.is(runner.requests.length, maxTextsAtOnce);
  controller.abort();
  await asked;
  assert.is(runner.cancelled, maxTextsAtOnce);
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
  ByteBudget.prototype.release = function (bytes) {
    release.call(this, bytes);
    queueMicrotask(() => {
      try {
        this.hold(bytes);
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

test('a runner without embeddings is a 501', async () => {
  const runner = new ScriptedRunner();
  runner.current = { ...runner.current, info: { ...scriptedInfo, embeddingSize: 0 } };
  const { post } = testApp({ runner });
  assert.is((await post(PATH, { model: 'bytes', input: 'a' })).status, 501);
});

test('a vector without a length stays as it is', async () => {
  const { post, runner } = testApp();
  runner.vectorOf = () => [0, 0, 0, 0];
  const { data } = (await (await post(PATH, { model: 'bytes', input: 'a' })).json()) as Answer;
  assert.equal(data[0]?.embedding, [0, 0, 0, 0]);
});

test('a truncated text keeps the special tokens that the model appends', async () => {
  const tokenizer = {
    ...byteTokenizer,
    encodeTexts: async (texts: readonly string[]) => texts.map((text) => [...Buffer.from(text), EOS_ID]),
  };
  const { post, runner } = testApp({ model: () => ({ ...byteModel, tokenizer }) });
  const response = await post('/api/embed', { model: 'bytes', input: 'a'.repeat(600) });
  assert.is(response.status, 200);
  const { promptIds = [] } = runner.requests[0] ?? {};
  assert.is(promptIds.length, 512);
  assert.is(promptIds.at(-1), EOS_ID);
  assert.is(promptIds.at(-2), 97);
});

/** A single-precision value as an answer writes it, in nine digits. */
function single(value: number): number {
  return Number(Math.fround(value).toPrecision(9));
}

function fromBase64(text: string): Float32Array {
  const bytes = new Uint8Array(Buffer.from(text, 'base64'));
  return new Float32Array(bytes.buffer);
}

test.run();
