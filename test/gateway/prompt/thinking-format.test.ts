import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { marksIn } from '../../../gateway/prompt/template-features.ts';
import { promptEndOf, thinkingOf } from '../../../gateway/prompt/thinking-format.ts';

/** Which published templates belong to models that think; docs/thinking.md says the same. */

const test = suite('thinking-format');

/** The member in which each template looks for thoughts. none: its model thinks, but it looks nowhere; undefined: no thinking. */
const published: Readonly<Record<string, string | undefined>> = {
  qwen3: 'reasoning_content',
  qwen3_5_think: 'reasoning_content',
  glm4moe: 'reasoning_content',
  nemotron_3_nano: 'reasoning_content',
  deepseek_r1_distill: 'none',
  qwen2_5: undefined,
  qwen3_instruct_2507: undefined,
  llama3_1: undefined,
  gemma3: undefined,
  gptoss: 'thinking',
  // This model thinks with other marks.
  gemma4: undefined,
};

test('published templates think as their models do', () => {
  const found = Object.keys(published).map((name) => {
    const url = new URL(`../../../build/chat-templates/${name}.jinja`, import.meta.url);
    const { thinking: format } = marksIn(readFileSync(url, 'utf8'));
    return [name, format && (format.member ?? 'none')];
  });
  assert.equal(Object.fromEntries(found), published);
});

test('the end of a prompt shows whether its answer thinks', () => {
  const format = thinkingOf('</think>{{ message.thinking }}');
  assert.ok(format);
  assert.is(format.member, 'thinking');
  const ends = {
    'assistant\n<think>\n': 'open',
    '<think>': 'open',
    'assistant\n<think>\n\n</think>\n\n': 'closed',
    '<think></think>': 'closed',
    'assistant\n': 'free',
    '<think> hm': 'free',
    '': 'free',
  };
  for (const [tail, end] of Object.entries(ends))
    assert.is(promptEndOf(format, tail), end, JSON.stringify(tail));
});

test.run();
