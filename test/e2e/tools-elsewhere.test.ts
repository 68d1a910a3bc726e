import { readFileSync } from 'node:fs';
import { createOpenAI } from '@ai-sdk/openai';
import Anthropic from '@anthropic-ai/sdk';
import { generateText, jsonSchema, type ModelMessage, stepCountIs, streamText, tool } from 'ai';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { withChatTemplate } from '../fixtures/gguf-template.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { toolTemplate } from '../fixtures/tool-template.ts';

/**
 * Tools by the clients of the other APIs: the default model's weights, with a template that knows tools. A history shows the model how
 * it is done; each client tells it in its own form, so that each gets the same call.
 */

const test = suite('tools by other clients');
const folder = temporaryFolder();

const path = folder.write('tools.gguf', withChatTemplate(readFileSync(DEFAULT_MODEL), toolTemplate));
const gateway = await Gateway.during(test, path);

const city = { type: 'string', pattern: '^[A-Z][a-z]{2,9}$' };
const schemaOf = (properties: Record<string, { type?: string; pattern?: string; enum?: string[] }>) => ({
  type: 'object' as const,
  properties,
  required: Object.keys(properties),
});
const TOOLS = [
  {
    name: 'weather',
    description: 'Tells the weather of a city.',
    schema: schemaOf({ city, unit: { enum: ['celsius', 'fahrenheit'] } }),
  },
  { name: 'time', description: 'Tells the time of a city.', schema: schemaOf({ city }) },
];
/** What was asked before: question, tool, its arguments and its result. */
const TURNS = [
  ['What is the weather in London?', 'weather', { city: 'London', unit: 'celsius' }, '12 degrees'],
  ['What is the time in Rome?', 'time', { city: 'Rome' }, '12:30'],
] as const;
const PRELUDE = 'Let me look.\n';
const QUESTION = 'What is the weather in Paris?';
const MAX_TOKENS = 120;

interface Called {
  readonly name: string;
  readonly args: unknown;
}

function isTheCall({ name, args }: Called): void {
  assert.is(name, 'weather');
  assert.match(JSON.stringify(args), /^\{"city":"Paris","unit":"(celsius|fahrenheit)"\}$/);
}

const anthropic = {
  model: 'tools',
  max_tokens: MAX_TOKENS,
  temperature: 0,
  tools: TOOLS.map(({ schema, ...tool }): Anthropic.Tool => ({ ...tool, input_schema: schema })),
  messages: [
    ...TURNS.flatMap(([question, name, input, result], at): Anthropic.MessageParam[] => [
      { role: 'user', content: question },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: PRELUDE },
          { type: 'tool_use', id: `toolu_${at}`, name, input },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: `toolu_${at}`, content: result }] },
      { role: 'assistant', content: `It is ${result}.` },
    ]),
    { role: 'user' as const, content: QUESTION },
  ],
};

function anthropicClient(): Anthropic {
  return new Anthropic({ baseURL: gateway.url, apiKey: 'none', maxRetries: 0 });
}

test('Anthropic’s client gets text and a call, whole, streamed, and through a kill within the call', async () => {
  const client = anthropicClient();
  const whole = await client.messages.create(anthropic);
  assert.is(whole.stop_reason, 'tool_use');
  const [text, call] = whole.content;
  assert.equal(text, { type: 'text', text: PRELUDE });
  assert.ok(call?.type === 'tool_use');
  isTheCall({ name: call.name, args: call.input });
  const before = await gateway.restarts();
  for (const isKilled of [false, true]) {
    const stream = client.messages.stream(anthropic);
    let hasKilled = !isKilled;
    for await (const event of stream) {
      if (hasKilled || event.type !== 'content_block_delta' || event.delta.type !== 'input_json_delta')
        continue;
      hasKilled = true;
      await gateway.killRunner();
    }
    assert.ok(hasKilled);
    const final = await stream.finalMessage();
    const streamed = final.content[1];
    assert.ok(streamed?.type === 'tool_use');
    assert.equal([final.content[0], streamed.name, streamed.input], [text, call.name, call.input]);
    assert.is(final.stop_reason, 'tool_use');
  }
  assert.is(await gateway.restarts(), before + 1);
});

