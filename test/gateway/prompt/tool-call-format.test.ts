import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { toolUseOf } from '../../../gateway/prompt/tool-call-format.ts';
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
  // Calls as XML.
  qwen3_5_think: 'unknown',
  glm4moe: 'unknown',
  // Other marks.
  gemma4: 'unknown',
  gptoss: 'unknown',
  lfm2: 'unknown',
  llama3: 'none',
  gemma3: 'none',
  phi3_5: 'none',
  deepseek_r1_distill: 'none',
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

test('a template that writes its calls as a list is of no known family', () => {
  const list = '{{ tools }}<tool_call>\\n[{"name": "x", "arguments": {}}]</tool_call>';
  assert.is(useOf(list), 'unknown');
});

test.run();
