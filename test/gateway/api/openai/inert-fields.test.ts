import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { z } from 'zod';
import { messageIgnored, partIgnored } from '../../../../gateway/api/conversation.ts';
import { chat } from '../../../../gateway/api/openai/chat-request.ts';
import { completions } from '../../../../gateway/api/openai/completion-request.ts';
import { streamOptionsIgnored } from '../../../../gateway/api/openai/fields.ts';
import {
  itemIgnored,
  partIgnored as itemPartIgnored,
  responsesBody,
  textIgnored,
} from '../../../../gateway/api/responses/request.ts';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';

/** Fields that no answer depends on: in OpenAI's own types, and as SDKs and frameworks send them. */

const test = suite('inert fields');

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
  const chats = 'chat/completions/completions.d.ts';
  const messageFields = { role: 1, content: 1, tool_calls: 1, tool_call_id: 1, ...messageIgnored };
  const responses = 'responses/responses.d.ts';
  const item = { type: true, role: true, content: true, ...itemIgnored };
  const textOfItem = { type: true, text: true, ...itemPartIgnored };
  const cases: [string, string, Readonly<Record<string, unknown>>][] = [
    [chats, 'ChatCompletionCreateParamsBase', chat.body.shape],
    ['completions.d.ts', 'CompletionCreateParamsBase', completions.body.shape],
    [responses, 'ResponseCreateParamsBase', responsesBody.shape],
    [responses, 'ResponseTextConfig', { format: true, ...textIgnored }],
    [responses, 'EasyInputMessage', item],
    [responses, 'ResponseOutputMessage', item],
    [responses, 'ResponseInputText', textOfItem],
    [responses, 'ResponseOutputText', textOfItem],
    [chats, 'ChatCompletionStreamOptions', { include_usage: true, ...streamOptionsIgnored }],
    [chats, 'ChatCompletionContentPartText', { type: true, text: true, ...partIgnored }],
    ...[
      'ChatCompletionSystemMessageParam',
      'ChatCompletionDeveloperMessageParam',
      'ChatCompletionUserMessageParam',
      'ChatCompletionAssistantMessageParam',
      'ChatCompletionToolMessageParam',
      'ChatCompletionFunctionMessageParam',
      // The message of an answer, which clients send back with the next question.
      'ChatCompletionMessage',
    ].map((name): [string, string, object] => [chats, name, messageFields]),
  ].map(([file, name, known]) => [file, name, known] as [string, string, Record<string, unknown>]);
  for (const [file, name, known] of cases) {
    const unknown = membersOf(file, name).filter((member) => !Object.hasOwn(known, member));
    assert.equal(unknown, [], name);
  }
});

const user = { role: 'user', content: 'Hi' };
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
    ['/v1/chat/completions', chat.body.shape, { model: 'bytes', messages: [user] }],
    ['/v1/completions', completions.body.shape, { model: 'bytes', prompt: 'Hi' }],
    ['/v1/responses', responsesBody.shape, { model: 'bytes', input: 'Hi' }],
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
