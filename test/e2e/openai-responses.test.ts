import OpenAI, { type APIError, APIUserAbortError, BadRequestError, NotFoundError } from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as z from 'zod';
import { GenerationError } from '../../gateway/runner/runner.ts';
import { testApp } from '../fixtures/app.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { errorOf } from '../fixtures/errors.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

const test = suite('the official openai client’s responses');

const gateway = await Gateway.during(test, DEFAULT_MODEL, ['--served-model-name', 'smollm2']);
const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none', maxRetries: 0 });

const request = {
  model: 'smollm2',
  input: 'What is the capital of France?',
  temperature: 0,
  max_output_tokens: 24,
};

test('gets a response, whole and streamed alike', async () => {
  const whole = await client.responses.create({ ...request, instructions: 'You are a helpful assistant.' });
  assert.match(whole.output_text, 'Paris');
  assert.equal([whole.error, whole.instructions], [null, 'You are a helpful assistant.']);
  const usage = whole.usage;
  assert.ok(usage && usage.total_tokens === usage.input_tokens + usage.output_tokens);

  let text = '';
  let last: OpenAI.Responses.ResponseStreamEvent | undefined;
  for await (const event of await client.responses.create({
    ...request,
    instructions: 'You are a helpful assistant.',
    stream: true,
  })) {
    if (event.type === 'response.output_text.delta') text += event.delta;
    last = event;
  }
  assert.is(text, whole.output_text);
  assert.is(last?.type, `response.${whole.status}`);

  const stream = client.responses.stream({ ...request, instructions: 'You are a helpful assistant.' });
  const final = await stream.finalResponse();
  assert.is(final.output_text, text);
  assert.is(final.usage?.output_tokens, usage.output_tokens);
});

test('continues a conversation with its output items', async () => {
  const first = await client.responses.create(request);
  const { output_text, status } = await client.responses.create({
    ...request,
    input: [
      { role: 'user', content: request.input },
      ...(first.output as OpenAI.Responses.ResponseOutputMessage[]),
      { role: 'user', content: [{ type: 'input_text', text: 'Say the name of that city again.' }] },
    ],
    store: false,
    truncation: 'disabled',
    metadata: { of: 'a test' },
  });
  assert.match(output_text, 'Paris');
  assert.ok(status === 'completed' || status === 'incomplete');
});

test('continues a conversation of three turns by previous responses, as if it sent all items, through kills of gateway and runner', async () => {
  const env = { XDG_STATE_HOME: temporaryFolder().path };
  const start = async () => {
    const args = ['--port', '0', '--served-model-name', 'smollm2'];
    const started = await (await Gateway.startOn(DEFAULT_MODEL, args, { env })).ready();
    const to = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
    return { started, to };
  };
  const turns = ['What is the capital of France?', 'Say the name of that city again.', 'And of Italy?'];
  const asked = { model: 'smollm2', temperature: 0 };
  let { started, to } = await start();
  const all: OpenAI.Responses.ResponseInput = [];
  const texts: string[] = [];
  let previous: OpenAI.Responses.Response | undefined;
  for (const [turn, content] of turns.entries()) {
    const previous_response_id = previous?.id ?? null;
    const stream = to.responses.stream({
      ...asked,
      input: content,
      previous_response_id,
      max_output_tokens: 200,
    });
    const continued = await stream.finalResponse();
    assert.is(continued.status, 'completed');
    // The answer is whole, so nothing that dies now can take it back.
    if (turn === 0) await started.killRunner();
    if (turn === 1) {
      await started.stop('SIGKILL');
      ({ started, to } = await start());
    }
    all.push({ role: 'user', content });
    const sent = await to.responses.create({ ...asked, input: all, store: false, max_output_tokens: 200 });
    assert.equal(
      [continued.output_text, continued.usage?.input_tokens],
      [sent.output_text, sent.usage?.input_tokens],
    );
    const listed: unknown[] = [];
    const items = await to.responses.inputItems.list(continued.id, { order: 'asc', limit: 2 });
    for await (const item of items)
      listed.push((item as { content?: { text?: string }[] }).content?.[0]?.text);
    texts.push(content);
    assert.equal(listed, texts);
    texts.push(continued.output_text);
    all.push(...(continued.output as OpenAI.Responses.ResponseOutputMessage[]));
    previous = continued;
  }
  const { id = '' } = previous ?? {};
  assert.is((await to.responses.retrieve(id)).output_text, previous?.output_text);
  await to.responses.delete(id);
  const lost = await errorOf(() => to.responses.create({ ...asked, input: 'So?', previous_response_id: id }));
  assert.instance(lost, BadRequestError);
  assert.is((lost as APIError).code, 'previous_response_not_found');
  await started.stop();
});

