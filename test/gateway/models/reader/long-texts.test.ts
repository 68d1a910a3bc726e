import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ModelReader } from '../../../../gateway/models/reader/model-reader.ts';
import { processorMsOf } from '../../../../gateway/system/kernel.ts';
import { BpeTokenizer } from '../../../../gateway/tokenizer/bpe-tokenizer.ts';
import { tablesOfTokenizerJson } from '../../../../gateway/tokenizer/huggingface/tokenizer-json.ts';
import type { TokenizerTables } from '../../../../gateway/tokenizer/tables.ts';
import { type EncodedText, shortTextChars } from '../../../../gateway/tokenizer/tokenizer.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { loopMs } from '../../../fixtures/loop-time.ts';
import { readerOf } from '../../../fixtures/model-readers.ts';
import { Random } from '../../../fixtures/random.ts';
import { until, within } from '../../../fixtures/within.ts';
import { fetchedVocabularies, readVocabulary } from '../../../vocabularies/vocabularies.ts';

const test = suite('long texts');
const patienceMs = 120_000;
const none = { bosToken: undefined, eosToken: undefined, addBos: undefined, addEos: undefined };
const texts: readonly string[] = JSON.parse(
  readFileSync(new URL('../../../golden/vocabulary-texts.json', import.meta.url), 'utf8'),
);
const gpt2 = tablesOfTokenizerJson(readVocabulary('gpt2'), none);
const plain = { addSpecial: false, parseSpecial: false };
/** A word of a million letters takes some hundred milliseconds. */
const slowText = 'ab'.repeat(500_000);
const echo = '{{ messages[0].content }}';

function idsOf(encoded: EncodedText | undefined): number[] {
  if (encoded === undefined || 'leastTokens' in encoded) throw new Error('The text was not encoded.');
  return [...encoded];
}

async function withReader(tables: TokenizerTables) {
  const reader = readerOf(echo, {}, tables);
  const tokenizer = await BpeTokenizer.of(tables, reader);
  const encode = async (text: string, signal?: AbortSignal) => {
    const [ids] = await within(patienceMs, 'The ids', tokenizer.encodeTexts([text], plain, signal));
    return idsOf(ids);
  };
  return { reader, tokenizer, encode };
}

/** Resolves when the process has used this much processor time since now. */
async function hasWorked({ pid = 0 }: ModelReader, processorMs: number): Promise<void> {
  const beforeMs = processorMsOf(pid) ?? 0;
  await until(patienceMs, 'Work', () => (processorMsOf(pid) ?? 0) >= beforeMs + processorMs);
}

/** The result of the work, and the milliseconds of processor time that the reader took meanwhile. */
async function usedBy<Result>({ pid = 0 }: ModelReader, work: () => Promise<Result>) {
  const beforeMs = processorMsOf(pid) ?? 0;
  const result = await work();
  return [result, (processorMsOf(pid) ?? 0) - beforeMs] as const;
}

for (const name of fetchedVocabularies()) {
  test(`${name}: the reader's ids of long texts are the gateway's`, async () => {
    const tables = tablesOfTokenizerJson(readVocabulary(name), none);
    const { reader, tokenizer } = await withReader(tables);
    const random = new Random();
    for (let i = 0; i < 3; i++) {
      const given: string[] = [];
      const wanted = shortTextChars + random.below(2 ** 18);
      for (let length = 0; length <= wanted; length += given.at(-1)?.length ?? 0) {
        // Some texts go on for many characters.
        const text = random.pick([...texts, ...tokenizer.controlLiterals]);
        given.push(text.repeat(1 + random.below(random.pick([2, 2000]))));
      }
      const options = { addSpecial: random.below(2) === 0, parseSpecial: random.below(2) === 0 };
      const sent = i === 0 ? [given.join('')] : given;
      const expected = sent.map((text) => tokenizer.encode(text, options));
      const ids = await within(patienceMs, 'The ids', tokenizer.encodeTexts(sent, options));
      assert.equal(ids.map(idsOf), expected, `seed ${random.seed}, text ${i}`);
    }
    reader.close();
  });
}

test('a short text needs no reader, and a long one leaves the loop to others', async () => {
  const { reader, tokenizer, encode } = await withReader(gpt2);
  await encode('a'.repeat(shortTextChars));
  assert.is(reader.pid, undefined);
  await encode('a '.repeat(shortTextChars));
  assert.ok(reader.pid !== undefined);
  const beforeMs = loopMs();
  const ids = await encode(slowText);
  const betweenMs = loopMs();
  assert.equal(ids, tokenizer.encode(slowText, plain));
  const [besideMs, onLoopMs] = [betweenMs - beforeMs, loopMs() - betweenMs];
  console.log(
    `The loop's thread: ${besideMs.toFixed(0)} ms with a reader, ${onLoopMs.toFixed(0)} ms without`,
  );
  assert.ok(besideMs * 3 <= onLoopMs, `${besideMs} ms, ${onLoopMs} ms`);
  reader.close();
});

