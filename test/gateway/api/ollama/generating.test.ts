import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import { type TestApp, testApp } from '../../../fixtures/app.ts';
import { byteModel, EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';

interface Context extends TestApp {
  chat: (body: object) => Promise<Response>;
  generate: (body: object) => Promise<Response>;
}

const test = suite<Context>('Ollama’s chat and generate');

const messages = [{ role: 'user', content: 'Hi' }];
const bytes = (text: string): number[] => [...Buffer.from(text)];
const created = '"model":"bytes","created_at":"2027-01-15T08:00:00.000Z"';

test.before.each((context) => {
  let nowMs = 0;
  const monotonicNow = (): number => (nowMs += 10);
  Object.assign(context, testApp({ now: () => 1_800_000_000_000, monotonicNow }));
  context.chat = async (body) => context.post('/api/chat', { model: 'bytes', messages, ...body });
  context.generate = async (body) => context.post('/api/generate', { model: 'bytes', prompt: 'Hi', ...body });
});

/** Checks the last line. Of its times only what the scripted clock fixes is checked. */
function isDone(line: string, middle: string, reason: string, counts: string): void {
  const [duration = '', load = '', evaluated = ''] =
    /"total_duration":(\d+),"load_duration":(\d+).*"eval_duration":(\d+)/.exec(line)?.slice(1) ?? [];
  for (const ns of [duration, load, evaluated]) assert.is(Number(ns) % 10_000_000, 0);
  assert.ok(Number(duration) >= Number(load) + Number(evaluated));
  const [prompt, answer] = counts.split('/');
  assert.is(
    line,
    `{${created},${middle},"done":true,"done_reason":"${reason}","total_duration":${duration},"load_duration":${load},` +
      `"prompt_eval_count":${prompt},"prompt_eval_duration":2000000,"eval_count":${answer},"eval_duration":${evaluated}}`,
  );
}

test('a chat is a stream of lines, the last one with what was counted', async ({ runner, chat }) => {
  runner.script = [bytes('He'), bytes('y "you"'), [EOS_ID]];
  const response = await chat({});
  assert.is(response.headers.get('content-type'), 'application/x-ndjson');
  const lines = (await response.text()).split('\n');
  assert.is(lines.pop(), '', 'each line is ended');
  isDone(lines.pop() ?? '', '"message":{"role":"assistant","content":""}', 'stop', '9/10');
  assert.equal(lines, [
    `{${created},"message":{"role":"assistant","content":"He"},"done":false}`,
    `{${created},"message":{"role":"assistant","content":"y \\"you\\""},"done":false}`,
  ]);
  assert.equal(runner.requests[0]?.promptIds, [TURN_ID, ...bytes('user: Hi')]);
});

test('generate is a stream of lines too, and both are whole where no stream is wanted', async ({
  runner,
  chat,
  generate,
}) => {
  runner.script = [bytes('Hello')];
  const options = { num_predict: 5 };
  const lines = (await (await generate({ options })).text()).trimEnd().split('\n');
  isDone(lines.pop() ?? '', '"response":""', 'length', '9/5');
  assert.equal(lines, [`{${created},"response":"Hello","done":false}`]);
  isDone(await (await generate({ options, stream: false })).text(), '"response":"Hello"', 'length', '9/5');
  isDone(
    await (await chat({ options, stream: false })).text(),
    '"message":{"role":"assistant","content":"Hello"}',
    'length',
    '9/5',
  );
});

test('options reach the runner, and are Ollama’s own where none are sent', async ({ runner, chat }) => {
  runner.script = [[EOS_ID]];
  const { status } = await chat({});
  assert.is(status, 200);
  const [first] = runner.requests;
  assert.ok(first);
  const { seed, ...plain } = first.sampling;
  assert.ok(seed >= 0n);
  const filters = { logitBias: new Map(), allowedTokenIds: [], bannedTokenIds: [] };
  const penalties = { repetitionPenalty: 1, presencePenalty: 0, frequencyPenalty: 0 };
  assert.equal(plain, { temperature: 0.8, topK: 40, topP: 0.9, minP: 0, ...penalties, ...filters });
  assert.is(first.maxTokens, 512 - 9);
  const options = {
    temperature: 0,
    top_k: 7,
    top_p: 0.5,
    min_p: 0.25,
    repeat_penalty: 1.5,
    presence_penalty: 1,
    frequency_penalty: -1,
    seed: 42,
    num_ctx: 100,
    num_predict: -1,
    stop: 'END',
    num_gpu: 99,
    repeat_last_n: -1,
  };
  const response = await chat({ options, keep_alive: '5m', think: false, format: '' });
  assert.is(response.status, 200);
  assert.is(response.headers.get('x-runnel-ignored'), 'keep_alive, options.num_gpu');
  const second = runner.requests[1];
  assert.ok(second);
  const { sampling, maxTokens } = second;
  assert.equal(sampling, {
    temperature: 0,
    topK: 7,
    topP: 0.5,
    minP: 0.25,
    repetitionPenalty: 1.5,
    presencePenalty: 1,
    frequencyPenalty: -1,
    ...filters,
    seed: 42n,
  });
  assert.is(maxTokens, 100 - 9);
});

test('a format is all that an answer may be, of chats and prompts, plain ones too', async ({
  runner,
  chat,
  generate,
}) => {
  const schema = {
    type: 'object',
    properties: { city: { enum: ['Rome', null] }, more: { type: 'object' } },
    required: ['city'],
  };
  const sent = {
    ...schema,
    properties: { ...schema.properties, more: { additionalProperties: true, type: 'object' } },
  };
  for (const ask of [chat, generate, (body: object) => generate({ raw: true, ...body })]) {
    for (const [format, kind, source] of [
      ['json', 'json_object', ''],
      [schema, 'json_schema', JSON.stringify(sent)],
      [{ enum: [1, null] }, 'json_schema', '{"enum":[1,null]}'],
    ] as const) {
      runner.script = [bytes('{"city":null}'), [EOS_ID]];
      const response = await ask({ format, stream: false });
      const text = await response.text();
      assert.is(response.status, 200, text);
      assert.match(text, '{\\"city\\":null}');
      const { grammar, vocabulary } = runner.requests.at(-1) ?? {};
      assert.equal([grammar?.kind, grammar?.source], [kind, source]);
      assert.ok(vocabulary !== undefined);
    }
  }
  for (const nothing of ['', null]) {
    runner.script = [[EOS_ID]];
    assert.is((await chat({ format: nothing })).status, 200);
    assert.is(runner.requests.at(-1)?.grammar, undefined);
  }
});

test('a stop string ends an answer and is no part of it', async ({ runner, generate }) => {
  runner.script = [bytes('so far EN'), bytes('D.'), 'wait'];
  const body = { stream: false, options: { stop: ['END'] } };
  const { response, done_reason } = (await (await generate(body)).json()) as Record<string, unknown>;
  assert.equal([response, done_reason], ['so far ', 'stop']);
});

test('a prompt becomes a message after the system message, or stays raw', async ({ runner, generate }) => {
  runner.script = [[EOS_ID]];
  await (await generate({ system: 'Be brief.' })).text();
  await (await generate({ raw: true })).text();
  const turns = ['system: Be brief.', 'user: Hi'].flatMap((turn) => [TURN_ID, ...bytes(turn)]);
  assert.equal(
    runner.requests.map(({ promptIds }) => promptIds),
    [turns, bytes('Hi')],
  );
  assert.match(await (await generate({ raw: true, system: 'x' })).text(), 'system cannot be used with raw');
});

test('a model without a template reads a prompt as it is', async () => {
  const { runner, post } = testApp({ model: () => ({ ...byteModel, chatTemplate: undefined }) });
  runner.script = [[EOS_ID]];
  assert.is((await post('/api/generate', { model: 'bytes', prompt: 'Hi' })).status, 200);
  assert.equal(runner.requests[0]?.promptIds, bytes('Hi'));
  assert.is((await post('/api/chat', { model: 'bytes', messages })).status, 400);
});

test('an empty request reports the model as loaded; keep_alive 0 is refused', async ({ runner, post }) => {
  const chat = await post('/api/chat', { model: 'bytes' });
  const message = '"message":{"role":"assistant","content":""}';
  assert.is(await chat.text(), `{${created},${message},"done":true,"done_reason":"load"}`);
  const generate = await post('/api/generate', { model: 'bytes:latest' });
  assert.match(await generate.text(), '"response":"","done":true,"done_reason":"load"');
  for (const keep_alive of [0, '0', '0s']) {
    const response = await post('/api/generate', { model: 'bytes', keep_alive });
    assert.is(response.status, 400);
    assert.match(await response.text(), 'keep_alive is 0');
  }
  assert.is(runner.requests.length, 0);
});

test('a failure in a stream is a line with an error, and the last one', async ({ runner, chat }) => {
  runner.script = [bytes('a'), new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: true })];
  const lines = (await (await chat({})).text()).trimEnd().split('\n');
  assert.is(lines.length, 2);
  assert.is(lines[1], '{"error":"It broke."}');
});

