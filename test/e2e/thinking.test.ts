import { readFileSync } from 'node:fs';
import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { withChatTemplate } from '../fixtures/gguf-template.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { thinkingTemplate } from '../fixtures/thinking-template.ts';

/**
 * Thinking by the official clients, with the default model's weights and the template of a model that thinks. This model has not
 * learnt to end its thinking, so budgets end it.
 */

const test = suite('thinking');
const folder = temporaryFolder();

const path = folder.write('thinking.gguf', withChatTemplate(readFileSync(DEFAULT_MODEL), thinkingTemplate));
const gateway = await Gateway.during(test, path);
const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none', maxRetries: 0 });

const question = { role: 'user' as const, content: 'What is the capital of France?' };
const BUDGET = 24;
const schema = {
  type: 'object',
  properties: { capital: { type: 'string', maxLength: 12 }, country: { type: 'string', maxLength: 12 } },
  required: ['capital', 'country'],
};
const base = {
  model: 'thinking',
  temperature: 0.7,
  seed: 3,
  max_tokens: 120,
  messages: [question],
  // With a form the answer cannot end while it thinks.
  response_format: { type: 'json_schema' as const, json_schema: { name: 'answer', schema } },
  thinking_token_budget: BUDGET,
};

/** A message with the member that OpenAI's types lack. */
type Thoughtful = { readonly content?: string | null; readonly reasoning_content?: string };

interface Said {
  readonly thought: string;
  readonly text: string;
}

async function whole(more: object = {}): Promise<Said> {
  const answer = await client.chat.completions.create({ ...base, ...more });
  const message: Thoughtful | undefined = answer.choices[0]?.message;
  return { thought: message?.reasoning_content ?? '', text: message?.content ?? '' };
}

/** Streams an answer. onChunk: gets the part that each piece belongs to, and how many pieces of that part have arrived. */
async function streamed(onChunk: (part: keyof Said, count: number) => Promise<void> | void): Promise<Said> {
  const said = { thought: '', text: '' };
  const counts = { thought: 0, text: 0 };
  for await (const chunk of await client.chat.completions.create({ ...base, stream: true })) {
    const delta: Thoughtful | undefined = chunk.choices[0]?.delta;
    if (delta?.reasoning_content !== undefined) {
      assert.is(said.text, '', 'nothing is thought behind the answer');
      said.thought += delta.reasoning_content;
      await onChunk('thought', ++counts.thought);
    }
    if (delta?.content) {
      said.text += delta.content;
      await onChunk('text', ++counts.text);
    }
  }
  return said;
}

test('thinking takes as many tokens as its budget, and what follows has the form that was asked for', async () => {
  const answer = await client.chat.completions.create(base);
  const numEnd = answer.usage?.completion_tokens_details?.reasoning_tokens ?? 0;
  assert.ok(numEnd > BUDGET && numEnd <= BUDGET + '</think>'.length, `${numEnd}`);
  const { thought, text } = await whole();
  assert.equal(Object.keys(JSON.parse(text)), ['capital', 'country']);
  assert.not.match(thought + text, 'think>');
  // With a larger budget, the tokens within the smaller one stay the same.
  const longer = await whole({ thinking_token_budget: 2 * BUDGET });
  assert.ok(longer.thought.startsWith(thought.trimEnd()) && longer.thought.length > thought.length);
});

test('a stream has the same as a whole answer, also when the runner is killed in its thinking and in its answer', async () => {
  const undisturbed = await whole();
  assert.equal(await streamed(() => {}), undisturbed);
  const restarts = await gateway.restarts();
  const killed = await streamed(async (_part, count) => {
    if (count === 3) await gateway.killRunner();
  });
  assert.equal(killed, undisturbed);
  assert.is(await gateway.restarts(), restarts + 2);
});

test('an answer with thinking disabled does not think', async () => {
  for (const off of [{ reasoning_effort: 'none' }, { chat_template_kwargs: { enable_thinking: false } }]) {
    const { thought, text } = await whole({ ...off, thinking_token_budget: null });
    assert.is(thought, '');
    assert.equal(Object.keys(JSON.parse(text)), ['capital', 'country']);
  }
});