const City = z.object({ name: z.string(), isCapital: z.boolean() });

test('parses an answer of a form that it gives', async () => {
  const text = { format: zodTextFormat(City, 'city') };
  const asked = { ...request, max_output_tokens: 60, text };
  const whole = await client.responses.parse(asked);
  assert.is(whole.status, 'completed');
  assert.equal(City.parse(whole.output_parsed), whole.output_parsed);
  const streamed = await client.responses.stream(asked).finalResponse();
  assert.equal(streamed.output_parsed, whole.output_parsed);
});

test('gets log-probabilities with the text', async () => {
  const asked = {
    ...request,
    max_output_tokens: 6,
    include: ['message.output_text.logprobs' as const],
    top_logprobs: 2,
  };
  const { output, output_text } = await client.responses.create(asked);
  const [message] = output;
  const [part] = message?.type === 'message' ? message.content : [];
  const logprobs = part?.type === 'output_text' ? (part.logprobs ?? []) : [];
  assert.is(Buffer.from(logprobs.flatMap(({ bytes }) => bytes)).toString(), output_text);
  assert.ok(logprobs.every(({ logprob, top_logprobs }) => logprob <= 0 && top_logprobs.length === 2));
});

test('has the same text from a runner that is killed within a stream', async () => {
  const long = { ...request, input: 'Tell me a story about a fox.', max_output_tokens: 120 };
  const expected = (await client.responses.create(long)).output_text;
  assert.ok(expected.length > 100);
  const stream = client.responses.stream(long);
  let numDeltas = 0;
  let killed: Promise<number> | undefined;
  stream.on('response.output_text.delta', () => {
    if (++numDeltas === 10) killed = gateway.killRunner();
  });
  const { output_text } = await stream.finalResponse();
  assert.ok(killed, 'the stream was long enough to be killed in');
  await killed;
  assert.is(output_text, expected);
  assert.is(await gateway.restarts(), 1);
});

test('raises errors it can parse', async () => {
  const hot = await errorOf(() => client.responses.create({ ...request, temperature: 9 }));
  assert.instance(hot, BadRequestError);
  assert.equal([(hot as APIError).param, (hot as APIError).code], ['temperature', 'invalid_request']);
  assert.instance(
    await errorOf(() => client.responses.create({ ...request, model: 'gpt-x' })),
    NotFoundError,
  );
  const kept = await errorOf(() => client.responses.create({ ...request, previous_response_id: 'resp_1' }));
  assert.match(String(kept), "Previous response with id 'resp_1' not found");
  const fetched = await errorOf(() => client.responses.retrieve('resp_1'));
  assert.instance(fetched, NotFoundError);
  assert.match(String(fetched), 'it was not stored');
});

test('ends the work of a stream that it aborts', async () => {
  const stream = client.responses.stream({ ...request, max_output_tokens: 1500, temperature: 1 });
  stream.once('response.output_text.delta', () => stream.abort());
  assert.instance(await errorOf(() => stream.finalResponse()), APIUserAbortError);
  await gateway.idle();
});

test('sees the failure in the last event of a stream', async () => {
  const { app, runner } = testApp();
  runner.script = [[97], new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: true })];
  const fetch = async (url: string | URL | Request, init?: RequestInit) => app.request(url, init);
  const scripted = new OpenAI({ baseURL: 'http://localhost/v1', apiKey: 'none', maxRetries: 0, fetch });
  const final = await scripted.responses.stream({ model: 'bytes', input: 'Hi' }).finalResponse();
  assert.equal([final.status, final.error?.message, final.output_text], ['failed', 'It broke.', 'a']);
});

test.run();
