import { existsSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ToolCallParser } from '../../../gateway/generation/tool-call-parser.ts';
import { marksIn } from '../../../gateway/prompt/template-features.ts';
import { mistralListFormat, shortId, toolUseOf } from '../../../gateway/prompt/tool-call-format.ts';
import { toolTemplate } from '../../fixtures/tool-template.ts';

const test = suite('tool call format');

/** The families of published templates; docs/tools.md says the same. */

const published: Readonly<Record<string, string>> = {
  qwen2_5: 'hermes',
  qwen3: 'hermes',
  qwen3_instruct_2507: 'hermes',
  qwen3_vl: 'hermes',
  llama3_1: 'llama',
  llama3_2: 'llama',
  qwen3_5_think: 'qwen-xml',
  qwen3_6: 'qwen-xml',
  nemotron_3_nano: 'qwen-xml',
  glm4moe: 'glm',
  gptoss: 'harmony',
  // These have tools with other marks, or no tools.
  gemma4: 'unknown',
  lfm2: 'unknown',
  llama3: 'generic',
  gemma3: 'generic',
  phi3_5: 'generic',
  deepseek_r1_distill: 'generic',
};

/** Templates that only `make check` fetches. */
const fetchedByCheck: Readonly<Record<string, string>> = {
  'chat-templates-mistral/mistral-nemo': 'mistral-list',
  'llama-vocabularies/templates/mistralai-Mistral-Nemo-Instruct-2407': 'mistral-list',
  'llama-vocabularies/templates/mistralai-Ministral-3-14B-Reasoning-2512': 'mistral',
  'llama-vocabularies/templates/unsloth-mistral-Devstral-Small-2507': 'mistral',
  'llama-vocabularies/templates/Mistral-Small-3.2-24B-Instruct-2506': 'mistral-id',
  'llama-vocabularies/templates/Qwen3-Coder': 'qwen-xml',
  'llama-vocabularies/templates/StepFun3.5-Flash': 'qwen-xml',
  'llama-vocabularies/templates/GLM-4.6': 'glm',
  'llama-vocabularies/templates/GLM-4.7-Flash': 'glm-4.7',
  // Its calls have no line breaks either, but its template does not describe them as GLM 4.7 does.
  'llama-vocabularies/templates/Spark2.5': 'unknown',
  'llama-vocabularies/templates/ibm-granite-granite-4.0': 'hermes',
  'llama-vocabularies/templates/NousResearch-Hermes-3-Llama-3.1-8B-tool_use': 'hermes',
  'llama-vocabularies/templates/ByteDance-Seed-OSS': 'unknown',
};

function useOf(source: string): string {
  return marksIn(source).toolUse?.name ?? 'unknown';
}

test('published templates have the family of their models', () => {
  const found = Object.keys(published).map((name) => {
    const url = new URL(`../../../build/chat-templates/${name}.jinja`, import.meta.url);
    return [name, useOf(readFileSync(url, 'utf8'))];
  });
  assert.equal(Object.fromEntries(found), published);
  assert.is(useOf(toolTemplate), 'hermes');
});

test('fetched templates of make check have their families', () => {
  for (const [name, family] of Object.entries(fetchedByCheck)) {
    const url = new URL(`../../../build/${name}.jinja`, import.meta.url);
    if (existsSync(url)) assert.is(useOf(readFileSync(url, 'utf8')), family, name);
  }
});

interface Golden {
  readonly templates: Readonly<Record<string, { readonly file: string | null }>>;
  readonly cases: readonly {
    readonly template: string;
    readonly conversation: string;
    readonly prompt: string | null;
  }[];
}

test('calls that a published template writes are read as they were', () => {
  const goldenUrl = new URL('../../golden/chat-templates.json', import.meta.url);
  const { templates, cases } = JSON.parse(readFileSync(goldenUrl, 'utf8')) as Golden;
  const read: string[] = [];
  for (const { template, conversation, prompt } of cases) {
    if (conversation !== 'two calls' || prompt === null) continue;
    const url = new URL(`../../../build/${templates[template]?.file}`, import.meta.url);
    const format = existsSync(url) ? toolUseOf(readFileSync(url, 'utf8')) : undefined;
    // In a history the template writes ids into Mistral's lists, which its models do not.
    if (format === undefined || format.isGeneric || format.name === 'mistral-list') continue;
    const parser = new ToolCallParser({ format, kindOf: (_, name) => (name === 'days' ? 'json' : 'text') });
    const { calls } = parser.push(prompt.split('How is the weather in Zürich?')[1] ?? '');
    const given = calls.map(({ name, arguments: text }) => [name, JSON.parse(text)]);
    assert.equal(
      given,
      [
        ['get_weather', { city: 'Zürich', days: 2 }],
        ['now', {}],
      ],
      template,
    );
    read.push(format.name);
  }
  for (const family of ['hermes', 'qwen-xml', 'glm']) assert.ok(read.includes(family), family);
  console.log(read.join(', '));
});

test('a list of Mistral’s has the space that its template has', () => {
  const of = (text: string) => toolUseOf(`{{ tools }}{{ "${text}" }}`);
  assert.equal(of('[TOOL_CALLS][{'), mistralListFormat());
  assert.equal(of(' [TOOL_CALLS] [{'), mistralListFormat(' '));
  assert.is(of('[TOOL_CALLS]'), undefined);
});

test('ids of calls stand between their names and arguments, or the family is not known', () => {
  const of = (text: string) => useOf(`{{ tools }}{{ "${text}" }}`);
  assert.is(of('[TOOL_CALLS]f[CALL_ID]1[ARGS]{}'), 'mistral-id');
  assert.is(of('[TOOL_CALLS]f[ARGS]{}[CALL_ID]1'), 'unknown');
  assert.is(of('[CALL_ID]1[TOOL_CALLS]f[ARGS]{}'), 'unknown');
  assert.is(of('[TOOL_CALLS]f[CALL_ID]1{}'), 'unknown');
});

test('XML on one line and XML on several lines are different formats', () => {
  const told = (text: string) => useOf(`{{ tools }}<tool_call>${text}</tool_call>`);
  assert.is(told('{function-name}<arg_key>{key}</arg_key><arg_value>{value}</arg_value>'), 'glm-4.7');
  assert.is(told('{function-name}\n<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n'), 'glm');
  assert.is(told('{function-name}\n<arg_key>{key}</arg_key> \n\t\n <arg_value>{value}</arg_value>'), 'glm');
  assert.is(told('{function-name}\n<arg_key>{key}</arg_key><arg_value>{value}</arg_value>'), 'unknown');
  assert.is(told('{function-name}<arg_key>{key}</arg_key> <arg_value>{value}</arg_value>'), 'unknown');
});

test('a template that writes its calls as a list is of no known family', () => {
  const list = '{{ tools }}<tool_call>\\n[{"name": "x", "arguments": {}}]</tool_call>';
  assert.is(useOf(list), 'unknown');
});

test('an id gets 9 letters and digits, the same each time, and keeps those that it has', () => {
  assert.is(shortId('abc123DEF'), 'abc123DEF');
  const ids = ['call_1', 'call_2', 'toolu_0123456789', '', 'abc-23DEF'].map(shortId);
  assert.is(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^[a-zA-Z0-9]{9}$/);
  assert.is(shortId('call_1'), ids[0]);
});

test.run();
