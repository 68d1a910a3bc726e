import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { z } from 'zod';
import { calledInert, messageInert, partInert, toolCallInert } from '../../../../gateway/api/chat-message.ts';
import { ANYTHING, type InertFields } from '../../../../gateway/api/inert.ts';
import { chatFields } from '../../../../gateway/api/openai/chat-request.ts';
import { completionFields } from '../../../../gateway/api/openai/completion-request.ts';
import {
  chatInert,
  completionInert,
  embeddingInert,
  sharedInert,
  streamOptionsInert,
} from '../../../../gateway/api/openai/inert-fields.ts';
import { itemInert, partInert as itemPartInert } from '../../../../gateway/api/responses/input-items.ts';
import { responsesFields } from '../../../../gateway/api/responses/request.ts';
import { textInert } from '../../../../gateway/api/responses/text-format.ts';
import type { Log } from '../../../../gateway/telemetry/log.ts';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';

/** Fields that no answer depends on: in the documentation, in OpenAI's own types, and as SDKs and frameworks send them. */

const test = suite('inert fields');

const bytes = (text: string): number[] => [...Buffer.from(text)];

/** The entries of `whole` that are not in `part`. */
function without(whole: InertFields, part: InertFields): InertFields {
  return Object.fromEntries(Object.entries(whole).filter(([name]) => !Object.hasOwn(part, name)));
}

function rowsOf(where: string, table: InertFields): string[] {
  const namesBy = new Map<string, string[]>();
  for (const [name, accepted] of Object.entries(table)) {
    const values = accepted === ANYTHING ? 'anything' : accepted.map((each) => `\`${JSON.stringify(each)}\``);
    const may = typeof values === 'string' ? values : values.join(', ') || 'nothing';
    namesBy.set(may, [...(namesBy.get(may) ?? []), `\`${name}\``]);
  }
  const rows = [...namesBy].map(([may, names]) => `| ${where} | ${may} | ${names.sort().join(', ')} |`);
  return rows.sort();
}

test('docs/api.md has each of them, where it stands and what it may say', () => {
  const rows = [
    ...rowsOf('both', sharedInert),
    ...rowsOf('chat', without(chatInert, sharedInert)),
    ...rowsOf('`messages`', messageInert),
    ...rowsOf('`tool_calls`', toolCallInert),
    ...rowsOf('`tool_calls.function`', calledInert),
    ...rowsOf('parts of `content`', partInert),
    ...rowsOf('`stream_options`', streamOptionsInert),
    ...rowsOf('completions', without(completionInert, sharedInert)),
    ...rowsOf('embeddings', embeddingInert),
  ];
  const docs = readFileSync(new URL('../../../../docs/api.md', import.meta.url), 'utf8');
  const table = /\| where \| may say \| fields \|\n\|---\|---\|---\|\n((?:\|.*\n)+)/.exec(docs)?.[1] ?? '';
  assert.equal(table.trimEnd().split('\n'), rows, `the table should be\n${rows.join('\n')}`);
});

const TYPES = new URL('../../../../node_modules/openai/resources/', import.meta.url);

/** The members of an interface, from the declarations of the openai package. */
function membersOf(file: string, name: string): string[] {
  const declarations = readFileSync(new URL(file, TYPES), 'utf8');
  const body = new RegExp(`^export interface ${name}(?: extends \\w+)? \\{\\n([^]*?)^\\}`, 'm').exec(
    declarations,
  )?.[1];
  assert.ok(body, `${name} is not in ${file}`);
  const members = [...body.matchAll(/^ {4}(\w+)\??: /gm)].map(([, member]) => member as string);
  assert.ok(members.length > 1, `${name} has members`);
  return members;
}

test('each field of the openai package’s types is applied or in these tables', () => {
  const chat = 'chat/completions/completions.d.ts';
  const messageFields = { role: 1, content: 1, tool_calls: 1, tool_call_id: 1, ...messageInert };
  const responses = 'responses/responses.d.ts';
  const item = { type: true, role: true, content: true, ...itemInert };
  const textOfItem = { type: true, text: true, ...itemPartInert };
  const cases: [string, string, Readonly<Record<string, unknown>>][] = [
    [chat, 'ChatCompletionCreateParamsBase', chatFields],
    ['completions.d.ts', 'CompletionCreateParamsBase', completionFields],
    [responses, 'ResponseCreateParamsBase', responsesFields],
    [responses, 'ResponseTextConfig', { format: true, ...textInert }],
    [responses, 'EasyInputMessage', item],
    [responses, 'ResponseOutputMessage', item],
    [responses, 'ResponseInputText', textOfItem],
    [responses, 'ResponseOutputText', textOfItem],
    [chat, 'ChatCompletionStreamOptions', { include_usage: true, ...streamOptionsInert }],
    [chat, 'ChatCompletionContentPartText', { type: true, text: true, ...partInert }],
    ...[
      'ChatCompletionSystemMessageParam',
      'ChatCompletionDeveloperMessageParam',
      'ChatCompletionUserMessageParam',
      'ChatCompletionAssistantMessageParam',
      'ChatCompletionToolMessageParam',
      'ChatCompletionFunctionMessageParam',
      // The message of an answer, which clients send back with the next question.
      'ChatCompletionMessage',
    ].map((name): [string, string, object] => [chat, name, messageFields]),
  ].map(([file, name, known]) => [file, name, known] as [string, string, Record<string, unknown>]);
  for (const [file, name, known] of cases) {
    const unknown = membersOf(file, name).filter((member) => !Object.hasOwn(known, member));
    assert.equal(unknown, [], name);
  }
});

