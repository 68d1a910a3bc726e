import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ChatRenderer } from '../../../gateway/prompt/chat-renderer.ts';
import type { ChatMessage, RenderOptions } from '../../../gateway/prompt/chat-template.ts';
import { marksIn } from '../../../gateway/prompt/template-features.ts';
import { harmonyTokenizer } from '../../fixtures/harmony-model.ts';

/** What the template of gpt-oss makes of conversations. */

const test = suite('harmony-conversation');

const url = new URL('../../../build/chat-templates/gptoss.jinja', import.meta.url);
const source = readFileSync(url, 'utf8');

/** The prompt behind the system's message. */
async function promptOf(messages: readonly ChatMessage[], options?: RenderOptions): Promise<string> {
  const encodeSegments = (): never => {
    throw new Error('Only the text is made.');
  };
  const tokenizer = { ...harmonyTokenizer, encodeSegments };
  const renderer = await ChatRenderer.of(source, marksIn(source), tokenizer);
  return renderer.render(messages, options).text;
}

const behindSystem = async (messages: readonly ChatMessage[]) =>
  (await promptOf(messages)).replace(/^<\|start\|>system.*?<\|end\|>/s, '');

const user: ChatMessage = { role: 'user', content: 'Hi' };
const call = (id: string) => ({ id, name: `f_${id}`, arguments: { at: id } });
const result = (id: string): ChatMessage => {
  return { role: 'tool', content: `of ${id}`, answers: { id, name: `f_${id}` } };
};
const called = (id: string) =>
  `<|start|>assistant to=functions.f_${id}<|channel|>commentary json<|message|>{"at": "${id}"}<|call|>`;
const answered = (id: string) =>
  `<|start|>functions.f_${id} to=assistant<|channel|>commentary<|message|>"of ${id}"<|end|>`;
const thought = (text: string) => `<|start|>assistant<|channel|>analysis<|message|>${text}<|end|>`;
const asked = '<|start|>user<|message|>Hi<|end|>';
const begun = '<|start|>assistant';

test('the thinking before a call, its text, and its result are told', async () => {
  const assistant: ChatMessage = { role: 'assistant', content: '', reasoning: 'Hm.', toolCalls: [call('a')] };
  assert.is(
    await behindSystem([user, assistant, result('a')]),
    asked + thought('Hm.') + called('a') + answered('a') + begun,
  );
  assert.is(
    await behindSystem([user, { ...assistant, content: 'Look.' }, result('a')]),
    asked + thought('Hm.\n\nLook.') + called('a') + answered('a') + begun,
  );
});

test('each of several calls is told before its result, in whatever order the results are', async () => {
  const toolCalls = ['a', 'b', 'c'].map(call);
  const assistant: ChatMessage = { role: 'assistant', content: '', reasoning: 'Hm.', toolCalls };
  assert.is(
    await behindSystem([user, assistant, result('b'), result('a'), result('c'), user]),
    asked +
      [
        called('b'),
        answered('b'),
        thought('Hm.'),
        called('a'),
        answered('a'),
        called('c'),
        answered('c'),
      ].join('') +
      asked +
      begun,
  );
  assert.is(
    await behindSystem([user, assistant]),
    asked + thought('Hm.') + called('a') + called('b') + called('c') + begun,
  );
  // Those without a result come last.
  assert.is(
    await behindSystem([user, assistant, result('a'), user]),
    asked + thought('Hm.') + called('a') + answered('a') + called('b') + called('c') + asked + begun,
  );
});

test('the thinking before a final text is left out, as the template has it', async () => {
  const assistant: ChatMessage = { role: 'assistant', content: 'Yes.', reasoning: 'Hm.' };
  const final = '<|start|>assistant<|channel|>final<|message|>Yes.<|end|>';
  assert.is(await behindSystem([user, assistant, user]), asked + final + asked + begun);
});

test('a tool needs no description', async () => {
  const described = { name: 'g', description: 'Of a city.' };
  const tools = [{ name: 'f' }, described].map((each) => ({ type: 'function', function: each }));
  const prompt = await promptOf([user], { tools });
  assert.match(prompt, '// \ntype f = () => any;\n\n// Of a city.\ntype g = () => any;');
});

test('the effort and the built-in tools are told', async () => {
  const variables = { reasoning_effort: 'high', builtin_tools: ['python'] };
  const prompt = await promptOf([user], { variables });
  assert.match(prompt, 'Reasoning: high\n');
  assert.match(prompt, '## python');
  assert.match(await promptOf([user]), 'Reasoning: medium\n');
});

test('a text that is continued ends the prompt', async () => {
  const messages: ChatMessage[] = [user, { role: 'assistant', content: 'It is' }];
  const prompt = await promptOf(messages, { continuesLast: true });
  assert.ok(prompt.endsWith('<|start|>assistant<|channel|>final<|message|>It is'), prompt.slice(-80));
});

test.run();
