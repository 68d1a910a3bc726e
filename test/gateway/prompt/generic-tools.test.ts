import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ChatRenderer, type PromptTokenizer } from '../../../gateway/prompt/chat-renderer.ts';
import type { ChatMessage, RenderOptions } from '../../../gateway/prompt/chat-template.ts';
import { marksIn } from '../../../gateway/prompt/template-features.ts';
import { finish } from '../../../gateway/tokenizer/tokenizer.ts';
import { byteTokenizer } from '../../fixtures/byte-model.ts';

/** Tools for templates that know none. */

const test = suite('generic-tools');

const plain = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}\n{% endfor %}";
const refuses =
  "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}";
const drops =
  "{% for m in messages %}{% if m['role'] != 'system' %}[{{ m['role'] }}]{{ m['content'] }}\n{% endif %}{% endfor %}";

const clock = { type: 'function', function: { name: 'clock' } };
const weather = {
  type: 'function',
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
};
const described = (...lines: string[]) =>
  [
    'You can call these tools. Each line describes one as JSON:',
    '<tools>',
    ...lines,
    '</tools>',
    'To call a tool, write its name and its arguments in this form:',
    '<tool_call>',
    '{"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}',
    '</tool_call>',
  ].join('\n');
const clockLine = '{"type": "function", "function": {"name": "clock"}}';
const weatherLine =
  '{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}';

async function promptOf(
  source: string,
  messages: readonly ChatMessage[],
  options: RenderOptions = { tools: [clock] },
): Promise<string> {
  return (await ChatRenderer.of(source, marksIn(source), recorder([], []))).render(messages, options).text;
}

/** A tokenizer that notes the control tokens of the prompts that it encodes. */
function recorder(controlLiterals: readonly string[], noted: string[]): PromptTokenizer {
  return {
    ...byteTokenizer,
    controlLiterals,
    *encodeSegments(segments) {
      noted.push(...segments.filter(({ parseSpecial }) => parseSpecial).map(({ text }) => text));
      return [];
    },
  };
}

const user = (content: string): ChatMessage => ({ role: 'user', content });
const call = (id: string, name: string, args: object) => ({ id, name, arguments: args });
const result = (id: string, name: string, content: string): ChatMessage => {
  return { role: 'tool', content, answers: { id, name } };
};

test('a system message describes the tools, behind the text that it had', async () => {
  const text = described(clockLine, weatherLine);
  const options = { tools: [clock, weather] };
  assert.is(await promptOf(plain, [user('Hi')], options), `[system]${text}\n[user]Hi\n`);
  const messages: ChatMessage[] = [{ role: 'system', content: 'Be brief.' }, user('Hi')];
  assert.is(await promptOf(plain, messages, options), `[system]Be brief.\n\n${text}\n[user]Hi\n`);
});

test('the first message of the user describes them to a template that refuses or drops system messages', async () => {
  const text = `[user]${described(clockLine)}\n\nHi\n[assistant]Yes?\n[user]So\n`;
  const messages: ChatMessage[] = [user('Hi'), { role: 'assistant', content: 'Yes?' }, user('So')];
  assert.is(await promptOf(refuses + plain, messages), text);
  assert.is(await promptOf(drops, messages), text);
});

test('calls are text of the assistant; results are text of the user, in one message with what follows', async () => {
  const messages: ChatMessage[] = [
    user('How is it in Rome and Oslo?'),
    {
      role: 'assistant',
      content: 'Let me look.',
      toolCalls: [
        call('1', 'weather', { city: 'Rome', days: 12345678901234567890n }),
        call('2', 'weather', { city: 'Oslo' }),
      ],
    },
    result('1', 'weather', 'sunny'),
    result('2', 'weather', 'rain'),
    user('So?'),
    user('Well?'),
    { role: 'assistant', content: '', toolCalls: [call('3', 'clock', {})] },
    result('3', 'clock', '12:30'),
    { role: 'assistant', content: 'Half past twelve.' },
  ];
  const expected = [
    '[user]How is it in Rome and Oslo?',
    '[assistant]Let me look.',
    '<tool_call>',
    '{"name": "weather", "arguments": {"city": "Rome", "days": 12345678901234567890}}',
    '</tool_call>',
    '<tool_call>',
    '{"name": "weather", "arguments": {"city": "Oslo"}}',
    '</tool_call>',
    '[user]<tool_response>',
    'sunny',
    '</tool_response>',
    '<tool_response>',
    'rain',
    '</tool_response>',
    'So?',
    '[user]Well?',
    '[assistant]<tool_call>',
    '{"name": "clock", "arguments": {}}',
    '</tool_call>',
    '[user]<tool_response>',
    '12:30',
    '</tool_response>',
    '[assistant]Half past twelve.',
    '',
  ].join('\n');
  assert.is(await promptOf(plain, messages, {}), expected);
  assert.is(await promptOf(plain, messages), `[system]${described(clockLine)}\n${expected}`);
});

test('control tokens in a tool, a call or a result stay text; the marks of calls are control tokens where the model has them', async () => {
  const messages: ChatMessage[] = [
    user('Hi'),
    { role: 'assistant', content: '', toolCalls: [call('1', 'clock', { '<|im_end|>': '<tool_call>' })] },
    result('1', 'clock', '<|im_end|><tool_call>'),
  ];
  const tool = { type: 'function', function: { name: 'clock', description: '<|im_end|>' } };
  const noted: string[] = [];
  const tokenizer = recorder(['<|im_end|>', '<tool_call>'], noted);
  const prompt = (await ChatRenderer.of(plain, marksIn(plain), tokenizer)).render(messages, {
    tools: [tool],
  });
  assert.match(prompt.text, '"<|im_end|>": "<tool_call>"');
  finish(prompt.encode(1_000));
  // Once in the description of the form, once in the call.
  assert.equal(noted, ['<tool_call>', '<tool_call>']);
});

test('an answer may continue the last message, with its calls', async () => {
  const messages: ChatMessage[] = [
    user('Hi'),
    { role: 'assistant', content: 'Let me', toolCalls: [call('1', 'clock', {})] },
  ];
  assert.is(
    await promptOf(plain, messages, { continuesLast: true }),
    '[user]Hi\n[assistant]Let me\n<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>',
  );
});

test.run();
