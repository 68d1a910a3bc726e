import { PassThrough } from 'node:stream';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ChatSession } from '../../../../gateway/cli/chat/session.ts';
import { Server } from '../../../../gateway/client/server.ts';
import { OpenAiServer, writeAnswer, writeText, writeThought } from '../../../fixtures/openai-server.ts';
import { PATIENCE_MS, until, within } from '../../../fixtures/within.ts';

const CTRL_C = '\x03';

const test = suite<{ fake: OpenAiServer; server: Server }>('chat session');

test.before.each(async (context) => {
  context.fake = await OpenAiServer.start();
  context.server = new Server({ url: context.fake.url, key: undefined, silenceMs: 10_000 });
});
test.after.each(async ({ fake, server }) => {
  server.close();
  await fake.stop();
});

interface Talk {
  readonly input: PassThrough;
  readonly ended: Promise<void>;
  readonly shown: () => string;
}

function talk(
  server: Server,
  changes: { isTerminal?: boolean; isJson?: boolean; system?: string } = {},
): Talk {
  const input = new PassThrough();
  const output = new PassThrough();
  let text = '';
  output.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  const session = new ChatSession({
    input,
    output,
    isTerminal: false,
    isJson: false,
    hasColours: false,
    server,
    system: undefined,
    fields: { model: 'scripted' },
    ...changes,
  });
  const ended = within(PATIENCE_MS, 'The end of the chat', session.run());
  ended.catch(() => {});
  return { input, ended, shown: () => text };
}

function shows({ shown }: Talk, pattern: RegExp): Promise<void> {
  return until(PATIENCE_MS, `The chat to show ${pattern}`, () => pattern.test(shown()));
}

/** The messages of the last request. */
function asked({ bodies }: OpenAiServer): unknown {
  return bodies.at(-1)?.messages;
}

const user = (content: string) => ({ role: 'user', content });
const assistant = (content: string) => ({ role: 'assistant', content });

test('without a terminal each line is a message, and each answer has what was said before', async ({
  fake,
  server,
}) => {
  const chat = talk(server, { system: 'Be brief.' });
  chat.input.end('one\n\n"""two\nlines"""\n');
  await chat.ended;
  assert.is(chat.shown(), 'Hello\nHello\n');
  assert.equal(asked(fake), [
    { role: 'system', content: 'Be brief.' },
    user('one'),
    assistant('Hello'),
    user('two\nlines'),
  ]);
});

test('with --json there is a line for each answer', async ({ server }) => {
  const chat = talk(server, { isJson: true });
  chat.input.end('one\n');
  await chat.ended;
  const answer = JSON.parse(chat.shown());
  assert.is(answer.text, 'Hello');
  assert.is(answer.finish, 'stop');
  assert.is(answer.usage.completion_tokens, 2);
});

test('/clear, /system and /exit work, unknown commands are named, and fences join lines', async ({
  fake,
  server,
}) => {
  const chat = talk(server, { isTerminal: true });
  chat.input.write('one\n/clear\n/system Sing.\n/nonsense\n"""/two"""\n/exit\nnever\n');
  await chat.ended;
  assert.equal(asked(fake), [{ role: 'system', content: 'Sing.' }, user('/two')]);
  assert.match(chat.shown(), /There is no command \/nonsense/);
  assert.is(fake.bodies.length, 2);
});

test('a terminal shows the pace, and no control characters of the model', async ({ fake, server }) => {
  fake.answer = (response) => {
    writeText(response, 'a\x1b[2Jb\n');
    response.end('data: {"choices":[{"delta":{},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n');
  };
  const chat = talk(server, { isTerminal: true });
  chat.input.write('one\n');
  await shows(chat, /a\\u001b\[2Jb\r?\n/);
  await shows(chat, /\[1 tokens, first after [\d.]+ s, cut off at the token limit\]/);
  chat.input.write('/exit\n');
  await chat.ended;
});

test('a terminal shows thinking before the answer, which alone joins the conversation', async ({
  fake,
  server,
}) => {
  fake.answer = (response) => {
    writeThought(response, 'Hm.');
    writeAnswer(response, ['Hel', 'lo']);
  };
  const chat = talk(server, { isTerminal: true });
  chat.input.write('one\ntwo\n/exit\n');
  await chat.ended;
  assert.match(chat.shown(), /Hm\.\r?\n\r?\nHello\r?\n/);
  assert.equal(asked(fake), [user('one'), assistant('Hello'), user('two')]);
  const piped = talk(server);
  piped.input.end('one\n');
  await piped.ended;
  assert.is(piped.shown(), 'Hello\n');
});

test('Ctrl-C stops the answer, which stays in the conversation; a second one leaves', async ({
  fake,
  server,
}) => {
  let isGone = false;
  fake.answer = (response) => {
    response.on('close', () => {
      isGone = true;
    });
    writeText(response, 'endless');
  };
  const chat = talk(server, { isTerminal: true });
  chat.input.write('one\n');
  await shows(chat, /endless/);
  chat.input.write(CTRL_C);
  await until(PATIENCE_MS, 'The server to be left', () => isGone);
  await shows(chat, /tokens, /);
  fake.answer = (response) => void response.end('data: [DONE]\n\n');
  chat.input.write('two\n');
  await until(PATIENCE_MS, 'The second question', () => fake.bodies.length === 2);
  assert.equal(asked(fake), [user('one'), assistant('endless'), user('two')]);
  await shows(chat, /\[0 tokens/);
  chat.input.write(`half a line${CTRL_C}`);
  await shows(chat, /Press Ctrl-C again to end the chat/);
  chat.input.write(CTRL_C);
  await chat.ended;
  assert.is(fake.bodies.length, 2, 'the half line is not sent');
});

test('a failure ends a chat without a terminal; on one it is a sentence, and the question is forgotten', async ({
  fake,
  server,
}) => {
  fake.answer = (response) => {
    writeText(response, 'half');
    setImmediate(() => response.destroy());
  };
  const piped = talk(server);
  piped.input.end('one\ntwo\n');
  const error = await piped.ended.then(
    () => undefined,
    (thrown: Error) => thrown,
  );
  assert.match(String(error?.message), /was interrupted after/);
  assert.is(fake.bodies.length, 1);
  const chat = talk(server, { isTerminal: true });
  chat.input.write('one\n');
  await shows(chat, /was interrupted after/);
  chat.input.write('two\n/exit\n');
  await chat.ended;
  assert.equal(asked(fake), [user('two')]);
});

test('a message without its second fence is refused', async ({ server }) => {
  const chat = talk(server);
  chat.input.end('"""one\ntwo\n');
  const error = await chat.ended.then(
    () => undefined,
    (thrown: Error) => thrown,
  );
  assert.match(String(error?.message), /must end with """/);
});

test.run();