test('the first text that is too long is told, and nothing after it is encoded', async () => {
  const { reader, tokenizer } = await withReader(gpt2);
  const long = ' word'.repeat(shortTextChars);
  const limited = { ...plain, maxTokens: 2 * shortTextChars };
  const encoded = await tokenizer.encodeTexts([long, long.repeat(100), long], limited);
  assert.is(encoded.length, 2);
  assert.instance(encoded[0], Uint32Array, 'the array in which they came, and no copy');
  assert.equal(idsOf(encoded[0]), tokenizer.encode(long, plain));
  assert.equal(encoded[1], { leastTokens: tokenizer.leastTokens(long.repeat(100)) });
  reader.close();
});

test('whoever leaves is answered at once, nobody works for it, and the same process encodes the next text', async () => {
  const { reader, encode } = await withReader(gpt2);
  const next = 'next '.repeat(shortTextChars);
  const expected = await encode(next);
  const { pid = 0 } = reader;
  const text = slowText.repeat(8);
  const [, wholeMs] = await usedBy(reader, () => encode(text));
  const [, awayMs] = await usedBy(reader, async () => {
    const gone = new AbortController();
    const leaving = errorOf(() => encode(text, gone.signal));
    await hasWorked(reader, 20);
    gone.abort(new Error('gone'));
    assert.is((await leaving).message, 'gone');
    assert.equal(await encode(next), expected);
  });
  assert.is(reader.pid, pid);
  assert.ok(awayMs * 2 < wholeMs, `${awayMs} ms for a text whose client left, ${wholeMs} ms for a whole one`);
  reader.close();
});

test('a small conversation does not wait for a long text or for large conversations', async () => {
  const { reader, encode } = await withReader(gpt2);
  const user = (content: string) => [{ role: 'user', content } as const];
  const small = () => within(patienceMs, 'A small one', reader.renderText(user('small'), {}));
  await small();
  const text = slowText.repeat(8);
  let smallMs = 0;
  const [, wholeMs] = await usedBy(reader, async () => {
    const long = encode(text);
    [, smallMs] = await usedBy(reader, async () => {
      await hasWorked(reader, 20);
      await small();
    });
    await long;
  });
  assert.ok(smallMs * 2 < wholeMs, `small after ${smallMs} ms, the long text after ${wholeMs} ms`);

  const ended: string[] = [];
  const large = Array.from({ length: 8 }, async () => {
    await reader.render(user(slowText), 2 ** 24, {});
    ended.push('large');
  });
  await small();
  ended.push('small');
  await within(patienceMs, 'All', Promise.all(large));
  assert.ok(ended.indexOf('small') <= 1, ended.join());
  reader.close();
});

test('a reader that is killed at a text: another one encodes it, with what the gateway has', async () => {
  const { reader, tokenizer, encode } = await withReader(gpt2);
  const text = 'some text '.repeat(shortTextChars);
  const expected = tokenizer.encode(text, plain);
  assert.equal(await encode(text), expected);
  const { pid = 0 } = reader;
  const dying = encode(slowText);
  const waiting = encode(text);
  await hasWorked(reader, 20);
  process.kill(pid, 'SIGKILL');
  assert.equal(await dying, tokenizer.encode(slowText, plain));
  assert.equal(await waiting, expected, 'the one after it');
  assert.is.not(reader.pid, pid);
  reader.close();
});

test('a reader ends when its model is released, after pending work', async () => {
  const { reader, encode } = await withReader(gpt2);
  const last = encode(slowText);
  await until(patienceMs, 'A process', () => reader.pid !== undefined);
  const { pid = 0 } = reader;
  reader.close();
  assert.ok(((await last) as readonly number[]).length > 0);
  await until(patienceMs, 'The end of the process', () => processorMsOf(pid) === undefined);
  assert.ok((await encode(slowText)).length > 0, 'who had the model may still use it');
  assert.is(reader.pid, undefined);
});

test('the reader of a model that is not served ends when nobody has asked it for a while', async () => {
  const reader = readerOf(echo, { idleMs: 50 });
  assert.is(await reader.renderText([{ role: 'user', content: 'one' }], {}), 'one');
  const { pid = 0 } = reader;
  await until(patienceMs, 'The end of the process', () => processorMsOf(pid) === undefined);
  assert.is(await reader.renderText([{ role: 'user', content: 'two' }], {}), 'two');
  reader.close();
});

test.run();
