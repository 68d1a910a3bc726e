import { readFileSync } from 'node:fs';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as z from 'zod';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { withChatTemplate } from '../fixtures/gguf-template.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { toolTemplate } from '../fixtures/tool-template.ts';

/** LangChain's OpenAI models, with the default model's weights and a template that supports tools. */

const test = suite('LangChain');
const folder = temporaryFolder();

const path = folder.write('tools.gguf', withChatTemplate(readFileSync(DEFAULT_MODEL), toolTemplate));
const gateway = await Gateway.during(test, path);

const question = 'What is the capital of France?';

function chatModel(maxTokens = 24): ChatOpenAI {
  return new ChatOpenAI({
    model: 'tools',
    apiKey: 'none',
    configuration: { baseURL: `${gateway.url}/v1` },
    temperature: 0,
    maxTokens,
    maxRetries: 0,
  });
}

test('answers, whole and streamed alike, also from a runner that is killed within the stream', async () => {
  const model = chatModel();
  const whole = await model.invoke(question);
  assert.match(whole.text, 'Paris');
  let text = '';
  let isKilled = false;
  for await (const chunk of await model.stream(question)) {
    text += chunk.text;
    if (isKilled || text === '') continue;
    isKilled = true;
    await gateway.killRunner();
  }
  assert.is(text, whole.text);
  assert.ok(isKilled);
  assert.is((await model.batch([question, question])).length, 2);
});

test('calls tools that are bound to it, and goes on with a result', async () => {
  const weather = tool(async ({ city }) => `12 degrees in ${city}`, {
    name: 'weather',
    description: 'Tells the weather of a city.',
    schema: z.object({ city: z.string().regex(/^[A-Z][a-z]{2,9}$/) }),
  });
  const model = chatModel(120).bindTools([weather], { tool_choice: 'weather' });
  const asked = new HumanMessage('What is the weather in Paris?');
  const called = await model.invoke([asked]);
  const [call] = called.tool_calls ?? [];
  assert.ok(call?.id !== undefined);
  assert.is(call.name, 'weather');
  assert.match(String(call.args.city), /^[A-Z][a-z]{2,9}$/);
  let streamed: Awaited<ReturnType<typeof model.invoke>> | undefined;
  for await (const chunk of await model.stream([asked]))
    streamed = streamed === undefined ? chunk : streamed.concat(chunk);
  assert.equal(streamed?.tool_calls?.[0]?.args, call.args);
  const result = await weather.invoke({ ...call, type: 'tool_call' });
  assert.instance(result, ToolMessage);
  assert.ok((await chatModel().invoke([asked, called, result])).text.length > 0);
});

test('gives an object of a schema, by the form of its answer and by a tool', async () => {
  const schema = z.object({ name: z.string().max(20), isCapital: z.boolean() });
  for (const method of ['jsonSchema', 'functionCalling'] as const) {
    const model = chatModel(120).withStructuredOutput(schema, { name: 'city', method, strict: true });
    const object = await model.invoke(question);
    assert.equal(schema.parse(object), object, method);
  }
});

test('embeds texts, one and many', async () => {
  const embeddings = new OpenAIEmbeddings({
    model: 'tools',
    apiKey: 'none',
    configuration: { baseURL: `${gateway.url}/v1` },
    maxRetries: 0,
  });
  const [cat, kitten] = await embeddings.embedDocuments(['a cat', 'a kitten']);
  assert.equal([cat?.length, kitten?.length], [576, 576]);
  assert.equal(await embeddings.embedQuery('a cat'), cat);
});

test('raises errors it can parse', async () => {
  const absent = new ChatOpenAI({
    model: 'absent',
    apiKey: 'none',
    configuration: { baseURL: `${gateway.url}/v1` },
    maxRetries: 0,
  });
  const error = await absent.invoke(question).catch((thrown: unknown) => thrown);
  const { status, code } = error as { status?: number; code?: string };
  assert.equal([status, code], [404, 'model_not_found']);
});

test('ends the work of a stream that it aborts', async () => {
  const controller = new AbortController();
  const read = async (): Promise<void> => {
    const options = { signal: controller.signal };
    for await (const { text } of await chatModel(1500).stream(question, options))
      if (text !== '') controller.abort();
  };
  assert.instance(await read().catch((thrown: unknown) => thrown), Error);
  await gateway.idle();
});

test.run();
