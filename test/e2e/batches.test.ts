import { basename } from 'node:path';
import OpenAI, { NotFoundError, toFile } from 'openai';
import * as assert from 'uvu/assert';
import { pacedRunner, TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { until } from '../fixtures/within.ts';

/**
 * A batch whose gateway and runners are killed by turns, by OpenAI's client. `make check` has 500 lines and 30 kills. Each process gets
 * as far as some new results: a line of which two processes in a row have no token is held responsible for their deaths.
 */

const LINES = Number(process.env.RUNNEL_TEST_BATCH_LINES ?? 60);
const KILLS = Number(process.env.RUNNEL_TEST_BATCH_KILLS ?? 4);
const MODEL = basename(TINY_MODEL, '.gguf');
const NUM_TOKENS = 30;
const OPEN_LINES = 8;
const STEP_MS = 3;
const PATIENCE_MS = 120_000;

const test = gatewaySuite('batches', 'SIGKILL');

const ENDED: readonly string[] = ['completed', 'failed', 'expired', 'cancelled'];

function clientOf({ url }: Gateway): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: 'unused', maxRetries: 0 });
}

interface Asked {
  readonly custom_id: string;
  readonly method: 'POST';
  readonly url: string;
  readonly body: object;
}

/** Greedy and sampled answers, some of two choices, which are no durable jobs, and some that are refused. */
function chats(numLines: number): Asked[] {
  const kinds = [{ temperature: 0 }, { temperature: 0.9 }, { n: 2 }, { logprobs: true, top_logprobs: 2 }, {}];
  return Array.from({ length: numLines }, (_, index) => ({
    custom_id: `line ${index}`,
    method: 'POST',
    url: '/v1/chat/completions',
    body: {
      ...{ model: MODEL, seed: index, max_tokens: NUM_TOKENS, min_tokens: NUM_TOKENS },
      messages: [{ role: 'user', content: `Tell me of ${index} things.` }],
      ...kinds[index % kinds.length],
      ...(index % 20 === 7 ? { temperature: 9 } : {}),
    },
  }));
}

async function send(client: OpenAI, asked: readonly Asked[]): Promise<string> {
  const text = asked.map((line) => `${JSON.stringify(line)}\n`).join('');
  const file = await client.files.create({
    file: await toFile(Buffer.from(text), 'lines.jsonl'),
    purpose: 'batch',
  });
  assert.is(file.bytes, Buffer.byteLength(text));
  const batch = await client.batches.create({
    input_file_id: file.id,
    endpoint: asked[0]?.url as '/v1/chat/completions',
    completion_window: '24h',
  });
  return batch.id;
}

async function ended(client: OpenAI, id: string): Promise<OpenAI.Batch> {
  let batch = await client.batches.retrieve(id);
  await until(PATIENCE_MS, 'The end of the batch', async () => {
    batch = await client.batches.retrieve(id);
    return ENDED.includes(batch.status);
  });
  return batch;
}

const TIMES_AND_IDS = /"(id|request_id)":"[^"]*"|"(created|created_at|cached_tokens)":\d+/g;

/** The lines of output and errors, without ids and times. */
async function told(client: OpenAI, batch: OpenAI.Batch): Promise<string[][]> {
  const ids = [batch.output_file_id, batch.error_file_id];
  const texts = await Promise.all(ids.map(async (id) => (id ? (await client.files.content(id)).text() : '')));
  return texts.map((text) => text.replaceAll(TIMES_AND_IDS, '').split('\n').slice(0, -1));
}

