import { Ollama } from 'ollama';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';

const test = suite('the official Ollama client');

const gateway = await Gateway.during(test, DEFAULT_MODEL, ['--served-model-name', 'smollm2']);
const client = new Ollama({ host: gateway.url });

const options = { temperature: 0, num_predict: 24 };
const prompt = 'What is the capital of France?';
const messages = [{ role: 'user', content: prompt }];
const chat = { model: 'smollm2:latest', messages, options };

test('chats, whole and streamed alike', async () => {
  const whole = await client.chat(chat);
  assert.match(whole.message.content, 'Paris');
  assert.is(whole.model, 'smollm2:latest');
  let text = '';
  let last: typeof whole | undefined;
  for await (const part of await client.chat({ ...chat, stream: true })) {
    text += part.message.content;
    last = part;
  }
  assert.is(text, whole.message.content);
  assert.equal([last?.done, last?.done_reason], [true, whole.done_reason]);
  assert.is(last?.eval_count, whole.eval_count);
  assert.is(last?.prompt_eval_count, whole.prompt_eval_count);
  assert.ok(whole.prompt_eval_duration > 0 && whole.eval_duration > 0);
  assert.ok(whole.total_duration >= whole.eval_duration);
});

test('generates from a prompt, which is the chat of one message', async () => {
  const { response } = await client.generate({ model: 'smollm2', prompt, options, keep_alive: '5m' });
  assert.is(response, (await client.chat(chat)).message.content);
  const raw = { model: 'smollm2', prompt: 'The capital of France is', raw: true, options };
  assert.match((await client.generate(raw)).response ?? '', 'Paris');
  const stopped = await client.generate({ ...raw, options: { ...options, stop: ['Paris'] } });
  assert.is(stopped.done_reason, 'stop');
  assert.not.match(stopped.response ?? '', 'Paris');
});

test('answers in a format: any JSON object, or what a schema describes, whole and streamed alike', async () => {
  const format = {
    type: 'object',
    properties: {
      capital: { type: 'string', maxLength: 12 },
      rank: { type: 'integer', minimum: 1, maximum: 9 },
    },
    required: ['capital', 'rank'],
  };
  const asked = { ...chat, format, options: { temperature: 0, num_predict: 100 } };
  const whole = await client.chat(asked);
  const { capital, rank } = JSON.parse(whole.message.content) as { capital: string; rank: number };
  assert.ok(capital.length <= 12 && rank >= 1 && rank <= 9, whole.message.content);
  let text = '';
  for await (const part of await client.chat({ ...asked, stream: true })) text += part.message.content;
  assert.is(text, whole.message.content);
  const { response } = await client.generate({ model: 'smollm2', prompt, format, options: asked.options });
  assert.is(response, text, 'a prompt is the chat of one message');
  const plain = {
    model: 'smollm2',
    prompt: 'Paris as JSON: ',
    raw: true,
    format: 'json',
    options: asked.options,
  };
  const { response: any = '', done_reason } = await client.generate(plain);
  assert.match(any, /^\{/);
  if (done_reason === 'stop') assert.type(JSON.parse(any), 'object');
});

test('finds the model, and what there is to know of it', async () => {
  const { models } = await client.list();
  assert.equal(
    models.map(({ name }) => name),
    ['smollm2:latest'],
  );
  assert.is(models[0]?.details.family, 'llama');
  assert.equal((await client.show({ model: 'smollm2' })).capabilities, ['completion', 'tools']);
  const [running] = (await client.ps()).models;
  assert.ok(running !== undefined && running.size > 0);
  assert.match((await client.version()).version, /^\d/);
  assert.equal(await client.pull({ model: 'smollm2' }), { status: 'success' });
});

test('raises errors with their sentence', async () => {
  const failed = async (promise: Promise<unknown>): Promise<[number | undefined, string]> => {
    const error: unknown = await promise.then(
      () => 'it should have failed',
      (thrown: unknown) => thrown,
    );
    return [(error as { status_code?: number }).status_code, String(error)];
  };
  for (const [ask, status, sentence] of [
    [() => client.chat({ ...chat, model: 'llama3.2' }), 404, 'Model "llama3.2" not found; available: '],
    [() => client.chat({ ...chat, format: 'yaml' }), 400, 'format must be "json", or a JSON Schema'],
    [() => client.chat({ ...chat, options: { temperature: 9 } }), 400, 'temperature must be at most 2.0'],
    [
      () => client.embed({ model: 'smollm2', input: 'x', dimensions: 577 }),
      400,
      'dimensions must be at most 576',
    ],
    [() => client.pull({ model: 'llama3.2' }), 404, 'runnel pull NAME'],
  ] as const) {
    const [code, message] = await failed(ask());
    assert.is(code, status, message);
    assert.match(message, sentence);
  }
});

test('a chat and a text go on where they were when the runner is killed within their stream', async () => {
  const ofChat = async (onText: () => Promise<void>): Promise<string> => {
    let text = '';
    for await (const { message } of await client.chat({ ...chat, stream: true })) {
      text += message.content;
      if (message.content !== '') await onText();
    }
    return text;
  };
  const ofPrompt = async (onText: () => Promise<void>): Promise<string> => {
    let text = '';
    for await (const part of await client.generate({ model: 'smollm2', prompt, options, stream: true })) {
      text += part.response;
      if (part.response !== '') await onText();
    }
    return text;
  };
  for (const read of [ofChat, ofPrompt]) {
    const undisturbed = await read(async () => {});
    let isKilled = false;
    const text = await read(async () => {
      if (isKilled) return;
      isKilled = true;
      await gateway.killRunner();
    });
    assert.is(text, undisturbed);
    await gateway.restarts();
  }
});

test('ends the work of a stream that it aborts', async () => {
  const stream = await client.chat({ ...chat, options: { num_predict: 1500 }, stream: true });
  const error = await (async () => {
    for await (const _ of stream) stream.abort();
  })().catch((thrown: unknown) => thrown);
  assert.match(String(error), 'AbortError');
  await gateway.idle();
});

test.run();
