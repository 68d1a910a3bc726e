import * as assert from 'uvu/assert';
import type { GenerateRequest } from '../../../../gateway/runner/runner.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';
import { closingSuite } from '../../../fixtures/closing-suite.ts';
import { type DurableApp, durableApp, journalFolder } from '../../../fixtures/durable.ts';
import { ScriptedRunner } from '../../../fixtures/scripted-runner.ts';
import { readEvents } from '../../../fixtures/sse.ts';
import { thinkingModel } from '../../../fixtures/thinking-model.ts';
import { until } from '../../../fixtures/within.ts';

const PATIENCE_MS = 10_000;

const test = closingSuite('background responses');

const bytes = (text: string): number[] => [...Buffer.from(text)];

const asked = { model: 'bytes', input: 'Hi', background: true, metadata: { a: 'b' }, seed: 7 };

interface Reply {
  readonly id: string;
  readonly status: string;
  readonly background: boolean;
  readonly store: boolean;
  readonly error: object | null;
  readonly output: readonly { readonly content: readonly { readonly text: string }[] }[];
}

interface Told {
  readonly type: string;
  readonly sequence_number: number;
  readonly delta?: string;
  readonly response?: Reply;
}

async function eventsOf(response: Response): Promise<Told[]> {
  assert.is(response.status, 200, response.ok ? '' : await response.clone().text());
  const events: Told[] = [];
  for await (const { data } of readEvents(response)) events.push(JSON.parse(data));
  return events;
}

async function replyOf(response: Response): Promise<Reply> {
  assert.is(response.status, 200, response.ok ? '' : await response.clone().text());
  return (await response.json()) as Reply;
}

const textOf = ({ output }: Reply): string => output.map(({ content }) => content[0]?.text).join('');

async function ended(app: DurableApp, id: string): Promise<Reply> {
  let reply: Reply | undefined;
  await until(PATIENCE_MS, 'The end of a response', async () => {
    reply = await replyOf(await app.get(`/v1/responses/${id}`));
    return reply.status !== 'in_progress';
  });
  return reply as Reply;
}

test('a whole one is answered at once, and is there when it has been computed', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = [bytes('He'), bytes('llo'), [EOS_ID]];
  const begun = await replyOf(await app.post('/v1/responses', { ...asked, store: true }));
  assert.equal([begun.status, begun.background, begun.store, begun.output], ['in_progress', true, true, []]);
  const reply = await ended(app, begun.id);
  assert.equal([reply.id, reply.status, textOf(reply)], [begun.id, 'completed', 'Hello']);
  const { background: _background, ...foreground } = asked;
  const plain = await replyOf(await app.post('/v1/responses', foreground));
  const same = (each: Reply): object => {
    const { id, background, store, output, ...others } = JSON.parse(
      JSON.stringify(each).replace(/"(created_at|completed_at)":\d+/g, '"$1":0'),
    );
    assert.match(id, /^resp_/);
    assert.is(background, store);
    return { ...others, output: output.map(({ id: _id, ...item }: { id: string }) => item) };
  };
  assert.equal(same(reply), same(plain));
});

test('a stream is read again from after any event, any number of times', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = [bytes('He'), bytes('llo'), [EOS_ID]];
  const events = await eventsOf(await app.post('/v1/responses', { ...asked, stream: true }));
  const { id = '' } = events[0]?.response ?? {};
  assert.equal(
    events.flatMap(({ delta }) => delta ?? []),
    ['H', 'e', 'l', 'l', 'o'],
  );
  assert.equal(await eventsOf(await app.get(`/v1/responses/${id}?stream=true`)), events);
  for (const after of [0, 4, events.length - 2, events.length - 1])
    assert.equal(
      await eventsOf(await app.get(`/v1/responses/${id}?stream=true&starting_after=${after}`)),
      events.slice(after + 1),
    );
  assert.equal(await replyOf(await app.get(`/v1/responses/${id}`)), events.at(-1)?.response);
});

test('another process resumes a response, including log-probabilities', async () => {
  const folder = journalFolder();
  const answer = [...bytes('Hello there'), EOS_ID];
  const body = { ...asked, stream: true, include: ['message.output_text.logprobs'], top_logprobs: 2 };
  const undisturbed = await durableApp(journalFolder());
  undisturbed.runner.script = [answer];
  const expected = await eventsOf(await undisturbed.post('/v1/responses', body));

  const first = await durableApp(folder);
  first.runner.script = [answer.slice(0, 4), 'wait'];
  const { id } = await replyOf(await first.post('/v1/responses', { ...body, stream: false }));
  await until(
    PATIENCE_MS,
    'The tokens',
    () => first.journal.stats.numBytes > 0 && first.runner.requests.length === 1,
  );
  const streaming = first.get(`/v1/responses/${id}?stream=true`);
  const reader = (await streaming).body?.getReader();
  await reader?.read();
  reader?.closed.catch(() => {});
  await first.jobs.stop();

  const runner = new ScriptedRunner();
  runner.scriptOf = ({ resumeFrom }: GenerateRequest) => [answer.slice(resumeFrom?.tokenIds.length ?? 0)];
  const second = await durableApp(folder, { runner });
  const events = await eventsOf(await second.get(`/v1/responses/${id}?stream=true`));
  const plain = (each: readonly Told[]): string =>
    JSON.stringify(each).replace(/"(created_at|completed_at)":\d+|"(resp|msg)_[0-9a-f-]+"/g, '');
  assert.is(plain(events), plain(expected));
});

