/** Callers take turns at a model's reader, which renders and encodes for all of them. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ModelReader } from '../../../../gateway/models/reader/model-reader.ts';
import type { Caller } from '../../../../gateway/system/caller.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { callerNamed } from '../../../fixtures/keys.ts';
import { readerOf } from '../../../fixtures/model-readers.ts';
import { PATIENCE_MS, within } from '../../../fixtures/within.ts';

const test = suite('fair reader');
const echo = '{{ messages[0].content }}';
const megabyte = 2 ** 20;
const greedy = callerNamed('greedy');
const other = callerNamed('other');

/** Renders conversations of these lengths at once and notes whose is ready when. */
function ask(reader: ModelReader, caller: Caller, lengths: readonly number[], ready: string[]) {
  return lengths.map(async (length) => {
    const content = 'x'.repeat(length);
    const text = await reader.renderText([{ role: 'user', content }], { caller });
    assert.is(text.length, length);
    ready.push(caller.name);
  });
}

/** The places of a caller's conversations among those that are ready, from 0. */
const placesOf = ({ name }: Caller, ready: readonly string[]): number[] =>
  ready.flatMap((each, place) => (each === name ? [place] : []));

test('a small chat of another caller waits for one of twenty chats of 1 MB, not for all of them', async () => {
  const reader = readerOf(echo);
  const ready: string[] = [];
  const large = ask(reader, greedy, new Array<number>(20).fill(megabyte), ready);
  const small = ask(reader, other, [100], ready);
  await within(PATIENCE_MS, 'All', Promise.all([...large, ...small]));
  assert.ok((placesOf(other, ready)[0] ?? 20) <= 1, String(ready));
  reader.close();
});

test('a caller’s long chat is rendered after as much text of the caller with twenty shorter ones', async () => {
  const reader = readerOf(echo);
  const ready: string[] = [];
  const shorter = ask(reader, greedy, new Array<number>(20).fill(megabyte / 4), ready);
  const longer = ask(reader, other, [megabyte], ready);
  await within(PATIENCE_MS, 'All', Promise.all([...shorter, ...longer]));
  // Before it come the one that was under way and three or four that are about as long together.
  const [place = 20] = placesOf(other, ready);
  assert.ok(place === 4 || place === 5, String(ready));
  reader.close();
});

test('of one caller’s chats the shortest is rendered next', async () => {
  const reader = readerOf(echo);
  const lengths: number[] = [];
  const chats = [3, 2, 1].map(async (times) => {
    const content = 'x'.repeat(times * 10_000);
    lengths.push((await reader.renderText([{ role: 'user', content }], { caller: greedy })).length);
  });
  await within(PATIENCE_MS, 'All', Promise.all(chats));
  assert.equal(lengths, [30_000, 10_000, 20_000], 'the first one was under way');
  reader.close();
});

test('a caller that fills the queue shuts out only itself', async () => {
  const reader = readerOf(echo, { waitingJobs: 4 });
  const ready: string[] = [];
  const chats = ask(reader, greedy, [10, 10, 10, 10], ready);
  const chatsOfOther = ask(reader, other, [10, 10], ready);
  const refused = await errorOf(() =>
    reader.renderText([{ role: 'user', content: 'x' }], { caller: greedy }),
  );
  assert.match(refused.message, 'already wait');
  await within(PATIENCE_MS, 'All', Promise.all([...chats, ...chatsOfOther]));
  const again = ask(reader, greedy, [10, 10, 10, 10], ready);
  await within(PATIENCE_MS, 'All', Promise.all(again));
  reader.close();
});

test.run();
