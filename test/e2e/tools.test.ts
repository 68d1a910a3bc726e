import { readFileSync } from 'node:fs';
import OpenAI, { BadRequestError } from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { withChatTemplate } from '../fixtures/gguf-template.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { toolTemplate } from '../fixtures/tool-template.ts';

/** Tools through the official client, with the default model's weights and a template that supports tools. */

const test = suite('tools');
const folder = temporaryFolder();

const path = folder.write('tools.gguf', withChatTemplate(readFileSync(DEFAULT_MODEL), toolTemplate));
const gateway = await Gateway.during(test, path);
const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none', maxRetries: 0 });

const city = { type: 'string', pattern: '^[A-Z][a-z]{2,9}$' };
const units = ['celsius', 'fahrenheit'];

function tool(name: string, properties: object): OpenAI.ChatCompletionFunctionTool {
  const parameters = { type: 'object', properties, required: Object.keys(properties) };
  return { type: 'function', function: { name, description: `Tells the ${name} of a city.`, parameters } };
}

const tools = [tool('weather', { city, unit: { enum: units } }), tool('time', { city })];
const base = { model: 'tools', tools, temperature: 0, max_tokens: 120 };

type Messages = OpenAI.ChatCompletionMessageParam[];

/** A question, the tool call for it, and the answer. */
function turn(question: string, id: string, name: string, args: object, result: string): Messages {
  const called = { name, arguments: JSON.stringify(args) };
  return [
    { role: 'user', content: question },
    {
      role: 'assistant',
      content: 'Let me look.\n',
      tool_calls: [{ id, type: 'function', function: called }],
    },
    { role: 'tool', tool_call_id: id, content: result },
    { role: 'assistant', content: `It is ${result}.` },
  ];
}

const question: Messages = [{ role: 'user', content: 'What is the weather in Paris?' }];
/** Enough examples for a small model to imitate. */
const history: Messages = [
  ...turn(
    'What is the weather in London?',
    'c1',
    'weather',
    { city: 'London', unit: 'celsius' },
    '12 degrees',
  ),
  ...turn('What is the time in Rome?', 'c2', 'time', { city: 'Rome' }, '12:30'),
  ...question,
];

type Asked = Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>;

async function ask(more: Asked): Promise<OpenAI.ChatCompletion.Choice> {
  const answer = await client.chat.completions.create({ ...base, messages: question, ...more });
  const [choice] = answer.choices;
  assert.ok(choice);
  return choice;
}

/** All calls of a choice. The arguments of each are checked against its tool. */
function callsOf({
  message,
}: OpenAI.ChatCompletion.Choice): { name: string; args: Record<string, string> }[] {
  return (message.tool_calls ?? []).map((call) => {
    assert.ok(call.type === 'function');
    const { name, arguments: text } = call.function;
    const args = JSON.parse(text) as Record<string, string>;
    assert.equal(Object.keys(args), name === 'weather' ? ['city', 'unit'] : ['city']);
    assert.match(args.city ?? '', /^[A-Z][a-z]{2,9}$/);
    if (name === 'weather') assert.ok(units.includes(args.unit ?? ''));
    return { name, args };
  });
}

test('with response_format an answer is a call or text of that format', async () => {
  const properties = { city, sunny: { type: 'boolean' } };
  const schema = { type: 'object', properties, required: ['city', 'sunny'] };
  const response_format = {
    type: 'json_schema' as const,
    json_schema: { name: 'answer', schema, strict: true },
  };
  const response = await gateway.post('/tokenize', { content: '<{' });
  const { tokens } = (await response.json()) as { tokens: readonly number[] };
  const [call, object] = tokens.map((id) => ({ [String(id)]: 100 }));
  assert.is(tokens.length, 2);
  const form = { response_format, parallel_tool_calls: false };
  const called = await ask({ ...form, ...(call && { logit_bias: call }) });
  assert.equal(
    [called.finish_reason, called.message.content, callsOf(called).length],
    ['tool_calls', null, 1],
  );
  const said = await ask({ ...form, ...(object && { logit_bias: object }) });
  assert.equal([said.finish_reason, said.message.tool_calls], ['stop', undefined]);
  assert.equal(Object.keys(JSON.parse(said.message.content ?? '')), ['city', 'sunny']);
});

test('"auto" calls after text as the history does; "none" does not call', async () => {
  const auto = await ask({ messages: history });
  assert.equal(auto.message.content, 'Let me look.\n');
  const [call] = callsOf(auto);
  assert.equal([call?.name, call?.args.city], ['weather', 'Paris']);
  assert.is(auto.finish_reason, 'tool_calls');
  const none = await ask({ messages: history, tool_choice: 'none', max_tokens: 20 });
  assert.is(none.message.tool_calls, undefined);
  assert.not.match(none.message.content ?? '', '<tool_call>');
});

test('a stream has the same as a whole answer, and a kill within a call changes nothing of it', async () => {
  const whole = await ask({ messages: history });
  const restarts = await gateway.restarts();
  for (const isKilled of [false, true]) {
    let hasKilled = !isKilled;
    const runner = client.chat.completions.stream({ ...base, messages: history });
    for await (const chunk of runner) {
      if (hasKilled || chunk.choices[0]?.delta.tool_calls === undefined) continue;
      hasKilled = true;
      await gateway.killRunner();
    }
    const [choice] = (await runner.finalChatCompletion()).choices;
    assert.ok(choice && hasKilled);
    assert.equal([choice.message.content, callsOf(choice)], [whole.message.content, callsOf(whole)]);
    assert.is(choice.finish_reason, 'tool_calls');
  }
  assert.is(await gateway.restarts(), restarts + 1);
});

test('the client’s own loop calls functions and goes on with their results', async () => {
  const asked: unknown[] = [];
  const [weather] = tools;
  assert.ok(weather);
  const runner = client.chat.completions.runTools(
    {
      ...{ model: base.model, temperature: 0, max_tokens: 50, messages: history },
      tools: [
        {
          type: 'function',
          function: {
            name: 'weather',
            description: 'Tells the weather of a city.',
            parameters: weather.function.parameters ?? {},
            parse: JSON.parse as (input: string) => object,
            function: (args: object) => {
              asked.push(args);
              return '20 degrees';
            },
          },
        },
      ],
    },
    { maxChatCompletions: 2 },
  );
  await runner.done();
  assert.match(JSON.stringify(asked[0]), /^\{"city":"Paris","unit":"\w+"\}$/);
  const roles = runner.messages.slice(history.length).map(({ role }) => role);
  assert.equal(roles.slice(0, 3), ['assistant', 'tool', 'assistant']);
});

test('an invalid schema is a 400 that says why', async () => {
  for (const a of [{ type: 'nonsense' }, { $ref: '#/nowhere' }, { type: 'string', pattern: '(' }]) {
    const parameters = { type: 'object', properties: { a } };
    const bad = { type: 'function' as const, function: { name: 'f', parameters } };
    const error: unknown = await ask({ tools: [bad], tool_choice: 'required' }).catch((thrown) => thrown);
    assert.instance(error, BadRequestError);
    assert.match((error as BadRequestError).message, 'Compiling the grammar fails: ');
  }
});

test.run();
