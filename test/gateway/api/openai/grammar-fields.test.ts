import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Grammar } from '../../../../gateway/runner/runner.ts';
import { testApp } from '../../../fixtures/app.ts';
import { byteModel, EOS_ID } from '../../../fixtures/byte-model.ts';
import { ScriptedRunner } from '../../../fixtures/scripted-runner.ts';

/** Fields that say what form an answer has, on both routes. */

const test = suite('grammar fields');

const routes = {
  '/v1/completions': { prompt: 'Hi' },
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'Hi' }] },
};

async function grammarsOf(fields: object): Promise<(Grammar | undefined)[]> {
  const runner = new ScriptedRunner();
  runner.script = [[EOS_ID]];
  const { post } = testApp({ runner });
  for (const [path, base] of Object.entries(routes)) {
    const response = await post(path, { model: 'bytes', ...base, ...fields });
    const body = await response.text();
    assert.is(response.status, 200, body);
  }
  assert.is(runner.requests.length, 2);
  for (const { grammar, vocabulary } of runner.requests)
    assert.is(vocabulary?.numTokens, grammar === undefined ? undefined : byteModel.tokenizer.vocabSize);
  return runner.requests.map(({ grammar }) => grammar);
}

async function refusalOf(path: string, body: unknown): Promise<{ param: string; message: string }> {
  const { post, runner } = testApp();
  const response = await post(path, body);
  const { error } = (await response.json()) as { error: { param: string; message: string } };
  assert.is(response.status, 400, JSON.stringify(error));
  assert.is(runner.requests.length, 0);
  return { param: error.param, message: error.message };
}

const schema = { type: 'object', properties: { b: { const: null }, a: { enum: [null, 1] } }, default: null };
const source = '{"type":"object","properties":{"b":{"const":null},"a":{"enum":[null,1]}},"default":null}';
const ofSchema = { kind: 'json_schema', source, strict: true };
const ofRegex = { kind: 'regex', source: 'a+', strict: false };
const ofChoice = { kind: 'ebnf', source: 'root ::= "a\\"\\\\" | "é\\u000a"', strict: false };
const ofRules = { kind: 'ebnf', source: 'root ::= "x"', strict: false };

test('each field becomes its grammar, a schema with all that it says', async () => {
  const jsonSchema = (rest: object) => ({ type: 'json_schema', json_schema: { name: 'n', schema, ...rest } });
  const expected: [object, object | undefined][] = [
    [{ response_format: { type: 'text' } }, undefined],
    [{ response_format: { type: 'json_object' } }, { kind: 'json_object', source: '', strict: false }],
    [{ response_format: jsonSchema({}) }, ofSchema],
    [{ response_format: jsonSchema({ strict: true, description: 'd' }) }, ofSchema],
    [{ guided_json: schema }, ofSchema],
    [{ guided_json: ` ${source}` }, { ...ofSchema, source: ` ${source}` }],
    [{ guided_regex: 'a+' }, ofRegex],
    [{ guided_choice: ['a"\\', 'é\n'] }, ofChoice],
    [{ guided_grammar: ofRules.source }, ofRules],
    [{ structured_outputs: { json: schema } }, ofSchema],
    [{ structured_outputs: { regex: 'a+' } }, ofRegex],
    [{ structured_outputs: { choice: ['a"\\', 'é\n'] } }, ofChoice],
    [{ structured_outputs: { grammar: ofRules.source } }, ofRules],
    [{ guided_json: null, response_format: { type: 'text' }, guided_regex: 'a+' }, ofRegex],
  ];
  for (const [fields, grammar] of expected)
    assert.equal(await grammarsOf(fields), [grammar, grammar], JSON.stringify(fields));
});

