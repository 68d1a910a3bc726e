import { Hono } from 'hono';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { inPieces, longAnswer, PIECE_CHARACTERS, respondInPieces } from '../../../gateway/api/long-answer.ts';
import { ApiError } from '../../../gateway/errors/api-error.ts';
import { ByteBudget } from '../../../gateway/server/guard/bodies.ts';
import { ResponseStream } from '../../../gateway/server/streams/response-stream.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { liveBytes } from '../../fixtures/live-bytes.ts';
import { PATIENCE_MS, until, within } from '../../fixtures/within.ts';

const test = suite('long answer');

const NUM_ANSWERS = 64;

/** The bytes that are held for each answer after `open` has opened them. */
async function heldForEach(open: (answer: number) => unknown): Promise<number> {
  const opened: unknown[] = [];
  const before = liveBytes();
  for (let answer = 0; answer < NUM_ANSWERS; answer++) opened.push(await open(answer));
  const each = (liveBytes() - before) / opened.length;
  console.log(`${Math.round(each)} bytes are held for each answer`);
  return each;
}

test('a piece that was made of texts is not held until the next one is asked for', async () => {
  const texts = function* (answer: number) {
    for (let at = 0; ; at++) yield `${answer},${at},`;
  };
  const each = await heldForEach((answer) => {
    const pieces = inPieces(texts(answer));
    assert.ok(Buffer.from(pieces.next().value ?? '').length >= PIECE_CHARACTERS);
    return pieces;
  });
  assert.ok(each < PIECE_CHARACTERS / 2);
});

test('a piece that was written is not held until the next one is asked for', async () => {
  const PIECE_BYTES = 16 * PIECE_CHARACTERS;
  const pieces = function* (answer: number): Generator<string, undefined> {
    for (let at = 0; ; at++) yield `${answer},${at}`.padEnd(PIECE_BYTES);
  };
  const budget = new ByteBudget(2 ** 30, 'answers');
  const log = createLog('silent');
  const app = new Hono();
  app.get('/:answer', (c) =>
    longAnswer(c, { answerBudget: budget, log }, 0, pieces(Number(c.req.param('answer')))),
  );
  const readers: ReadableStreamDefaultReader<Uint8Array>[] = [];
  const each = await heldForEach(async (answer) => {
    const reader = (await app.request(`/${answer}`)).body?.getReader();
    if (reader === undefined) throw new Error('The answer has no body.');
    readers.push(reader);
    // Two pieces are made before the answer begins.
    for (let piece = 0; piece < 3; piece++) assert.is((await reader.read()).value?.length, PIECE_BYTES);
  });
  assert.ok(each < PIECE_BYTES / 2);
  for (const reader of readers) await reader.cancel();
});

test('pieces that take their time are written in their order, and none is made for a client that has left', async () => {
  const asked: ((piece: string | undefined) => void)[] = [];
  let numEnds = 0;
  const pieces: AsyncIterator<string> = {
    next: async () => {
      const value = await new Promise<string | undefined>((resolve) => asked.push(resolve));
      return value === undefined ? { done: true, value } : { done: false, value };
    },
  };
  const app = new Hono();
  const fail = (error: unknown): void => {
    throw error;
  };
  app.get('/', (c) => respondInPieces(new ResponseStream(c, 'text/plain'), pieces, fail, () => numEnds++));
  const give = async (piece?: string): Promise<void> => {
    await until(PATIENCE_MS, 'The next piece', () => asked.length > 0);
    asked.shift()?.(piece);
  };
  const whole = (await app.request('/')).text();
  for (const piece of ['a', 'b', undefined]) await give(piece);
  assert.is(await within(PATIENCE_MS, 'The answer', whole), 'ab');
  assert.is(numEnds, 1);

  const reader = (await app.request('/')).body?.getReader();
  const first = reader?.read();
  await give('c');
  assert.is(
    Buffer.from(
      (await within(PATIENCE_MS, 'A piece', first as NonNullable<typeof first>)).value ?? '',
    ).toString(),
    'c',
  );
  void reader?.read().catch(() => {});
  await until(PATIENCE_MS, 'The next piece', () => asked.length > 0);
  await reader?.cancel();
  await until(PATIENCE_MS, 'The end', () => numEnds === 2);
  asked.shift()?.('d');
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  assert.equal([asked.length, numEnds], [0, 2]);
});

test("one caller's long answers leave another caller its share of their budget", async () => {
  const ANSWER_BYTES = 1_000_000;
  const budget = new ByteBudget(4 * ANSWER_BYTES, 'answers');
  const log = createLog('silent');
  const app = new Hono();
  app.onError((error, c) => c.text(error.message, error instanceof ApiError ? error.status : 500));
  app.get('/:caller', (c) => {
    c.set('caller', { name: c.req.param('caller'), shares: 1 });
    return longAnswer(
      c,
      { answerBudget: budget, log },
      ANSWER_BYTES - PIECE_CHARACTERS,
      inPieces(['a', 'b', 'c'], 1),
    );
  });
  // Nobody reads the answers, so each holds its bytes.
  const open = async (caller: string) => (await app.request(`/${caller}`)).status;
  assert.equal(await times(5, () => open('greedy')), [200, 200, 200, 200, 503]);
  assert.equal(await times(3, () => open('other')), [200, 200, 503]);
  assert.is(await open('greedy'), 503);
});

async function times<T>(count: number, act: () => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  while (results.length < count) results.push(await act());
  return results;
}

test.run();
