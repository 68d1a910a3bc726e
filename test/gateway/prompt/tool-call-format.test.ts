import { existsSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { mistralListFormat, toolUseOf } from '../../../gateway/prompt/tool-call-format.ts';
import { toolTemplate } from '../../fixtures/tool-template.ts';

/** Which family a published template is of; docs/tools.md says the same. */

const test = suite('tool-call-format');

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
  // Other marks.
  gemma4: 'unknown',
  gptoss: 'unknown',
  lfm2: 'unknown',
  llama3: 'none',
  gemma3: 'none',
  phi3_5: 'none',
  deepseek_r1_distill: 'none',
};

/** Those that only `make check` fetches. */
const fetchedByCheck: Readonly<Record<string, string>> = {
  'chat-templates-mistral/mistral-nemo': 'mistral-list',
  'llama-vocabularies/templates/mistralai-Mistral-Nemo-Instruct-2407': 'mistral-list',
  'llama-vocabularies/templates/mistralai-Ministral-3-14B-Reasoning-2512': 'mistral',
  'llama-vocabularies/templates/unsloth-mistral-Devstral-Small-2507': 'mistral',
  // An id behind the name.
  'llama-vocabularies/templates/Mistral-Small-3.2-24B-Instruct-2506': 'unknown',
  'llama-vocabularies/templates/Qwen3-Coder': 'qwen-xml',
  'llama-vocabularies/templates/StepFun3.5-Flash': 'qwen-xml',
  'llama-vocabularies/templates/GLM-4.6': 'glm',
  // Without lines.
  'llama-vocabularies/templates/GLM-4.7-Flash': 'unknown',
  'llama-vocabularies/templates/ibm-granite-granite-4.0': 'hermes',
  'llama-vocabularies/templates/NousResearch-Hermes-3-Llama-3.1-8B-tool_use': 'hermes',
  'llama-vocabularies/templates/ByteDance-Seed-OSS': 'unknown',
};

function useOf(source: string): string {
  const toolUse = toolUseOf(source);
  return typeof toolUse === 'string' ? toolUse : toolUse.name;
}

test('published templates have the family of their models', () => {
  const found = Object.keys(published).map((name) => {
    const url = new URL(`../../../build/chat-templates/${name}.jinja`, import.meta.url);
    return [name, useOf(readFileSync(url, 'utf8'))];
  });
  assert.equal(Object.fromEntries(found), published);
  assert.is(useOf(toolTemplate), 'hermes');
});

test('so have those that only make check fetches', () => {
  for (const [name, family] of Object.entries(fetchedByCheck)) {
    const url = new URL(`../../../build/${name}.jinja`, import.meta.url);
    if (existsSync(url)) assert.is(useOf(readFileSync(url, 'utf8')), family, name);
  }
});

test('a list of Mistral’s has the space that its template has', () => {
  const of = (text: string) => toolUseOf(`{{ tools }}{{ "${text}" }}`);
  assert.equal(of('[TOOL_CALLS][{'), mistralListFormat());
  assert.equal(of(' [TOOL_CALLS] [{'), mistralListFormat(' '));
  assert.is(of('[TOOL_CALLS]'), 'unknown');
});

test('a template that writes its calls as a list is of no known family', () => {
  const list = '{{ tools }}<tool_call>\\n[{"name": "x", "arguments": {}}]</tool_call>';
  assert.is(useOf(list), 'unknown');
});

test.run();
