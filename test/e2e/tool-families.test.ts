import { readFileSync } from 'node:fs';
import OpenAI from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { harmonyMarks } from '../../gateway/prompt/harmony-format.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { withChatTemplate } from '../fixtures/gguf-template.ts';
import { harmonyTemplate } from '../fixtures/harmony-template.ts';
import { llamaFile } from '../fixtures/served-llama.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { familyTemplates } from '../fixtures/tool-template.ts';

/**
 * Tools as each family of templates has them written. No weights know of any of it: the grammars alone make the calls. One
 * family has the default model, with its large vocabulary; the others a tiny one, which draws letter by letter.
 */

const test = suite('tool-families');
const folder = temporaryFolder();

let gateway: Gateway | undefined;

test.after.each(async () => {
  await gateway?.stop();
  gateway = undefined;
});

/** Of calls that are drawn, each whole and streamed. */
const NUM_SEEDS = Number(process.env.RUNNEL_TEST_TOOL_SEEDS ?? 1);

const OF_DEFAULT_MODEL = 'mistral-id';
/** Control tokens that the default model has no use for. */
const marks = { '<issue_start>': '[TOOL_CALLS]', '<filename>': '[CALL_ID]', '<repo_name>': '[ARGS]' };

/** The tiny vocabulary has a token for each byte, and would draw halves of characters. */
const onlyAscii = { logit_bias: Object.fromEntries(Array.from({ length: 128 }, (_, i) => [128 + i, -100])) };

const parameters = {
  type: 'object',
  properties: {
    city: { type: 'string', pattern: '^[A-Z][a-z]{2,9}$' },
    unit: { enum: ['celsius', 'fahrenheit', 0] },
    days: { $ref: '#/$defs/days' },
    note: { type: 'string', minLength: 2, maxLength: 12 },
    near: { anyOf: [{ type: 'string', maxLength: 20 }, { type: 'null' }] },
    exact: { type: 'boolean' },
    more: { type: 'array', items: { type: 'integer', minimum: 0, maximum: 99 }, minItems: 1, maxItems: 2 },
  },
  required: ['city', 'unit', 'days', 'note', 'near', 'more'],
  $defs: { days: { type: 'integer', minimum: 1, maximum: 9 } },
};
const weather = { type: 'function' as const, function: { name: 'weather', parameters } };
const clock = { type: 'function' as const, function: { name: 'clock' } };
const tools = [weather, clock];

type Messages = OpenAI.ChatCompletionMessageParam[];
const question: Messages = [{ role: 'user', content: 'What is the weather in Paris?' }];
const called = { city: 'London', unit: 'celsius', days: 1, note: 'ab', near: null, more: [1] };
/** With ids that are not as Mistral's templates have them. */
const history: Messages = [
  { role: 'user', content: 'What is the weather in London?' },
  {
    role: 'assistant',
    content: null,
    tool_calls: [
      { id: 'call_1', type: 'function', function: { name: 'weather', arguments: JSON.stringify(called) } },
    ],
  },
  { role: 'tool', tool_call_id: 'call_1', content: '12 degrees' },
  { role: 'assistant', content: 'It is 12 degrees.' },
  ...question,
];

let numChecked = 0;
test.after(() => console.log(`${numChecked} calls of tools hold to their schemas`));

function checkArguments(text: string): void {
  const given = JSON.parse(text) as Record<string, unknown>;
  const { city, unit, days, note, near, exact, more } = given;
  const names = Object.keys(parameters.properties).filter((name) => name !== 'exact' || exact !== undefined);
  assert.equal(Object.keys(given), names, text);
  assert.match(String(city), /^[A-Z][a-z]{2,9}$/);
  assert.ok(parameters.properties.unit.enum.includes(unit as string), text);
  assert.ok(Number.isInteger(days) && Number(days) >= 1 && Number(days) <= 9, text);
  assert.ok(typeof note === 'string' && [...note].length >= 2 && [...note].length <= 12, text);
  assert.ok(near === null || (typeof near === 'string' && [...near].length <= 20), text);
  assert.ok(exact === undefined || typeof exact === 'boolean', text);
  assert.ok(
    Array.isArray(more) && more.length >= 1 && more.length <= 2 && more.every(Number.isInteger),
    text,
  );
  numChecked += 1;
}

/** Without an effort a model of this family may think before it calls. */
const HARMONY = 'harmony';