test('another process resumes a response with its thinking budget', async () => {
  const folder = journalFolder();
  const model = thinkingModel(() => 'Hi<think>');
  const first = await durableApp(folder, { model: () => model });
  first.runner.script = [bytes('Hm'), 'wait'];
  const streamed = await first.post('/v1/responses', { ...asked, stream: true, thinking_token_budget: 7 });
  let told = '';
  for await (const chunk of streamed.body as unknown as AsyncIterable<Uint8Array>) {
    told += Buffer.from(chunk).toString();
    if (told.includes('"delta":"m"')) break;
  }
  const [begun] = first.runner.requests;
  await first.jobs.stop();
  const second = await durableApp(folder, { model: () => model });
  await until(PATIENCE_MS, 'The request', () => second.runner.requests.length === 1);
  const [resumed] = second.runner.requests;
  assert.equal(resumed?.resumeFrom?.tokenIds, bytes('Hm'));
  for (const { thinkingLimit: limit } of [begun, resumed] as GenerateRequest[]) {
    assert.equal([limit?.maxTokens, limit?.endIds], [7, bytes('</think>')]);
    assert.equal(
      ['Hm', 'Hm</think', 'Hm</think>'].map((text) => limit?.isThinking(bytes(text))),
      [true, true, false],
    );
  }
});

test('calls of tools are items of it, when it is read again too', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = [[...bytes('<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>'), EOS_ID]];
  const tools = [{ type: 'function', name: 'f', parameters: { type: 'object' } }];
  const events = await eventsOf(await app.post('/v1/responses', { ...asked, tools, stream: true }));
  const last = events.at(-1)?.response as unknown as { id: string; output: Record<string, unknown>[] };
  assert.equal(
    last.output.map(({ type, name, arguments: given }) => [type, name, given]),
    [['function_call', 'f', '{"a":1}']],
  );
  assert.equal(await eventsOf(await app.get(`/v1/responses/${last.id}?stream=true`)), events);
  assert.equal(await replyOf(await app.get(`/v1/responses/${last.id}`)), events.at(-1)?.response);
});

test('cancel keeps the partial response, and delete removes all of it', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = [bytes('He'), 'wait'];
  const { id } = await replyOf(await app.post('/v1/responses', asked));
  await until(PATIENCE_MS, 'The request', () => app.runner.requests.length === 1);
  const response = await app.post(`/v1/responses/${id}/cancel`, '');
  const cancelled = await replyOf(response);
  assert.equal([cancelled.id, cancelled.status, cancelled.error], [id, 'cancelled', null]);
  assert.is(app.runner.cancelled, 1);
  assert.equal(await replyOf(await app.get(`/v1/responses/${id}`)), cancelled);
  const last = (await eventsOf(await app.get(`/v1/responses/${id}?stream=true`))).at(-1);
  assert.equal([last?.type, last?.response?.status], ['response.failed', 'cancelled']);

  const deleted = await app.app.request(`/v1/responses/${id}`, { method: 'DELETE' });
  assert.equal(await deleted.json(), { id, object: 'response', deleted: true });
  for (const [method, path] of [
    ['GET', `/v1/responses/${id}`],
    ['DELETE', `/v1/responses/${id}`],
    ['POST', `/v1/responses/${id}/cancel`],
  ] as const) {
    const gone = await app.app.request(path, { method });
    assert.is(gone.status, 404);
    const { error } = (await gone.json()) as { error: { code: string } };
    assert.is(error.code, 'response_not_found');
  }
  assert.is(app.journal.stats.numJobs, 0);
});

test('unsupported parameters of a GET are refused by name', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = [[EOS_ID]];
  const { id } = await replyOf(await app.post('/v1/responses', asked));
  await ended(app, id);
  for (const [query, param] of [
    ['starting_after=1', 'starting_after'],
    ['stream=true&starting_after=x', 'starting_after'],
    ['stream=yes', 'stream'],
    ['include_obfuscation=true', 'include_obfuscation'],
    ['other=1', 'other'],
  ]) {
    const response = await app.get(`/v1/responses/${id}?${query}`);
    assert.is(response.status, 400, query);
    const { error } = (await response.json()) as { error: { param: string } };
    assert.is(error.param, param);
  }
});

test.run();