test('without strict, an object has what it lists, and anything where it lists nothing or says so', async () => {
  const named = { type: 'object', properties: { name: { type: 'string' } } };
  const open = { ...named, additionalProperties: { type: 'integer' } };
  const sent = {
    type: 'object',
    properties: {
      named,
      open,
      free: { type: 'object' },
      list: { type: 'array', items: named },
      any: { type: 'array' },
    },
    $defs: { named },
  };
  const closed = {
    ...sent,
    properties: {
      ...sent.properties,
      free: { additionalProperties: true, type: 'object' },
      any: { items: true, type: 'array' },
    },
  };
  for (const schema of [sent, JSON.stringify(sent)])
    for (const strict of [undefined, false]) {
      const json_schema = { name: 'n', schema, strict };
      const [grammar] = await grammarsOf({ response_format: { type: 'json_schema', json_schema } });
      assert.equal(
        { ...grammar, source: JSON.parse(grammar?.source ?? '') },
        { ...ofSchema, source: closed },
      );
    }
});

test('numbers of a schema arrive in all their digits', async () => {
  const runner = new ScriptedRunner();
  runner.script = [[EOS_ID]];
  const { post } = testApp({ runner });
  const body = '{"model":"bytes","prompt":"Hi","guided_json":{"maximum":18446744073709551615}}';
  assert.is((await post('/v1/completions', body)).status, 200);
  assert.is(runner.requests[0]?.grammar?.source, '{"maximum":18446744073709551615}');
});

test('invalid grammars, and two at once, are refused by name', async () => {
  const cases: [object, string, RegExp][] = [
    [
      { response_format: { type: 'xml' } },
      'response_format.type',
      /must be "text" or "json_object" or "json_schema"/,
    ],
    [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema', /is required/],
    [
      { response_format: { type: 'text', json_schema: { schema } } },
      'response_format.json_schema',
      /needs the type/,
    ],
    [
      { response_format: { type: 'json_schema', json_schema: { name: 'n' } } },
      'response_format.json_schema.schema',
      /schema is required/,
    ],
    [{ guided_json: 3 }, 'guided_json', /must be a JSON Schema: an object, or its text \(got 3\)/],
    [{ guided_json: '{' }, 'guided_json', /must be JSON where it is a string/],
    [{ guided_regex: '' }, 'guided_regex', /must not be empty/],
    [
      { guided_regex: 'é'.repeat(2 ** 17 + 1) },
      'guided_regex',
      /at most 262144 bytes as a grammar \(got 262146\)/,
    ],
    [{ guided_choice: [] }, 'guided_choice', /must not be empty/],
    [{ guided_choice: Array(1025).fill('a') }, 'guided_choice', /at most 1024 choices \(got 1025\)/],
    [{ guided_grammar: 3 }, 'guided_grammar', /must be a string/],
    [{ structured_outputs: {} }, 'structured_outputs', /must have one of/],
    [{ structured_outputs: { regex: 'a', choice: ['b'] } }, 'structured_outputs', /must have one of/],
    [{ structured_outputs: { colour: 'a' } }, 'structured_outputs.colour', /is not a field/],
    [
      { guided_regex: 'a', guided_choice: ['b'] },
      'guided_choice',
      /guided_choice and guided_regex exclude each other/,
    ],
    [
      { guided_regex: 'a', response_format: { type: 'json_object' } },
      'guided_regex',
      /guided_regex and response_format exclude each other/,
    ],
    [
      { guided_regex: 'a', allowed_token_ids: [3] },
      'allowed_token_ids',
      /allowed_token_ids and guided_regex exclude/,
    ],
  ];
  for (const [path, base] of Object.entries(routes)) {
    for (const [fields, name, sentence] of cases) {
      const { param, message } = await refusalOf(path, { model: 'bytes', ...base, ...fields });
      assert.is(param, name, message);
      assert.match(message, sentence);
    }
  }
});

test('a model without a token that ends an answer is named, unless the request has one', async () => {
  const model = () => ({ ...byteModel, stopIds: [] });
  const runner = new ScriptedRunner();
  runner.script = [[EOS_ID]];
  const { post } = testApp({ model, runner });
  const body = { model: 'bytes', prompt: 'Hi', guided_regex: 'a' };
  const response = await post('/v1/completions', body);
  assert.is(response.status, 400);
  assert.match(await response.text(), /guided_regex needs a token that ends the answer/);
  assert.is((await post('/v1/completions', { ...body, stop_token_ids: [EOS_ID] })).status, 200);
});

test.run();
