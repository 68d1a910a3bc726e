import * as assert from 'uvu/assert';
import { MAX_MESSAGES } from '../../../gateway/api/conversation.ts';
import { sweepMs } from '../../../gateway/journal/journal.ts';
import { JournalStore } from '../../../gateway/journal/store.ts';
import { byteModel, EOS_ID } from '../../fixtures/byte-model.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { type DurableApp, durableApp, journalFolder } from '../../fixtures/durable.ts';
import { thinkingModel } from '../../fixtures/thinking-model.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

/** Responses that are stored and continued, beyond one request and its answer, which are in test/wire. */

const test = closingSuite('stored responses');

const bytes = (text: string): number[] => [...Buffer.from(text)];
const whole = (text: string) => [bytes(text), [EOS_ID]];

interface Answered {
  readonly id: string;
  readonly status: string;
  readonly store: boolean;
  readonly output: readonly { readonly id: string; readonly type: string; readonly call_id?: string }[];
}

async function ask(app: DurableApp, body: object): Promise<Answered> {
  const response = await app.post('/v1/responses', { model: 'bytes', ...body });
  const text = await response.text();
  assert.is(response.status, 200, text);
  return JSON.parse(text);
}

async function refusal(app: DurableApp, body: object): Promise<{ message: string; code: string }> {
  const response = await app.post('/v1/responses', { model: 'bytes', ...body });
  assert.is(response.status, 400);
  return JSON.parse(await response.text()).error;
}

const tools = [{ type: 'function', name: 'clock', strict: false }];
const TURNS = [
  '</think>Look.<tool_call>\n{"name": "clock", "arguments": {"at":  12345678901234567890, "x": 1.0}}\n</tool_call>',
  'So it is\nnoon.</think>It is noon — 12:00.',
  'Hm. 👋</think>\n\nYes.',
] as const;

test('a conversation that continues previous responses has the prompts of one that sends all items, with thoughts and calls, in one process and over several', async () => {
  for (const isOneProcess of [true, false]) {
    const folder = journalFolder();
    const model = thinkingModel(
      ({ messages, options }) => `${JSON.stringify([messages, options.tools], bigints)}<think>`,
    );
    const begin = () => durableApp(folder, { model: () => model });
    let app = await begin();
    const all: object[] = [];
    let previous: Answered | undefined;
    for (const turn of TURNS) {
      const call = previous?.output.find(({ type }) => type === 'function_call');
      const said =
        call === undefined
          ? [{ role: 'user', content: 'What time is it?' }]
          : [{ type: 'function_call_output', call_id: call.call_id, output: '12:00' }];
      all.push(...said);
      app.runner.script = whole(turn);
      const continued = await ask(app, { input: said, tools, previous_response_id: previous?.id });
      await ask(app, { input: all, tools, store: false });
      const [byId, byItems] = app.runner.requests.slice(-2);
      assert.equal(byId?.promptIds, byItems?.promptIds);
      all.push(...continued.output);
      previous = continued;
      if (isOneProcess) continue;
      await app.jobs.stop();
      app = await begin();
    }
    assert.ok(JSON.stringify(all).includes('So it is'), 'the conversation has thoughts');
  }
});

test('a conversation whose answers are referred to by their items has the prompts of one that sends all items, whatever response they are of', async () => {
  const folder = journalFolder();
  const model = thinkingModel(({ messages }) => `${JSON.stringify(messages, bigints)}<think>`);
  const app = await durableApp(folder, { model: () => model });
  const all: object[] = [];
  const referring: object[] = [];
  for (const turn of TURNS) {
    const call = all.at(-1) as Answered['output'][number] | undefined;
    const said =
      call?.type === 'function_call'
        ? { type: 'function_call_output', call_id: call.call_id, output: '12:00' }
        : { role: 'user', content: 'What time is it?' };
    all.push(said);
    referring.push(said);
    app.runner.script = whole(turn);
    const answered = await ask(app, { input: referring, tools });
    await ask(app, { input: all, tools, store: false });
    const [byReference, byItems] = app.runner.requests.slice(-2);
    assert.equal(byReference?.promptIds, byItems?.promptIds);
    all.push(...answered.output);
    referring.push(...answered.output.map(({ id }) => ({ type: 'item_reference', id })));
  }
  assert.ok(referring.length > TURNS.length + 4, 'thoughts, a call and messages are referred to');
});