interface Asked {
  readonly status: number;
  readonly ignored: string | null;
  readonly text: string;
  readonly promptIds: readonly number[] | undefined;
  readonly maxTokens: number | undefined;
  readonly topK: number | undefined;
}

async function ask(path: string, body: object): Promise<Asked> {
  const { runner, post } = testApp();
  runner.script = [[EOS_ID]];
  const response = await post(path, body);
  const [request] = runner.requests;
  return {
    status: response.status,
    ignored: response.headers.get('x-runnel-ignored'),
    text: await response.text(),
    promptIds: request?.promptIds,
    maxTokens: request?.maxTokens,
    topK: request?.sampling.topK,
  };
}

const user = { role: 'user', content: 'Hi' };
const chat = (more: object): Promise<Asked> =>
  ask('/v1/chat/completions', { model: 'bytes', messages: [user], ...more });

test('an answer is taken back as SDKs have it, with a name on each message, and so are notes for caches', async () => {
  const { runner, post } = testApp();
  runner.script = [bytes('Hello'), [EOS_ID]];
  const first = await post('/v1/chat/completions', { model: 'bytes', messages: [user] });
  const { choices } = (await first.json()) as { choices: { message: object }[] };
  const named = { ...user, name: 'user_proxy', cache_control: { type: 'ephemeral' } };
  const part = { type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } };
  const answer = {
    ...choices[0]?.message,
    annotations: [],
    audio: null,
    function_call: null,
    tool_calls: [],
    reasoning_content: 'It is a startupBanner.',
    parsed: null,
  };
  const { status, ignored, text, promptIds } = await chat({
    messages: [named, answer, named, { ...user, content: [part, part] }],
    user: 'u',
  });
  assert.is(status, 200, text);
  assert.is(
    ignored,
    'user, messages.name, messages.cache_control, messages.annotations, messages.content.cache_control',
    'each name once',
  );
  const turns = ['user: Hi', 'assistant: Hello', 'user: Hi', 'user: HiHi'];
  assert.equal(
    promptIds,
    turns.flatMap((turn) => [TURN_ID, ...bytes(turn)]),
    'the prompt has what was said, and nothing else',
  );
});

test('an assistant may have said nothing; nobody else may leave the content out', async () => {
  for (const silent of [{ role: 'assistant', content: null }, { role: 'assistant' }]) {
    const { status, promptIds } = await chat({ messages: [user, silent, user] });
    assert.is(status, 200);
    assert.equal(promptIds?.slice(9, 21), [TURN_ID, ...bytes('assistant: ').slice(0, 11)]);
  }
  for (const role of ['user', 'system', 'developer']) {
    const { status, text } = await chat({ messages: [{ role, content: null }] });
    assert.is(status, 400);
    assert.match(text, 'messages.0.content is required');
  }
});

test('null is absent at every depth', async () => {
  const { status, ignored, text } = await chat({
    messages: [
      { ...user, name: null, tool_calls: null, content: [{ type: 'text', text: 'Hi', cache_control: null }] },
    ],
    response_format: { type: 'text', json_schema: null },
    stream_options: { include_usage: null, include_obfuscation: null },
    stream: true,
    user: null,
    metadata: null,
    unheard_of: null,
  });
  assert.is(status, 200, text);
  assert.is(ignored, null, 'what is absent is not ignored');
});

test('stream options without a stream are ignored and reported', async () => {
  const { status, ignored } = await chat({ stream_options: { include_usage: true } });
  assert.equal([status, ignored], [200, 'stream_options']);
  assert.is((await chat({ stream_options: { include_usage: true }, stream: true })).ignored, null);
});