test('unsupported parameters are refused by name, in the shape of Ollama’s errors', async ({
  runner,
  chat,
  generate,
}) => {
  const refused: readonly (readonly [(body: object) => Promise<Response>, object, string])[] = [
    [chat, { tools: [{ type: 'function' }] }, 'tools'],
    [chat, { format: 'yaml' }, 'format must be "json"'],
    [generate, { format: ['json'] }, 'format must be "json"'],
    [chat, { think: true }, 'think'],
    [chat, { logprobs: true }, 'logprobs'],
    [chat, { messages: [{ role: 'user', content: 'x', images: ['aGk='] }] }, 'messages.0.images'],
    [chat, { messages: [{ role: 'tool', content: 'x' }] }, 'messages.0.role'],
    [
      chat,
      { messages: [...messages, { role: 'assistant', content: 'The' }] },
      'the last message must not have the role',
    ],
    [generate, { context: [1, 2] }, 'context'],
    [generate, { suffix: 'x' }, 'suffix'],
    [generate, { template: '{{ .Prompt }}' }, 'template'],
    [generate, { images: ['aGk='] }, 'images'],
    [generate, { options: { temperature: 3 } }, 'temperature'],
    [generate, { options: { mirostat: 1 } }, 'options.mirostat'],
    [generate, { options: { num_predict: 0 } }, 'num_predict'],
    [generate, { options: { colour: 'red' } }, 'options.colour'],
    [generate, { options: { num_ctx: 5 } }, 'maximum context length is 5 tokens'],
    [generate, { prompt: 'x'.repeat(4000) }, 'but prompt takes at least 667'],
    [generate, { colour: 'red' }, 'colour'],
  ];
  for (const [ask, body, name] of refused) {
    const response = await ask(body);
    assert.is(response.status, 400, name);
    const { error, ...rest } = (await response.json()) as { error: string };
    assert.equal(rest, {}, name);
    assert.match(error, name);
  }
  assert.is(runner.requests.length, 0);
});

test('a full queue is a 503, and an unknown model a 404', async ({ runner, chat }) => {
  const unknown = await chat({ model: 'llama3.2' });
  assert.is(unknown.status, 404);
  assert.match(await unknown.text(), 'Model \\"llama3.2\\" not found; available: \\"bytes\\"');
  runner.refuse = new GenerationError('QUEUE_FULL', 'Full.', { retriable: true, retryAfterSec: 1 });
  const full = await chat({});
  assert.is(full.status, 503);
  assert.equal(await full.json(), { error: 'Full.' });
});

test('a body is read whatever its declared media type', async ({ runner, app }) => {
  runner.script = [[EOS_ID]];
  const body = JSON.stringify({ model: 'bytes', prompt: 'Hi' });
  for (const type of ['application/x-www-form-urlencoded', 'text/plain;charset=UTF-8']) {
    const headers = { 'content-type': type };
    const response = await app.request('/api/generate', { method: 'POST', body, headers });
    assert.is(response.status, 200, type);
    await response.text();
  }
});

test.run();