test(`${KILLS} kills of gateway and runner change no byte of the answers of ${LINES} lines, each of which is there once`, async () => {
  const state = temporaryFolder().path;
  const flags = ['--threads', '1', '--batch-open-lines', String(OPEN_LINES)];
  const start = async (): Promise<Gateway> => {
    const args = ['--port', '0', ...flags, '--runner', pacedRunner(STEP_MS)];
    const env = { XDG_STATE_HOME: state };
    return (await Gateway.startOn(TINY_MODEL, args, { env })).ready();
  };
  let gateway = await start();
  let client = clientOf(gateway);
  const asked = chats(LINES);
  const expected = await told(client, await ended(client, await send(client, asked)));
  assert.equal(
    expected.map(({ length }) => length),
    [LINES - Math.ceil((LINES - 7) / 20), Math.ceil((LINES - 7) / 20)],
  );

  const id = await send(client, asked);
  for (let numKills = 0; numKills < KILLS; numKills += 1) {
    const place = Math.floor(((numKills + 1) * LINES) / (KILLS + 1));
    await until(PATIENCE_MS, `Result ${place}`, async () => {
      const { request_counts: counts } = await client.batches.retrieve(id);
      return (counts?.completed ?? 0) + (counts?.failed ?? 0) >= place;
    });
    if (numKills % 2 === 1) {
      await gateway.killRunner();
      continue;
    }
    await gateway.stop('SIGKILL');
    gateway = await start();
    client = clientOf(gateway);
  }
  const batch = await ended(client, id);
  assert.is(batch.status, 'completed');
  assert.equal(batch.request_counts, {
    total: LINES,
    completed: expected[0]?.length,
    failed: expected[1]?.length,
  });
  assert.equal(await told(client, batch), expected);
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  assert.match(metrics, /runnel_journal_jobs(\{.*\})? 0\n/, 'the jobs of lines are forgotten');
  assert.match(metrics, /^runnel_batches_open 0$/m);
  assert.match(metrics, /^runnel_files [1-9]/m);
  console.log(`${KILLS} kills in a batch, ${LINES} lines of a batch, none lost and none twice`);
});

test('OpenAI’s client sends a file, lists, cancels and deletes; embeddings and responses are answered as their routes answer', async () => {
  const args = ['--threads', '1', '--batch-open-lines', '2', '--runner', pacedRunner(STEP_MS)];
  const gateway = await (await Gateway.start(TINY_MODEL, args)).ready();
  const client = clientOf(gateway);
  const lineOf = (url: string, body: object, index = 0): Asked => ({
    custom_id: `${index}`,
    method: 'POST',
    url,
    body: { model: MODEL, ...body },
  });

  const vectors = await ended(
    client,
    await send(client, [lineOf('/v1/embeddings', { input: ['Hello', 'World'] })]),
  );
  const made = await (await client.files.content(vectors.output_file_id ?? '')).text();
  const { data } = await client.embeddings.create({
    model: MODEL,
    input: ['Hello', 'World'],
    encoding_format: 'float',
  });
  assert.equal(JSON.parse(made).response.body.data, data);

  const asked = { input: 'Once upon a time', temperature: 0, max_output_tokens: 12 };
  const response = await ended(client, await send(client, [lineOf('/v1/responses', asked)]));
  const text = await (await client.files.content(response.output_file_id ?? '')).text();
  const { output_text } = await client.responses.create({ model: MODEL, ...asked });
  assert.is(JSON.parse(text).response.body.output[0].content[0].text, output_text);

  const long = { prompt: 'Once', max_tokens: 400, min_tokens: 400 };
  const lines = Array.from({ length: 50 }, (_, index) => lineOf('/v1/completions', long, index));
  const id = await send(client, lines);
  await until(
    PATIENCE_MS,
    'The first line',
    async () => (await client.batches.retrieve(id)).status === 'in_progress',
  );
  // A request that comes later does not wait for the lines that are open.
  const short = await client.completions.create({ model: MODEL, prompt: 'Once', max_tokens: 2 });
  assert.is(short.choices.length, 1);
  assert.is((await client.batches.cancel(id)).status, 'cancelling');
  const cancelled = await ended(client, id);
  assert.equal([cancelled.status, cancelled.request_counts?.total], ['cancelled', 50]);
  const all: string[] = [];
  for await (const batch of client.batches.list({ limit: 1 })) all.push(batch.id);
  assert.equal(all, [id, response.id, vectors.id]);
  const files: string[] = [];
  for await (const file of client.files.list({ limit: 2 })) files.push(file.id);
  assert.ok(files.length >= 6, `${files.length} files`);
  for (const file of files) assert.is((await client.files.delete(file)).deleted, true);
  await client.files.retrieve(response.input_file_id).then(
    () => assert.unreachable('it was deleted'),
    (error) => assert.instance(error, NotFoundError),
  );
});

test.run();