test('tool calls come after the thinking', async () => {
  const parameters = {
    type: 'object',
    properties: { city: { type: 'string', pattern: '^[A-Z][a-z]{2,9}$' } },
  };
  const answer = await client.chat.completions.create({
    ...{ ...base, response_format: { type: 'text' } },
    tools: [
      { type: 'function', function: { name: 'weather', parameters: { ...parameters, required: ['city'] } } },
    ],
    tool_choice: 'required',
    parallel_tool_calls: false,
  });
  const [choice] = answer.choices;
  const message: Thoughtful | undefined = choice?.message;
  assert.ok((message?.reasoning_content ?? '').length > 0);
  const [call] = choice?.message.tool_calls ?? [];
  assert.ok(call?.type === 'function');
  assert.match(JSON.parse(call.function.arguments).city, /^[A-Z][a-z]{2,9}$/);
});

test('the template gets earlier thinking in its own place', async () => {
  const said = { role: 'assistant', content: 'Paris.', reasoning_content: 'Hm.' };
  const response = await gateway.post('/apply-template', { messages: [question, said, question] });
  const { prompt } = (await response.json()) as { prompt: string };
  assert.match(prompt, '<|im_start|>assistant\n<think>\nHm.\n</think>\n\nParis.<|im_end|>');
  assert.ok(prompt.endsWith('<|im_start|>assistant\n<think>\n'));
});

test('Anthropic’s client gets thinking blocks and sends them back', async () => {
  const anthropic = new Anthropic({ baseURL: gateway.url, apiKey: 'none', maxRetries: 0 });
  const asked = { model: 'thinking', max_tokens: 60, temperature: 0, messages: [question] };
  const stream = anthropic.messages.stream({ ...asked, thinking: { type: 'enabled', budget_tokens: 4 } });
  let heard = '';
  stream.on('thinking', (delta) => {
    heard += delta;
  });
  const { content } = await stream.finalMessage();
  const [thought, text] = content;
  assert.ok(thought?.type === 'thinking' && thought.signature !== '' && text?.type === 'text');
  assert.ok(thought.thinking !== '' && text.text !== '');
  assert.is(heard, thought.thinking);
  const again = await anthropic.messages.create({
    ...asked,
    messages: [question, { role: 'assistant', content }, question],
  });
  assert.equal(
    again.content.map(({ type }) => type),
    ['text'],
  );
});

test('Ollama’s client gets thinking beside the text, unless it opts out', async () => {
  const ollama = new Ollama({ host: gateway.url });
  const asked = { model: 'thinking', messages: [question], options: { temperature: 0, num_predict: 20 } };
  const { message } = await ollama.chat({ ...asked, think: true });
  assert.ok((message.thinking ?? '') !== '');
  let thinking = '';
  for await (const part of await ollama.chat({ ...asked, think: true, stream: true }))
    thinking += part.message.thinking ?? '';
  assert.is(thinking, message.thinking);
  const off = await ollama.chat({ ...asked, think: false });
  assert.ok(off.message.content !== '' && off.message.thinking === undefined);
});

test('a budget by OpenAI’s responses and by Ollama’s client gives what it gives in a chat', async () => {
  const { temperature, seed } = base;
  const form = { name: 'answer', schema, strict: true };
  const expected = await whole({ response_format: { type: 'json_schema', json_schema: form } });
  assert.equal([expected.thought !== '', Object.keys(JSON.parse(expected.text)).length], [true, 2]);
  // The types of both clients lack this field.
  const asked: OpenAI.Responses.ResponseCreateParamsNonStreaming & { readonly seed: number } = {
    ...{ model: 'thinking', input: question.content, temperature, seed, max_output_tokens: 120 },
    ...{ text: { format: { type: 'json_schema', ...form } }, thinking_token_budget: BUDGET },
  };
  const response = await client.responses.create(asked);
  const [item] = response.output;
  assert.ok(item?.type === 'reasoning');
  assert.equal({ thought: item.content?.[0]?.text, text: response.output_text }, expected);
  const options = { temperature, seed, num_predict: 120, top_k: 0, top_p: 1 };
  const ollama = new Ollama({ host: gateway.url });
  const { message } = await ollama.chat({
    ...{ model: 'thinking', messages: [question], format: schema },
    options: { ...options, ...{ thinking_token_budget: BUDGET } },
  });
  assert.equal({ thought: message.thinking, text: message.content }, expected);
});

test('a response has its thinking as a separate item', async () => {
  const response = await client.responses.create({
    ...{ model: 'thinking', input: question.content, temperature: 0, max_output_tokens: 20 },
    reasoning: { effort: 'low' },
  });
  const [item] = response.output;
  assert.ok(item?.type === 'reasoning' && item.content?.[0]?.text !== '');
  assert.ok((response.usage?.output_tokens_details.reasoning_tokens ?? 0) > 0);
});

test.run();
