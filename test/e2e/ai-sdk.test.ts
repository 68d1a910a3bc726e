import { createOpenAI } from '@ai-sdk/openai';
import {
  APICallError,
  cosineSimilarity,
  embed,
  embedMany,
  generateObject,
  generateText,
  type ModelMessage,
  streamText,
} from 'ai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as z from 'zod';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { errorOf } from '../fixtures/errors.ts';
import { Gateway } from '../fixtures/gateway.ts';

/** Vercel's AI SDK, whose OpenAI models use /v1/responses unless told otherwise. */

const test = suite('the AI SDK');

const gateway = await Gateway.during(test, DEFAULT_MODEL, ['--served-model-name', 'smollm2']);
const model = createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none' })('smollm2');

const prompt = 'What is the capital of France?';
const limits = { temperature: 0, maxOutputTokens: 24, maxRetries: 0 };

test('generates a text, whole and streamed alike', async () => {
  const whole = await generateText({ model, prompt, system: 'You are a helpful assistant.', ...limits });
  assert.match(whole.text, 'Paris');
  assert.equal(whole.warnings, []);
  const streamed = streamText({ model, prompt, system: 'You are a helpful assistant.', ...limits });
  let text = '';
  for await (const delta of streamed.textStream) text += delta;
  assert.is(text, whole.text);
  assert.is(await streamed.finishReason, whole.finishReason);
  const { inputTokens, outputTokens } = await streamed.usage;
  assert.equal([inputTokens, outputTokens], [whole.usage.inputTokens, whole.usage.outputTokens]);
  const cut = await generateText({ model, prompt, ...limits, maxOutputTokens: 2 });
  assert.is(cut.finishReason, 'length');
});

test('generates an object of a schema', async () => {
  const schema = z.object({ name: z.string(), isCapital: z.boolean() });
  const { object } = await generateObject({ model, prompt, schema, ...limits, maxOutputTokens: 60 });
  assert.equal(schema.parse(object), object);
});

test('continues a conversation that it keeps itself', async () => {
  const first = await generateText({ model, prompt, ...limits });
  const messages: ModelMessage[] = [
    { role: 'user', content: prompt },
    ...first.response.messages,
    { role: 'user', content: 'Say the name of that city again.' },
  ];
  const alone = await generateText({
    model,
    messages,
    providerOptions: { openai: { store: false } },
    ...limits,
  });
  assert.match(alone.text, 'Paris');
  // Without store: false, it sends the id of an answer in place of the answer.
  const { text, request } = await generateText({ model, messages, ...limits });
  assert.is(text, alone.text);
  assert.match(JSON.stringify(request.body), '"item_reference"');
});

test('streams a text through a kill of the runner', async () => {
  const undisturbed = await generateText({ model, prompt, ...limits });
  let text = '';
  let isKilled = false;
  const streamed = streamText({ model, prompt, ...limits });
  for await (const delta of streamed.textStream) {
    text += delta;
    if (isKilled || text === '') continue;
    isKilled = true;
    await gateway.killRunner();
  }
  assert.is(text, undisturbed.text);
  assert.is(await streamed.finishReason, undisturbed.finishReason);
  assert.is((await streamed.usage).outputTokens, undisturbed.usage.outputTokens);
  assert.ok(isKilled);
});

test('embeds texts, one and many', async () => {
  const embedder = createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none' }).embeddingModel('smollm2');
  const values = ['a cat', 'a kitten', 'the tax on land'];
  const { embeddings, usage } = await embedMany({ model: embedder, values, maxRetries: 0 });
  assert.equal(
    embeddings.map(({ length }) => length),
    [576, 576, 576],
  );
  assert.ok(usage.tokens > values.length);
  const { embedding } = await embed({ model: embedder, value: 'a cat', maxRetries: 0 });
  assert.equal(embedding, embeddings[0]);
  assert.ok(Math.abs(cosineSimilarity(embedding, embedding) - 1) < 1e-6);
  const providerOptions = { openai: { dimensions: 8 } };
  const short = await embed({ model: embedder, value: 'a cat', providerOptions, maxRetries: 0 });
  assert.is(short.embedding.length, 8);
  const refused = await errorOf(() =>
    embed({
      model: embedder,
      value: 'a cat',
      providerOptions: { openai: { dimensions: 577 } },
      maxRetries: 0,
    }),
  );
  assert.ok(APICallError.isInstance(refused));
  assert.match(refused.message, 'dimensions must be at most 576');
});

test('ends the work of a stream that it aborts', async () => {
  const controller = new AbortController();
  const { textStream } = streamText({
    model,
    prompt,
    temperature: 1,
    maxOutputTokens: 1500,
    abortSignal: controller.signal,
    onError: () => {},
  });
  for await (const delta of textStream) if (delta !== '') controller.abort();
  await gateway.idle();
});

test.run();