for (const [family, template] of Object.entries({ ...familyTemplates, [HARMONY]: harmonyTemplate })) {
  test(`${family}: calls hold to their schemas, whole and streamed, and "none" calls nothing`, async () => {
    const isTiny = family !== OF_DEFAULT_MODEL;
    const file = isTiny
      ? withChatTemplate(
          llamaFile({ control: Object.values(family === HARMONY ? harmonyMarks : marks), ends: true }),
          template,
        )
      : withChatTemplate(readFileSync(DEFAULT_MODEL), template, marks);
    gateway = await Gateway.start(folder.write(`${family}.gguf`, file));
    await gateway.ready();
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none', maxRetries: 0 });
    // A call takes more than 300 where each of its marks is drawn letter by letter.
    const base = {
      model: family,
      tools,
      max_tokens: isTiny ? 2000 : 400,
      messages: question,
      ...(isTiny ? onlyAscii : {}),
      ...(family === HARMONY ? { reasoning_effort: 'none' as const } : {}),
    };
    const ask = async (more: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>) => {
      const [choice] = (await client.chat.completions.create({ ...base, ...more })).choices;
      assert.ok(choice);
      const calls = (choice.message.tool_calls ?? []).map((call) => {
        assert.ok(call.type === 'function');
        return call.function;
      });
      return { choice, calls };
    };
    const weatherOnly = {
      tools: [weather],
      tool_choice: 'required' as const,
      parallel_tool_calls: false,
    };
    for (let seed = 1; seed <= NUM_SEEDS; seed++) {
      const { choice, calls } = await ask({ ...weatherOnly, seed, temperature: 1 });
      const [call] = calls;
      assert.equal([choice.finish_reason, choice.message.content, calls.length], ['tool_calls', null, 1]);
      assert.is(call?.name, 'weather');
      checkArguments(call?.arguments ?? '');
      const streamed = client.chat.completions.stream({ ...base, ...weatherOnly, seed, temperature: 1 });
      const [same] = (await streamed.finalChatCompletion()).choices;
      const [again] = same?.message.tool_calls ?? [];
      assert.is(again?.type === 'function' && again.function.arguments, call?.arguments);
    }
    const named = await ask({ tool_choice: { type: 'function', function: { name: 'clock' } } });
    const given = named.calls.map(({ name, arguments: text }) => [name, JSON.parse(text)]);
    assert.equal(given, [['clock', {}]]);
    // A model that calls in parallel may go on for ever; each but the last is whole.
    const many = await ask({ tool_choice: 'required', temperature: 0, max_tokens: isTiny ? 1000 : 120 });
    const whole = many.choice.finish_reason === 'length' ? many.calls.slice(0, -1) : many.calls;
    for (const { name, arguments: given } of whole)
      name === 'clock' ? assert.equal(JSON.parse(given), {}) : checkArguments(given);
    // With a form of its own an answer is calls or holds to it.
    const schema = { type: 'object', properties: { note: { type: 'boolean' } }, required: ['note'] };
    const response_format = {
      type: 'json_schema' as const,
      json_schema: { name: 'x', schema, strict: true },
    };
    const either = await ask({ response_format, parallel_tool_calls: false, temperature: 0 });
    if (either.calls.length === 0)
      assert.match(either.choice.message.content ?? '', /^\{\s*"note"\s*:\s*(true|false)\s*\}$/);
    else assert.is(either.choice.message.content, null);
    for (const tool_choice of ['auto', 'none'] as const) {
      const { choice, calls } = await ask({ messages: history, tool_choice, temperature: 0, max_tokens: 30 });
      assert.ok(tool_choice === 'auto' || calls.length === 0);
      assert.not.match(choice.message.content ?? '', /tool_call>|TOOL_CALLS|<\|/);
    }
    if (family !== HARMONY) return;
    // A thought that its budget ends: then the call, or the text of the form, is all that the grammar leaves. The model begins a
    // thought, if it may, and would not end it.
    const logit_bias = { ...onlyAscii.logit_bias, 97: 100, 32: -100 };
    const thoughtful = { reasoning_effort: 'low' as const, thinking_token_budget: 40, logit_bias };
    const thoughtOf = ({ message }: OpenAI.ChatCompletion.Choice) =>
      (message as { reasoning_content?: string }).reasoning_content ?? '';
    const thought = await ask({ ...weatherOnly, ...thoughtful });
    assert.is(thought.choice.finish_reason, 'tool_calls');
    checkArguments(thought.calls[0]?.arguments ?? '');
    assert.match(thoughtOf(thought.choice), /^a{20,40}$/);
    const formed = await ask({ ...thoughtful, tools: [], response_format });
    assert.match(formed.choice.message.content ?? '', /^\{\s*"note"\s*:\s*(true|false)\s*\}$/);
    assert.match(thoughtOf(formed.choice), /^a{20,40}$/);
  });
}

test.run();
