import { basename } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { inParallel } from '../fixtures/in-parallel.ts';
import { type DescribedSchema, randomSchema } from '../fixtures/json-schemas.ts';
import { Random } from '../fixtures/random.ts';
import { readEvents } from '../fixtures/sse.ts';

/** Answers of the unmodified model have the requested form, and a runner that is killed during an answer changes nothing. */

const NUM_SCHEMAS = Number(process.env.RUNNEL_TEST_SCHEMAS ?? 12);
const NUM_KILLS = Number(process.env.RUNNEL_TEST_SCHEMA_KILLS ?? 2);
const SEED = Number(process.env.RUNNEL_TEST_SEED ?? Date.now() % 1_000_000);
const CHAT = '/v1/chat/completions';
/** More than the longest answer that a schema allows. */
const MAX_TOKENS = 1500;
/** A long limit: the test is about the form, even on a machine too slow for hundreds of answers. */
const PATIENT = ['--inference-timeout-sec', '3600'];

const test = suite('structured output');

const gateway = await Gateway.during(test, DEFAULT_MODEL, PATIENT);

const question = { messages: [{ role: 'user', content: 'Describe a cat.' }] };
const base = { model: basename(DEFAULT_MODEL, '.gguf'), seed: 7, max_tokens: MAX_TOKENS };

interface Whole {
  readonly choices: readonly [
    {
      readonly message: { readonly content: string };
      readonly finish_reason: string;
      readonly ended_by?: string;
    },
  ];
}

async function ask(fields: object): Promise<string> {
  const response = await gateway.post(CHAT, { ...base, ...question, ...fields });
  const body = await response.text();
  assert.is(response.status, 200, body);
  const [{ message, finish_reason, ended_by = finish_reason }] = (JSON.parse(body) as Whole).choices;
  assert.is(finish_reason, 'stop', `ended by ${ended_by}: ${message.content}`);
  return message.content;
}

interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string } }[];
  readonly error?: unknown;
}

/** onText gets the whole text so far, each time that more has come. */
async function askStreamed(fields: object, onText: (text: string) => Promise<void>): Promise<string> {
  const response = await gateway.post(CHAT, { ...base, ...question, ...fields, stream: true });
  assert.is(response.status, 200);
  let text = '';
  for await (const { data } of readEvents(response)) {
    if (data === '[DONE]') continue;
    const { choices, error } = JSON.parse(data) as Chunk;
    assert.is(error, undefined, data);
    text += choices[0]?.delta.content ?? '';
    await onText(text);
  }
  return text;
}

function formatOf(schema: object): object {
  return { response_format: { type: 'json_schema', json_schema: { name: 'cat', schema, strict: true } } };
}

/** Names and values as records have them, in the order in which they are written. */
const REPORT: Readonly<Record<string, object>> = {
  temperature_in_celsius: { type: 'integer', minimum: -50, maximum: 60 },
  relative_humidity_percentage: { type: 'integer', minimum: 0, maximum: 100 },
  precipitation_probability: { enum: ['unlikely', 'possible', 'very likely'] },
  wind_direction: { enum: ['north', 'east', 'south', 'west'] },
  severe_weather_warning_issued: { type: 'boolean' },
};

test('names and values that a schema gives are computed several tokens in a step', async () => {
  const counts = async (finished: number) => {
    const { scheduler } = await gateway.healthWhere(
      (health) => (health.scheduler?.finished ?? -1) >= finished,
      `${finished} finished requests`,
    );
    if (scheduler === null) throw new Error('a runner without counters');
    return scheduler;
  };
  // The first request of the runner.
  await ask({ guided_choice: ['yes'] });
  const before = await counts(1);
  const required = Object.keys(REPORT);
  const schema = { type: 'object', properties: REPORT, required, additionalProperties: false };
  const messages = [{ role: 'user', content: 'Report the weather as JSON.' }];
  const text = await ask({ ...formatOf(schema), messages, temperature: 0 });
  const after = await counts(before.finished + 1);
  const tokens = after.generated_tokens - before.generated_tokens;
  const drafted = after.draft_tokens - before.draft_tokens;
  const drawn = after.accepted_draft_tokens - before.accepted_draft_tokens;
  console.log(`${tokens} tokens in ${tokens - drawn} steps; of ${drafted} drafts ${drawn} were drawn`);
  assert.equal(Object.keys(JSON.parse(text) as object), required);
  assert.ok(drawn > tokens / 5 && drawn > drafted / 2, text);
});

