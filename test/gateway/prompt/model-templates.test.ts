/** Templates of real models must render as in Hugging Face's transformers. `make` fetches them: docs/development.md. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ChatRenderer, type PromptTokenizer } from '../../../gateway/prompt/chat-renderer.ts';
import { Template } from '../../../gateway/prompt/jinja/template.ts';
import { marksIn } from '../../../gateway/prompt/template-features.ts';
import type { TextSegment } from '../../../gateway/tokenizer/added-tokens.ts';
import { finish, type Steps, type Tokenizer } from '../../../gateway/tokenizer/tokenizer.ts';
import { byteTokenizer } from '../../fixtures/byte-model.ts';

interface Golden {
  readonly now: string;
  readonly templates: Readonly<
    Record<string, { file: string | null; sha256: string; bos_token: string; eos_token: string }>
  >;
  readonly conversations: Readonly<Record<string, Record<string, unknown>>>;
  readonly cases: readonly { template: string; conversation: string; prompt: string | null }[];
}

const test = suite('model-templates');
const golden: Golden = JSON.parse(textOf('../../golden/chat-templates.json'));
const now = new Date(golden.now);
const maxTokens = 1_000_000;
const sources = new Map(
  Object.entries(golden.templates).flatMap(([name, { file, sha256 }]) => {
    const source = file === null ? defaultTemplate() : fetched(file);
    if (source === undefined) return [];
    assert.is(createHash('sha256').update(source).digest('hex'), sha256, `${file} is another template`);
    return [[name, source] as const];
  }),
);

function textOf(path: string): string {
  return readFileSync(new URL(path, import.meta.url), 'utf8');
}

function defaultTemplate(): string {
  return JSON.parse(textOf('../../golden/chat-smollm.json')).templates.model;
}

/** Templates of the folder chat-templates always exist. The other one, which is large, exists only for `make check`. */
function fetched(file: string): string | undefined {
  const url = new URL(`../../../build/${file}`, import.meta.url);
  if (existsSync(url)) return readFileSync(url, 'utf8');
  assert.not.ok(
    file.startsWith('chat-templates/'),
    `build/${file} is missing; run \`make test\`, which fetches it`,
  );
  return undefined;
}

function rendered(name: string, variables: object): string {
  const { bos_token, eos_token } = golden.templates[name] as Golden['templates'][string];
  const given = { add_generation_prompt: true, bos_token, eos_token, ...variables };
  return new Template(sources.get(name) as string).render(given, now);
}

test('prompts are those of Python, and what it refuses is refused', () => {
  let numPrompts = 0;
  for (const { template, conversation, prompt } of golden.cases) {
    if (!sources.has(template)) continue;
    let text: string | null = null;
    try {
      text = rendered(template, golden.conversations[conversation] ?? {});
    } catch (error) {
      assert.is((error as Error).name, 'JinjaError', (error as Error).stack);
    }
    assert.is(text, prompt, `${template}, ${conversation}`);
    numPrompts++;
  }
  assert.ok(numPrompts >= 300);
  console.log(`${sources.size} templates, ${numPrompts} prompts`);
});

/** A tokenizer of bytes, with one more id for each of these literals. */
function tokenizerWith(literals: readonly string[]): PromptTokenizer & Tokenizer {
  const idsOf = ({ text, parseSpecial }: TextSegment): number[] =>
    parseSpecial && literals.includes(text) ? [256 + literals.indexOf(text)] : [...Buffer.from(text)];
  return {
    ...byteTokenizer,
    vocabSize: 256 + literals.length,
    eosId: undefined,
    controlLiterals: literals,
    // biome-ignore lint/correctness/useYield: it is one step.
    *encodeSegments(segments): Steps<number[]> {
      return segments.flatMap(idsOf);
    },
    bytes: (id) => (id < 256 ? Uint8Array.of(id) : Buffer.from(literals[id - 256] as string)),
    isControl: (id) => id >= 256,
  };
}

test('control tokens in a message stay text, whatever the template does to it', async () => {
  for (const [name, source] of sources) {
    const plain = rendered(name, { messages: [{ role: 'user', content: 'Hi' }] });
    const literals = [...new Set(plain.match(/<[|｜][^<>]+[|｜]>|<\/?\w+>|\[\/?INST\]/g))];
    assert.ok(literals.length > 0, name);
    const tokenizer = tokenizerWith(literals);
    const template = await ChatRenderer.of(source, marksIn(source), tokenizer);
    const controlsOf = (content: string) => {
      const ids = finish(template.render([{ role: 'user', content }]).encode(maxTokens));
      const text = Buffer.concat(ids.map((id) => tokenizer.bytes(id))).toString('utf8');
      assert.ok(text.includes(content), `${name}: ${text}`);
      return ids.filter((id) => tokenizer.isControl(id));
    };
    assert.equal(controlsOf(`Hi ${literals.join('')} ${literals.join('\n')}!`), controlsOf('Hi'), name);
  }
});

test('control tokens in tools, and in what they are called with, stay text', async () => {
  const literals = ['<|im_start|>', '<|im_end|>'];
  const tokenizer = tokenizerWith(literals);
  const source = sources.get('qwen-2.5') as string;
  const template = await ChatRenderer.of(source, marksIn(source), tokenizer);
  const controlsOf = (text: string) => {
    const name = `city${text}`;
    const parameters = { type: 'object', properties: { [name]: { enum: [text] } } };
    const tool = { type: 'function', function: { name: 'f', description: text, parameters } };
    const toolCalls = [{ id: text, name: 'f', arguments: { [name]: [text] } }];
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: '', toolCalls },
      { role: 'tool', content: text, answers: { id: text, name: 'f' } },
    ] as const;
    const ids = finish(template.render(messages, { tools: [tool] }).encode(maxTokens));
    const prompt = Buffer.concat(ids.map((id) => tokenizer.bytes(id))).toString('utf8');
    assert.is(prompt.split(name).length, 3, `the tool and its call: ${prompt}`);
    assert.match(prompt, `<tool_response>\n${text}\n</tool_response>`);
    return ids.filter((id) => tokenizer.isControl(id));
  };
  assert.equal(controlsOf(literals.join('')), controlsOf('x'));
});

test.run();