test('Anthropic’s client goes on with a result, has a tool called by its name, and none', async () => {
  const client = anthropicClient();
  const called = await client.messages.create(anthropic);
  const call = called.content.find((block) => block.type === 'tool_use');
  assert.ok(call?.type === 'tool_use');
  const answered: Anthropic.MessageParam[] = [
    { role: 'assistant', content: called.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: '20 degrees' }] },
  ];
  const messages = [...anthropic.messages, ...answered];
  const last = await client.messages.create({ ...anthropic, messages, tool_choice: { type: 'none' } });
  assert.match(last.content[0]?.type === 'text' ? last.content[0].text : '', '20 degrees');
  const single = { disable_parallel_tool_use: true };
  const named = await client.messages.create({
    ...anthropic,
    tool_choice: { type: 'tool', name: 'time', ...single },
  });
  assert.equal(
    named.content.map((block) => (block.type === 'tool_use' ? block.name : block.type)),
    ['time'],
  );
  const any = await client.messages.create({ ...anthropic, tool_choice: { type: 'any', ...single } });
  assert.equal(
    any.content.map(({ type }) => type),
    ['tool_use'],
  );
  const { input_tokens } = await client.messages.countTokens({
    model: 'tools',
    messages: anthropic.messages,
    tools: anthropic.tools,
  });
  assert.is(input_tokens, called.usage.input_tokens + (called.usage.cache_read_input_tokens ?? 0));
});

const ollama = {
  model: 'tools',
  options: { temperature: 0, num_predict: MAX_TOKENS },
  tools: TOOLS.map(({ name, description, schema: parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  })),
  messages: [
    ...TURNS.flatMap(([question, name, args, result]) => [
      { role: 'user', content: question },
      { role: 'assistant', content: PRELUDE, tool_calls: [{ function: { name, arguments: args } }] },
      { role: 'tool', tool_name: name, content: result },
      { role: 'assistant', content: `It is ${result}.` },
    ]),
    { role: 'user', content: QUESTION },
  ],
};

test('Ollama’s client gets text and a call, whole, streamed, and through a kill within the answer', async () => {
  const client = new Ollama({ host: gateway.url });
  const { message } = await client.chat(ollama);
  assert.is(message.content, PRELUDE);
  const [call] = message.tool_calls ?? [];
  assert.ok(call);
  isTheCall({ name: call.function.name, args: call.function.arguments });
  const before = await gateway.restarts();
  for (const isKilled of [false, true]) {
    let hasKilled = !isKilled;
    let content = '';
    const calls: unknown[] = [];
    for await (const part of await client.chat({ ...ollama, stream: true })) {
      content += part.message.content;
      calls.push(...(part.message.tool_calls ?? []).map((each) => each.function));
      if (hasKilled || content.length < PRELUDE.length) continue;
      hasKilled = true;
      await gateway.killRunner();
    }
    assert.ok(hasKilled);
    assert.equal([content, calls], [PRELUDE, [call.function]]);
  }
  assert.is(await gateway.restarts(), before + 1);
  const messages = [
    ...ollama.messages,
    message,
    { role: 'tool', tool_name: 'weather', content: '20 degrees' },
  ];
  const last = await client.chat({ ...ollama, messages, options: { ...ollama.options, num_predict: 20 } });
  assert.match(last.message.content, '20 degrees');
  assert.equal((await client.show({ model: 'tools' })).capabilities, ['completion', 'tools']);
});

const responses = {
  model: 'tools',
  max_output_tokens: MAX_TOKENS,
  temperature: 0,
  tools: TOOLS.map(({ schema: parameters, ...described }): OpenAI.Responses.FunctionTool => {
    return { type: 'function', strict: false, parameters, ...described };
  }),
  input: [
    ...TURNS.flatMap(
      ([question, name, args, result], at): OpenAI.Responses.ResponseInput => [
        { role: 'user', content: question },
        { role: 'assistant', content: PRELUDE },
        { type: 'function_call', call_id: `call_${at}`, name, arguments: JSON.stringify(args) },
        { type: 'function_call_output', call_id: `call_${at}`, output: result },
        { role: 'assistant', content: `It is ${result}.` },
      ],
    ),
    { role: 'user' as const, content: QUESTION },
  ],
};