test('a choice, a regular expression and a grammar give what they allow', async () => {
  const choices = ['a "quoted" \\ word\n', 'ü🐈\u0001x'];
  assert.ok(choices.includes(await ask({ guided_choice: choices })));
  assert.is(await ask({ structured_outputs: { choice: choices.slice(1) } }), choices[1]);
  assert.match(await ask({ guided_regex: '[0-9]{3}-[a-c]{2,4}' }), /^[0-9]{3}-[a-c]{2,4}$/);
  const grammar = 'root ::= "My " animal " is " [a-z]{3,9} "."\nanimal ::= "cat" | "dog"';
  assert.match(await ask({ guided_grammar: grammar }), /^My (cat|dog) is [a-z]{3,9}\.$/);
  const body = { ...base, prompt: 'A cat is', guided_regex: ' (big|small)', logprobs: 1 };
  const response = await gateway.post('/v1/completions', body);
  const { choices: texts } = (await response.json()) as { choices: { text: string }[] };
  assert.match(texts[0]?.text ?? '', /^ (big|small)$/);
});

test('any JSON object, and a stream of one', async () => {
  const fields = { response_format: { type: 'json_object' } };
  const whole = await ask(fields);
  assert.type(JSON.parse(whole), 'object');
  assert.is(await askStreamed(fields, async () => {}), whole);
});

test('a string of bounded length has no control character, however likely one is', async () => {
  const response = await gateway.post('/tokenize', { content: '\t' });
  const { tokens } = (await response.json()) as { tokens: readonly number[] };
  const schema = { type: 'object', properties: { a: { type: 'string', minLength: 3, maxLength: 5 } } };
  const form = formatOf({ ...schema, required: ['a'], additionalProperties: false });
  const text = await ask({ ...form, logit_bias: { [String(tokens[0])]: 100 } });
  assert.match(text, '\t', 'where JSON may have whitespace');
  assert.match((JSON.parse(text) as { a: string }).a, /^[^\p{Cc}]{3,5}$/u);
});

test('a grammar that does not compile is a 400 that says why, and nothing else ends', async () => {
  const response = await gateway.post(CHAT, { ...base, ...question, guided_grammar: 'rot ::= "x"' });
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  assert.equal([response.status, error.code], [400, 'invalid_request']);
  assert.match(error.message, 'The root rule with name "root" is not found');
  assert.is(await ask({ guided_choice: ['yes'] }), 'yes');
});

function isJsonThat(fits: (value: unknown) => boolean, text: string): boolean {
  try {
    return fits(JSON.parse(text));
  } catch {
    return false;
  }
}

const random = new Random(SEED);
const schemas = Array.from({ length: NUM_SCHEMAS }, () => randomSchema(random));
const answers = new Map<DescribedSchema, string>();

test(`${NUM_SCHEMAS} schemas give JSON that they describe`, async () => {
  await inParallel(schemas, async (described) => {
    const { schema, fits } = described;
    const what = `seed ${SEED}: ${JSON.stringify(schema)}`;
    const text = await ask(formatOf(schema)).catch((error: unknown) => {
      throw new Error(`${what}: ${error}`);
    });
    assert.ok(isJsonThat(fits, text), `${what} gives ${text}`);
    answers.set(described, text);
  });
  console.log(`${answers.size} schemas, seed ${SEED}`);
});

test(`${NUM_KILLS} kills within an object change nothing of it`, async () => {
  const longest = [...answers].sort(([, a], [, b]) => b.length - a.length).slice(0, NUM_KILLS);
  assert.is(longest.length, NUM_KILLS);
  const restarts = await gateway.restarts();
  for (const [index, [{ schema }, expected]] of longest.entries()) {
    const place = (expected.length * (index + 1)) / (2 * NUM_KILLS + 2);
    let isKilled = false;
    const text = await askStreamed(formatOf(schema), async (come) => {
      if (isKilled || come.length < place) return;
      isKilled = true;
      await gateway.killRunner();
    });
    assert.is(text, expected, `seed ${SEED}: ${JSON.stringify(schema)}`);
  }
  assert.is(await gateway.restarts(), restarts + NUM_KILLS);
  console.log(`${NUM_KILLS} kills in objects`);
});

test.run();
