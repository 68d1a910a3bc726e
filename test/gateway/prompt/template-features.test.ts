import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { templateFacts } from '../../../gateway/prompt/template-features.ts';

const test = suite('template-features');

function featuresOf(name: string): readonly string[] {
  const source = readFileSync(
    new URL(`../../../build/chat-templates/${name}.jinja`, import.meta.url),
    'utf8',
  );
  return templateFacts(source).features;
}

test('templates of real models look at what they are known for', () => {
  const chat = ['system', 'generation_prompt'];
  assert.equal(featuresOf('phi3'), chat);
  const tools = ['system', 'tools', 'tool_calls', 'tool_results'];
  assert.equal(featuresOf('qwen2_5'), [...tools, 'generation_prompt']);
  assert.equal(featuresOf('llama3_1'), [...tools, 'generation_prompt']);
  assert.equal(featuresOf('qwen3'), [...tools, 'thinking', 'generation_prompt']);
  assert.equal(featuresOf('gemma3'), ['system', 'images', 'generation_prompt']);
});

test('words of the text that a template writes are no features', () => {
  assert.equal(templateFacts('You have tools and an image. {{ messages[0].content }}').features, []);
});

test('a template that cannot be parsed has a fault, and so has one that nests too deep', () => {
  assert.equal(templateFacts('{% if %}'), {
    features: [],
    fault: 'It cannot be parsed: there is an unexpected "%}" in line 1.',
  });
  assert.is(templateFacts(`{{ ${'('.repeat(100_000)}1${')'.repeat(100_000)} }}`).fault, 'It nests too deep.');
});

test.run();