test('an item of a response that was cut short is referred to; of one that was forgotten it is refused by its id', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = whole('Hello, world');
  const { id, status, output } = await ask(app, { input: 'Hi', max_output_tokens: 5 });
  assert.is(status, 'incomplete');
  const input = [
    { role: 'user', content: 'Hi' },
    ...output.map((each) => ({ type: 'item_reference', id: each.id })),
  ];
  await ask(app, { input: [...input, { role: 'user', content: 'So?' }] });
  const forgotten = await app.app.request(`/v1/responses/${id}`, { method: 'DELETE' });
  assert.is(forgotten.status, 200);
  const { code, message } = await refusal(app, { input: [...input, { role: 'user', content: 'So?' }] });
  assert.is(code, 'item_not_found');
  assert.match(message, `Item with id '${output[0]?.id}' not found`);
});

function bigints(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

test('a stored response is read as it was answered, whole and streamed', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = whole('Hello, wörld.');
  const asked = {
    input: 'Hi',
    metadata: { a: 'b' },
    top_logprobs: 2,
    include: ['message.output_text.logprobs'],
  };
  for (const stream of [false, true]) {
    const answer = await app.post('/v1/responses', { model: 'bytes', ...asked, stream });
    const text = await answer.text();
    const json = stream ? (/"response":(\{.*\}),"sequence_number":\d+\}\n\n$/.exec(text)?.[1] ?? '') : text;
    const { id, store } = JSON.parse(json) as Answered;
    assert.ok(store);
    assert.is(await (await app.get(`/v1/responses/${id}`)).text(), json);
  }
});

test('the last event of a stored response is sent when the journal has the response', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = whole('Hello');
  const { write } = JournalStore.prototype;
  let finishWrite = (): void => {};
  const mayFinish = new Promise<void>((resolve) => (finishWrite = resolve));
  let isWriting = false;
  JournalStore.prototype.write = async function (...args) {
    isWriting = true;
    await mayFinish;
    return write.apply(this, args);
  };
  try {
    const answer = await app.post('/v1/responses', { model: 'bytes', input: 'Hi', stream: true });
    let told = '';
    const reading = (async () => {
      for await (const chunk of answer.body ?? []) told += Buffer.from(chunk).toString();
    })();
    await until(PATIENCE_MS, 'The write', () => isWriting && told.includes('"Hello"'));
    assert.not.match(told, 'response.completed');
    finishWrite();
    await reading;
    assert.match(told, 'event: response.completed');
  } finally {
    JournalStore.prototype.write = write;
  }
});

test('a response that the disk refuses is answered, and its end says that it is not stored', async () => {
  const app = await durableApp(journalFolder(), { onFailed: () => {} });
  app.runner.script = whole('Hello');
  const { write } = JournalStore.prototype;
  JournalStore.prototype.write = () => Promise.reject(new Error('ENOSPC'));
  try {
    const { id, store, status } = await ask(app, { input: 'Hi', store: true });
    assert.equal([store, status], [false, 'completed']);
    assert.is((await app.get(`/v1/responses/${id}`)).status, 404);
    assert.is(app.journal.stats.numJobs, 0, 'its room is given back');
  } finally {
    JournalStore.prototype.write = write;
  }
});

test('a response that ends while the gateway stops is stored, and the next process has it', async () => {
  const folder = journalFolder();
  const app = await durableApp(folder);
  app.runner.script = [bytes('He'), { waitMs: 50 }, ...whole('llo')];
  const answer = await app.post('/v1/responses', { model: 'bytes', input: 'Hi', stream: true });
  await app.jobs.stop();
  const text = await answer.text();
  const { id } = JSON.parse(/"response":(\{.*\}),"sequence_number":0\}/.exec(text)?.[1] ?? '') as Answered;
  assert.match(text, 'event: response.completed');
  const next = await durableApp(folder);
  next.runner.script = whole('Yes.');
  await ask(next, { input: 'So?', previous_response_id: id });
});

