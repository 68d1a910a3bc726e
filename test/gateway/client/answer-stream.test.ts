import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { eventData, streamAnswer } from '../../../gateway/client/answer-stream.ts';

import { firstModel, RefusedError, Server } from '../../../gateway/client/server.ts';
import { UnavailableError } from '../../../gateway/errors/thrown.ts';
import { OpenAiServer, writeEnd, writeText } from '../../fixtures/openai-server.ts';

const test = suite<{ fake: OpenAiServer; server: Server }>('answer stream');

test.before.each(async (context) => {
  context.fake = await OpenAiServer.start();
  context.server = new Server({ url: context.fake.url, key: 'canary-key', silenceMs: 10_000 });
});
test.after.each(async ({ fake, server }) => {
  server.close();
  await fake.stop();
});

async function answerOf(server: Server, signal = new AbortController().signal): Promise<string> {
  let text = '';
  for await (const event of streamAnswer(server, '/v1/chat/completions', { model: 'm' }, signal)) {
    text += event.text;
  }
  return text;
}

async function failureOf(promise: Promise<unknown>): Promise<Error> {
  return promise.then(
    () => assert.unreachable('it succeeded') as never,
    (error) => error as Error,
  );
}

test('events are read however their bytes are cut, with their comments and line ends', async () => {
  const bytes = Buffer.from(
    ': hi\n\ndata: {"a":"é😀"}\r\n\r\nevent: x\ndata:one\ndata: two\n\ndata: [DONE]\n\n',
  );
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const parts = (async function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
    })();
    const data: string[] = [];
    for await (const one of eventData(parts)) data.push(one);
    assert.equal(data, ['{"a":"é😀"}', 'one\ntwo', '[DONE]'], `cut by ${size}`);
  }
});

test('an answer comes with finish and usage, and the key goes along', async ({ fake, server }) => {
  const events = [];
  const { signal } = new AbortController();
  for await (const event of streamAnswer(server, '/v1/chat/completions', { model: 'm' }, signal))
    events.push(event);
  assert.equal(
    events.map(({ text }) => text),
    ['Hel', 'lo', '', ''],
  );
  assert.is(events[2]?.finish, 'stop');
  assert.is(events[3]?.usage?.completion_tokens, 2);
  assert.equal(fake.keys, ['Bearer canary-key']);
  assert.equal(fake.bodies[0], { model: 'm', stream: true, stream_options: { include_usage: true } });
});

test('a connection that breaks, and a stream that just ends, are interruptions that say how far it came', async ({
  fake,
  server,
}) => {
  for (const end of ['destroy', 'end'] as const) {
    fake.answer = (response) => {
      writeText(response, 'four');
      setImmediate(() => response[end]());
    };
    const error = await failureOf(answerOf(server));
    assert.instance(error, UnavailableError);
    assert.match(error.message, /was interrupted after \d characters of the answer/, end);
  }
});

test('stream errors, unexpected events and a silent server each give a sentence', async ({ fake }) => {
  const impatient = new Server({ url: fake.url, key: undefined, silenceMs: 100 });
  const cases: [OpenAiServer['answer'], RegExp][] = [
    [
      (response) => void response.end('data: {"error":{"message":"no\\u001b[2J luck"}}\n\n'),
      /failed: no\\u001b\[2J luck/,
    ],
    [
      (response) => void response.end('data: hello\n\n'),
      /sent an event that is not in the format of OpenAI's API/,
    ],
    [() => {}, /was silent for 0.1 s/],
  ];
  for (const [answer, message] of cases) {
    fake.answer = answer;
    const error = await failureOf(answerOf(impatient));
    assert.instance(error, UnavailableError);
    assert.match(error.message, message);
  }
  impatient.close();
});

test('a refusal has the status’s exit code and the server’s sentence', async ({ fake, server }) => {
  const cases: [number, number][] = [
    [400, 64],
    [401, 77],
    [403, 77],
    [404, 64],
    [429, 69],
    [503, 69],
  ];
  for (const [status, exitCode] of cases) {
    fake.answer = (response) => {
      response.statusCode = status;
      response.end(JSON.stringify({ error: { message: 'Because.' } }));
    };
    const error = await failureOf(answerOf(server));
    assert.instance(error, RefusedError);
    assert.is((error as RefusedError).exitCode, exitCode, String(status));
    assert.is(error.message, `The server at ${fake.url} answered ${status}: Because.`);
  }
});

test('a stream that the caller aborts ends without an error', async ({ fake, server }) => {
  const stop = new AbortController();
  fake.answer = (response) => writeText(response, 'once');
  const texts: string[] = [];
  for await (const { text } of streamAnswer(server, '/v1/chat/completions', {}, stop.signal)) {
    texts.push(text);
    stop.abort();
  }
  assert.equal(texts, ['once']);
});

test('a URL may end with /v1, and one where nobody answers is named', async ({ fake }) => {
  fake.answer = (response) => writeEnd(response, 0);
  const server = new Server({ url: `${fake.url}/v1`, key: undefined, silenceMs: 10_000 });
  assert.is(await firstModel(server), 'scripted');
  fake.models = [];
  assert.match((await failureOf(firstModel(server))).message, /has no model loaded yet/);
  server.close();
  await fake.stop();
  const error = await failureOf(firstModel(server));
  assert.instance(error, UnavailableError);
  assert.match(error.message, `No server answers at ${fake.url}: connect ECONNREFUSED`);
  const absent = new Server({ url: 'unix:/nonexistent/socket', key: undefined, silenceMs: 10_000 });
  assert.match(
    (await failureOf(firstModel(absent))).message,
    /No server answers at unix:\/nonexistent\/socket/,
  );
});

test.run();