test('OpenAI’s client gets a response with a call, whole, streamed, and through a kill within the call', async () => {
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none', maxRetries: 0 });
  const whole = await client.responses.create(responses);
  assert.is(whole.output_text, PRELUDE);
  const [, call] = whole.output;
  assert.ok(call?.type === 'function_call');
  isTheCall({ name: call.name, args: JSON.parse(call.arguments) });
  const before = await gateway.restarts();
  for (const isKilled of [false, true]) {
    const stream = client.responses.stream(responses);
    let hasKilled = !isKilled;
    for await (const event of stream) {
      if (hasKilled || event.type !== 'response.function_call_arguments.delta') continue;
      hasKilled = true;
      await gateway.killRunner();
    }
    assert.ok(hasKilled);
    const final = await stream.finalResponse();
    const streamed = final.output[1];
    assert.ok(streamed?.type === 'function_call');
    assert.equal(
      [final.output_text, streamed.name, streamed.arguments],
      [PRELUDE, call.name, call.arguments],
    );
  }
  assert.is(await gateway.restarts(), before + 1);
  const output = { type: 'function_call_output' as const, call_id: call.call_id, output: '20 degrees' };
  const input = [...responses.input, ...(whole.output as OpenAI.Responses.ResponseInput), output];
  const last = await client.responses.create({ ...responses, input, tool_choice: 'none' });
  assert.match(last.output_text, '20 degrees');
});

test('a tool that OpenAI’s client leaves open is called with all of its arguments', async () => {
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none', maxRetries: 0 });
  const letter = { type: 'string', pattern: '^[a-z]$' };
  const names = ['~', 'city', '|'];
  const parameters = {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, letter])),
    required: ['city'],
  };
  const strict = { ...parameters, required: names, additionalProperties: false };
  const tool = { type: 'function' as const, name: 'letters', parameters };
  const asked = {
    ...{ model: 'tools', input: 'Hi', max_output_tokens: 100, temperature: 0 },
    ...{ tool_choice: 'required' as const, parallel_tool_calls: false },
  };
  const calledWith = async (more: object, became: object): Promise<string[]> => {
    // Its own types want strict to be there, which its server does not.
    const tools = [{ ...tool, ...more }] as unknown as OpenAI.Responses.FunctionTool[];
    const response = await client.responses.create({ ...asked, tools });
    assert.equal(response.tools, [{ ...tool, ...became }]);
    const [call] = response.output;
    assert.ok(call?.type === 'function_call');
    return Object.keys(JSON.parse(call.arguments));
  };
  for (const more of [{}, { strict: null }])
    assert.equal(await calledWith(more, { parameters: strict, strict: true }), names);
  const free = await calledWith({ strict: false }, { strict: false });
  assert.ok(free.includes('city') && free.length < names.length, String(free));
});

test('the AI SDK calls local functions and continues with their results', async () => {
  const model = createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none' })('tools');
  const messages: ModelMessage[] = [
    ...TURNS.flatMap(([question, toolName, input, value], at): ModelMessage[] => {
      const called = { toolCallId: `call_${at}`, toolName };
      return [
        { role: 'user', content: question },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: PRELUDE },
            { type: 'tool-call', ...called, input },
          ],
        },
        { role: 'tool', content: [{ type: 'tool-result', ...called, output: { type: 'text', value } }] },
        { role: 'assistant', content: `It is ${value}.` },
      ];
    }),
    { role: 'user', content: QUESTION },
  ];
  const [weather] = TOOLS;
  assert.ok(weather);
  const asked: unknown[] = [];
  const tools = {
    weather: tool({
      description: weather.description,
      inputSchema: jsonSchema<{ city: string; unit: string }>(weather.schema),
      execute: async (input) => {
        asked.push(input);
        return '20 degrees';
      },
    }),
  };
  const settings = {
    ...{ model, messages, tools, temperature: 0, maxRetries: 0 },
    stopWhen: stepCountIs(2),
    maxOutputTokens: 50,
    providerOptions: { openai: { store: false } },
  };
  const whole = await generateText(settings);
  isTheCall({ name: 'weather', args: asked[0] });
  assert.is(whole.steps[0]?.finishReason, 'tool-calls');
  assert.is(whole.steps[0]?.text, PRELUDE);
  assert.is(whole.steps.length, 2);
  const streamed = streamText(settings);
  const inputs: unknown[] = [];
  for await (const part of streamed.fullStream) {
    assert.is.not(part.type, 'error');
    if (part.type === 'tool-call') inputs.push(part.input);
  }
  assert.equal(inputs[0], asked[0]);
  assert.equal(
    (await streamed.steps).map(({ text }) => text),
    whole.steps.map(({ text }) => text),
  );
});

test.run();
