import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Worker } from 'node:worker_threads';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  CooperativeScheduler,
  cooperativeLimits,
  finish,
} from '../../../gateway/system/cooperative-scheduler.ts';
import type { TextSegment } from '../../../gateway/tokenizer/added-tokens.ts';
import { BpeTokenizer } from '../../../gateway/tokenizer/bpe-tokenizer.ts';
import { EncoderThread, encoderLimits, startEncoder } from '../../../gateway/tokenizer/encoder-thread.ts';
import { tablesOfTokenizerJson } from '../../../gateway/tokenizer/huggingface/tokenizer-json.ts';
import type { TokenizerTables } from '../../../gateway/tokenizer/tables.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { loopMs } from '../../fixtures/loop-time.ts';
import { Random } from '../../fixtures/random.ts';
import { within } from '../../fixtures/within.ts';
import { fetchedVocabularies, readVocabulary } from '../../vocabularies/vocabularies.ts';

const test = suite('encoder thread');
const patienceMs = 120_000;
const none = { bosToken: undefined, eosToken: undefined, addBos: undefined, addEos: undefined };
const texts: readonly string[] = JSON.parse(
  readFileSync(new URL('../../golden/vocabulary-texts.json', import.meta.url), 'utf8'),
);
const gpt2 = tablesOfTokenizerJson(readVocabulary('gpt2'), none);
const plain = { addSpecial: false, parseSpecial: false };
/** A word of a million letters takes some hundred milliseconds. */
const slowText = 'ab'.repeat(500_000);

/** A tokenizer, and the threads that it has started. */
function threaded(tables: TokenizerTables) {
  const threads: Worker[] = [];
  const encoder = new EncoderThread(tables, (data) => {
    const thread = startEncoder(data);
    threads.push(thread);
    return thread;
  });
  const tokenizer = finish(BpeTokenizer.of(tables, encoder));
  const scheduler = new CooperativeScheduler();
  const run = (segments: readonly TextSegment[], addSpecial: boolean, signal?: AbortSignal) => {
    const length = segments.reduce((sum, { text }) => sum + text.length, 0);
    const ids = scheduler.run(length, tokenizer.encodeSegments(segments, addSpecial), signal);
    return within(patienceMs, 'The ids', ids);
  };
  const encode = (text: string, signal?: AbortSignal) => run([{ text, parseSpecial: false }], false, signal);
  return { threads, tokenizer, run, encode };
}

for (const name of fetchedVocabularies()) {
  test(`${name}: the ids of long texts are those that they have on the loop`, async () => {
    const tables = tablesOfTokenizerJson(readVocabulary(name), none);
    const { threads, tokenizer, run } = threaded(tables);
    const here = finish(BpeTokenizer.of(tables));
    const random = new Random();
    for (let i = 0; i < 6; i++) {
      const segments: TextSegment[] = [];
      const wanted = random.below(2 * encoderLimits.partChars);
      const parseSpecial = random.below(2) === 0;
      for (let length = 0; length <= Math.max(wanted, cooperativeLimits.shortLength); ) {
        // Some texts go on for many characters. Control tokens are cut wherever a part ends.
        const text = random
          .pick([...texts, ...here.controlLiterals])
          .repeat(1 + random.below(random.pick([2, 2000])));
        segments.push({ text, parseSpecial: i < 3 ? parseSpecial : random.below(2) === 0 });
        length += text.length;
      }
      const whole = { text: segments.map(({ text }) => text).join(''), parseSpecial };
      const given = i < 3 ? [whole] : segments;
      const addSpecial = random.below(2) === 0;
      const ids = await run(given, addSpecial);
      assert.equal(ids, finish(here.encodeSegments(given, addSpecial)), `seed ${random.seed}, text ${i}`);
    }
    assert.is(threads.length, 1);
    tokenizer.close();
  });
}

test('a short text needs no thread, and a long one leaves the loop to others', async () => {
  const { threads, tokenizer, encode } = threaded(gpt2);
  await encode('a'.repeat(cooperativeLimits.shortLength));
  assert.is(threads.length, 0);
  await encode('a '.repeat(cooperativeLimits.shortLength));
  const beforeMs = loopMs();
  const ids = await encode(slowText);
  const betweenMs = loopMs();
  assert.equal(tokenizer.encode(slowText, plain), ids);
  const [threadedMs, onLoopMs] = [betweenMs - beforeMs, loopMs() - betweenMs];
  console.log(
    `The loop's thread: ${threadedMs.toFixed(0)} ms beside its encoder, ${onLoopMs.toFixed(0)} ms by itself`,
  );
  assert.ok(threadedMs * 3 <= onLoopMs, `${threadedMs} ms, ${onLoopMs} ms`);
  tokenizer.close();
});

test('whoever leaves is answered at once, nobody works for it, and the next text is encoded by the same thread', async () => {
  const { threads, tokenizer, encode } = threaded(gpt2);
  const next = 'next '.repeat(cooperativeLimits.shortLength);
  const expected = await encode(next);
  const whileAway = process.cpuUsage();
  for (let i = 0; i < 20; i++) {
    const gone = new AbortController();
    const leaving = encode(slowText.repeat(4), gone.signal);
    // By now the text has been sent and is being encoded.
    for (let turn = 0; turn < 40 + i; turn++) await new Promise((resolve) => setImmediate(resolve));
    gone.abort(new Error('gone'));
    assert.is((await errorOf(() => leaving)).message, 'gone');
  }
  assert.equal(await encode(next), expected);
  const awayMs = process.cpuUsage(whileAway).user / 1000;
  assert.is(threads.length, 1);
  const whileHere = process.cpuUsage();
  await encode(slowText.repeat(4));
  const onceMs = process.cpuUsage(whileHere).user / 1000;
  assert.ok(awayMs < 10 * onceMs, `${awayMs} ms for twenty that left, ${onceMs} ms for one that stayed`);
  tokenizer.close();
});

test('a thread that dies is an error of the text that it had, and the next text starts another', async () => {
  const { threads, tokenizer, encode } = threaded(gpt2);
  const text = 'some text '.repeat(cooperativeLimits.shortLength);
  const expected = tokenizer.encode(text, plain);
  assert.equal(await encode(text), expected);
  const dying = errorOf(() => encode(slowText));
  const waiting = encode(text);
  await new Promise((resolve) => setImmediate(resolve));
  await threads[0]?.terminate();
  assert.match(
    (await dying).message,
    /^The thread that encodes long texts ended before the text was encoded: it was stopped\.$/,
  );
  assert.equal(await waiting, expected, 'the one behind it');
  assert.is(threads.length, 2);
  tokenizer.close();
});

test('a thread ends when its model is released, after pending work', async () => {
  const { threads, tokenizer, encode } = threaded(gpt2);
  const last = encode(slowText);
  await new Promise((resolve) => setImmediate(resolve));
  const ended = once(threads[0] as Worker, 'exit');
  tokenizer.close();
  assert.ok((await last).length > 0);
  await within(patienceMs, 'The end of the thread', ended);
  assert.ok((await encode(slowText)).length > 0, 'who had the model may still use it');
  await within(patienceMs, 'The end of another', once(threads[1] as Worker, 'exit'));
});

test.run();