test('peers’ words for no limit are understood', async () => {
  assert.equal((await chat({ top_k: -1, max_tokens: -1, stop: '' })).topK, 0);
  const left = 512 - 9;
  for (const name of ['max_tokens', 'max_completion_tokens'])
    assert.is((await chat({ [name]: -1 })).maxTokens, left, name);
  const complete = (more: object) => ask('/v1/completions', { model: 'bytes', prompt: 'Hi', ...more });
  assert.is((await complete({ max_tokens: -1 })).maxTokens, 510);
  assert.is((await complete({})).maxTokens, 16);
  assert.is((await complete({ best_of: 1 })).status, 200);
  const contradiction = await complete({ best_of: 1, n: 2 });
  assert.is(contradiction.status, 400);
  assert.match(contradiction.text, 'best_of');
});

async function refusalOf(body: object): Promise<{ param: string; code: string; message: string }> {
  const { status, text } = await chat(body);
  assert.is(status, 400, text);
  return (JSON.parse(text) as { error: { param: string; code: string; message: string } }).error;
}

test('fields that would change an answer are refused as unsupported, with their path', async () => {
  const cases: [object, string, string][] = [
    [{ messages: [user, { ...user, refusal: 'No.' }] }, 'messages.1.refusal', 'leave it out or send ""'],
    [{ messages: [{ role: 'function', content: 'x' }] }, 'messages.0.role', 'the role "tool"'],
    [
      { messages: [{ ...user, content: [{ type: 'image_url', image_url: { url: 'data:' } }] }] },
      'messages.0.content.0.type',
      'models read text',
    ],
    [
      { stream: true, stream_options: { include_obfuscation: true } },
      'stream_options.include_obfuscation',
      'false',
    ],
    [{ function_call: 'required' }, 'function_call', '"none"'],
    [{ tools: [{ type: 'custom', custom: { name: 'x' } }] }, 'tools.0.type', 'type "function"'],
    [{ web_search_options: {} }, 'web_search_options', 'leave it out'],
  ];
  for (const [body, field, words] of cases) {
    const { param, code, message } = await refusalOf(body);
    assert.equal([param, code], [field, 'unsupported_parameter']);
    assert.match(message, `${field} is not supported`);
    assert.match(message, words);
    const faults = message.match(/ (is|must|has|needs) /g) ?? [];
    assert.is(faults.length, 1, `of one fault, one sentence: ${message}`);
  }
});

test('the debug log lists ignored fields by name only', async () => {
  const lines: Record<string, unknown>[] = [];
  const quiet = () => {};
  const debug = (fields: Record<string, unknown>) => lines.push(fields);
  const log = { debug, info: quiet, warn: quiet, error: quiet } as unknown as Log;
  const { runner, post } = testApp({ log });
  runner.script = [[EOS_ID]];
  const body = { model: 'bytes', prompt: 'Hi', user: 'a person', metadata: { secret: 'x' } };
  await (await post('/v1/completions', body, { 'x-request-id': 'r-1' })).text();
  assert.equal(lines, [
    { event: 'fields_ignored', fields: ['user', 'metadata'], path: '/v1/completions', request_id: 'r-1' },
  ]);
});

/** Tries a value of every kind in every field. Every error must be a sentence of ours. */
test('no refusal speaks the language of a library', async () => {
  const wrong = [
    7,
    -1.5,
    10n ** 20n,
    'x',
    '',
    true,
    [],
    [7],
    [[]],
    ['x', 7],
    {},
    { other: 1 },
    [{}],
    [{ role: 'x' }],
  ];
  const jargon = /invalid input|invalid option|expected|received|unrecognized|too (big|small)|undefined|NaN/i;
  const routes: [string, Readonly<Record<string, z.ZodType>>, object][] = [
    ['/v1/chat/completions', chatFields, { model: 'bytes', messages: [user] }],
    ['/v1/completions', completionFields, { model: 'bytes', prompt: 'Hi' }],
    ['/v1/responses', responsesFields, { model: 'bytes', input: 'Hi' }],
  ];
  const { runner, post } = testApp();
  for (const [path, fields, base] of routes) {
    for (const name of [...Object.keys(fields), 'unheard_of']) {
      for (const value of wrong) {
        runner.script = [[EOS_ID]];
        const body = JSON.stringify({ ...base, [name]: value }, (_, inner: unknown) =>
          typeof inner === 'bigint' ? Number(inner) : inner,
        );
        const response = await post(path, body);
        if (response.status === 200) {
          await response.body?.cancel();
          continue;
        }
        const { error } = (await response.json()) as { error: { message: string; param: string } };
        assert.not.match(error.message, jargon, `${name}: ${error.message}`);
        // A model that is not found is named by its value.
        if (error.param !== 'model') assert.ok(error.message.includes(name), `${name}: ${error.message}`);
        assert.ok(error.param.startsWith(name), `${name}: ${error.param}`);
      }
    }
  }
});

test.run();
