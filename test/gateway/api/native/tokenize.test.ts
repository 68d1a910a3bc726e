import * as assert from 'uvu/assert';
import { PIECE_CHARACTERS } from '../../../../gateway/api/long-answer.ts';
import { createLog } from '../../../../gateway/telemetry/log.ts';
import { testApp } from '../../../fixtures/app.ts';
import { closingSuite } from '../../../fixtures/closing-suite.ts';
import { listening } from '../../../fixtures/listening.ts';
import { liveBytes } from '../../../fixtures/live-bytes.ts';
import { RawClient } from '../../../fixtures/raw-client.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../../../fixtures/within.ts';

const test = closingSuite('tokenize');
const folder = temporaryFolder();

/** Characters of one to four bytes, so that some pieces of an answer end within a character. */
const text = 'aé€👋"\\\n'.repeat(20_000);

test('a client that leaves while its text is encoded is no error of the server', async () => {
  const lines: string[] = [];
  const log = createLog('info', undefined, { write: (line) => void lines.push(line) });
  const { app } = testApp({ log });
  const gone = new AbortController();
  // The HTTP server's reason, which is no Error.
  gone.abort('Client connection prematurely closed.');
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ content: text });
  const asked = { method: 'POST', headers, body, signal: gone.signal };
  const passed = await Promise.resolve(app.request('/tokenize', asked)).catch((thrown: unknown) => thrown);
  assert.instance(passed, Response, 'the application answers what it throws');
  assert.equal(
    lines.map((line) => JSON.parse(line).event),
    ['request'],
  );
});

test('a long answer comes in pieces, and is the one that a whole would have been', async () => {
  const { post } = testApp();
  const bytes = [...Buffer.from(text)];
  const plain = await post('/tokenize', { content: text });
  assert.is(plain.headers.get('content-type'), 'application/json');
  const pieces: number[] = [];
  const chunks: Uint8Array[] = [];
  for await (const chunk of plain.body as ReadableStream<Uint8Array>) {
    pieces.push(chunk.length);
    chunks.push(chunk);
  }
  assert.ok(pieces.length > 10);
  assert.ok(Math.max(...pieces) <= 2 * PIECE_CHARACTERS, `${Math.max(...pieces)}`);
  assert.equal(JSON.parse(Buffer.concat(chunks).toString()), { tokens: bytes });

  const named = (await (await post('/tokenize', { content: text, with_pieces: true })).json()) as {
    tokens: { id: number; piece: string | number[] }[];
  };
  assert.equal(
    named.tokens.map(({ id }) => id),
    bytes,
  );
  assert.equal(
    named.tokens.slice(0, 3).map(({ piece }) => piece),
    ['a', [0xc3], [0xa9]],
  );
  assert.equal(await (await post('/detokenize', { tokens: bytes })).json(), { content: text });
  const messages = [{ role: 'user', content: text }];
  const rendered = await (await post('/apply-template', { messages })).json();
  assert.equal(rendered, { prompt: `<turn>user: ${text}` });
});

test('answers around the length of a piece, and none, are whole', async () => {
  const { post } = testApp();
  for (const length of [0, 1, 1023, 1024, 1025, 2047, 2048, 2049]) {
    const tokens = new Array<number>(length).fill(97);
    const content = 'a'.repeat(length);
    assert.equal(await (await post('/tokenize', { content })).json(), { tokens }, `${length}`);
    assert.equal(await (await post('/detokenize', { tokens })).json(), { content }, `${length}`);
  }
  const short = await post('/tokenize', { content: 'a' });
  assert.is(await short.text(), '{"tokens":[97]}');
});

test('long answers count against a limit until they are sent or aborted', async () => {
  const content = 'a'.repeat(100_000);
  const { post } = testApp({ maxAnswerBytesInFlight: 1_000_000 });
  const open = [
    await post('/tokenize', { content }),
    await post('/detokenize', { tokens: [...Buffer.from(content)] }),
  ];
  for (const response of open) assert.is(response.status, 200);
  const refused = await post('/tokenize', { content });
  assert.equal([refused.status, refused.headers.get('retry-after')], [503, '1']);
  const held = 2 * (4 * content.length + PIECE_CHARACTERS);
  assert.match(await refused.text(), `${held} bytes of answers are held`);
  assert.is((await post('/tokenize', { content: 'a short one' })).status, 200, 'short ones hold nothing');
  await open[0]?.text();
  const again = await post('/tokenize', { content });
  assert.is(again.status, 200, 'one was taken');
  assert.is((await post('/tokenize', { content })).status, 503);
  await open[1]?.body?.cancel();
  const last = await post('/tokenize', { content });
  assert.is(last.status, 200, 'one was left');
  for (const response of [again, last]) await response.text();
});

test('clients that do not read their answers make the gateway hold no more than the bound', async () => {
  const LIMIT_BYTES = 2 ** 24;
  const NUM_CLIENTS = 40;
  const { app } = testApp({ maxAnswerBytesInFlight: LIMIT_BYTES });
  const path = `${folder.path}/tokenize.sock`;
  await listening(app.fetch, { path });
  const body = { content: 'a'.repeat(300_000), with_pieces: true };
  const before = liveBytes();
  const clients: RawClient[] = [];
  const statuses: number[] = [];
  for (let i = 0; i < NUM_CLIENTS; i++) {
    const client = await RawClient.connect(path);
    client.post('/tokenize', body);
    statuses.push(await client.status());
    client.socket.pause();
    clients.push(client);
  }
  const numTaken = statuses.filter((status) => status === 200).length;
  assert.is(numTaken, Math.floor(LIMIT_BYTES / (4 * body.content.length + PIECE_CHARACTERS)));
  assert.ok(statuses.every((status) => [200, 503].includes(status)));
  // This includes what the test's own ends have read.
  const grown = liveBytes() - before;
  assert.ok(grown < 2 * LIMIT_BYTES, `${grown} bytes more are held`);
  for (const client of clients) client.socket.destroy();
  await until(PATIENCE_MS, 'Room again', async () => {
    const client = await RawClient.connect(path);
    client.post('/tokenize', body);
    const status = await client.status();
    client.socket.destroy();
    return status === 200;
  });
});

test.run();