test('a stored response is forgotten when its time is over, and is then not continued', async () => {
  const clock = new VirtualClock(1000);
  const now = () => clock.now();
  const app = await durableApp(journalFolder(), { clock, now, keepMs: 60_000 });
  app.runner.script = whole('Hello');
  const { id } = await ask(app, { input: 'Hi' });
  await ask(app, { input: 'So?', previous_response_id: id });
  await until(PATIENCE_MS, 'The end of its time', async () => {
    await clock.pass(sweepMs);
    return app.journal.stats.numJobs === 0;
  });
  const { code, message } = await refusal(app, { input: 'So?', previous_response_id: id });
  assert.is(code, 'previous_response_not_found');
  assert.match(message, `Previous response with id '${id}' not found`);
});

test('the room of a response whose client leaves or whose request the runner refuses is given back', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = [bytes('He'), 'wait'];
  const answer = await app.post('/v1/responses', { model: 'bytes', input: 'Hi', stream: true });
  assert.is(app.journal.stats.numJobs, 1);
  await answer.body?.cancel();
  await until(PATIENCE_MS, 'The cancel', () => app.runner.cancelled === 1);
  assert.is(app.journal.stats.numJobs, 0);
});

test('a response with a receipt is continued and referred to although its receipt cannot be made again', async () => {
  let canHash = true;
  const model = {
    ...byteModel,
    weightsHash: async () => {
      if (!canHash) throw new Error('The files have changed.');
      return `sha256:${'0'.repeat(64)}`;
    },
  };
  const app = await durableApp(journalFolder(), { model: () => model });
  app.runner.script = whole('Hello');
  const first = await ask(app, { input: 'Hi', receipt: true });
  canHash = false;
  const byId = await ask(app, { input: 'So?', previous_response_id: first.id });
  assert.is(byId.status, 'completed');
  const [said] = first.output;
  const input = [
    { role: 'user', content: 'Hi' },
    { type: 'item_reference', id: said?.id },
    { role: 'user', content: 'So?' },
  ];
  assert.is((await ask(app, { input })).status, 'completed');
});

test('a request that is sent again by its key has its response, also when what it continues or refers to is gone', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = whole('Hello');
  const { id, output } = await ask(app, { input: 'Hi' });
  const bodies = [
    { input: 'So?', previous_response_id: id, durable: true },
    { input: 'So?', previous_response_id: id, background: true },
    {
      input: [
        { role: 'user', content: 'Hi' },
        { type: 'item_reference', id: output[0]?.id },
        { role: 'user', content: 'So?' },
      ],
      durable: true,
    },
  ];
  const send = async (body: object, key: number) => {
    const headers = { 'idempotency-key': `key-${key}` };
    const response = await app.post('/v1/responses', { model: 'bytes', ...body }, headers);
    const { id: answered } = (await response.json()) as { id: string };
    return { status: response.status, id: answered };
  };
  const begun: string[] = [];
  for (const [key, body] of bodies.entries()) begun.push((await send(body, key)).id);
  assert.is((await app.app.request(`/v1/responses/${id}`, { method: 'DELETE' })).status, 200);
  for (const [key, body] of bodies.entries()) {
    const again = await send(body, key);
    assert.equal([again.status, again.id], [200, begun[key]]);
    assert.is((await send({ ...body, temperature: 0.5 }, key)).status, 409, 'another body');
    assert.is((await send(body, 10 + key)).status, 400, 'another key');
  }
});

test('a conversation has at most as many items as one body, whether it is continued or sent', async () => {
  const app = await durableApp(journalFolder(), {
    model: () => thinkingModel(() => 'short</think>'),
  });
  app.runner.script = whole('Hello');
  const items = Array.from({ length: MAX_MESSAGES - 2 }, () => ({ role: 'user', content: 'x' }));
  const { id } = await ask(app, { input: items });
  await ask(app, { input: 'the last one', previous_response_id: id });
  const { message } = await refusal(app, { input: [...items.slice(0, 2)], previous_response_id: id });
  assert.is(message, 'input and what it continues must have at most 4096 items together (got 4097)');
});

test.run();
