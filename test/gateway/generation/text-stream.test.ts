import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type AnswerPart, readAnswer } from '../../../gateway/generation/text-stream.ts';
import type { TokenBatch } from '../../../gateway/runner/runner.ts';
import { byteTokenizer, EOS_ID, TURN_ID } from '../../fixtures/byte-model.ts';

const test = suite('tokens that were sent');

const bytes = (text: string): number[] => [...Buffer.from(text)];

type Finish = NonNullable<TokenBatch['finish']>;

/** The parts of an answer whose steps brought these ids. */
async function partsOf(
  steps: readonly (readonly number[])[],
  stop: readonly string[] = [],
  { minTokens = 0, finish: last = 'max_tokens' }: { minTokens?: number; finish?: Finish } = {},
) {
  async function* batches(): AsyncGenerator<TokenBatch> {
    let firstIndex = 0;
    for (const [at, tokenIds] of steps.entries()) {
      const logprobs = tokenIds.map((id) => ({ logprob: -id, topIds: [], topLogprobs: [] }));
      const finish = at < steps.length - 1 ? {} : { finish: last };
      yield { firstIndex, tokenIds, logprobs, ...finish };
      firstIndex += tokenIds.length;
    }
  }
  const parts: { text: string; ids: number[]; offsets: number[] }[] = [];
  for await (const part of readAnswer(batches(), { tokenizer: byteTokenizer, stop, minTokens }))
    parts.push(seen(part));
  return parts;
}

function seen({ pieces, sentTokens }: AnswerPart) {
  return {
    text: pieces.map(({ text }) => text).join(''),
    ids: (sentTokens ?? []).map(({ id }) => id),
    offsets: (sentTokens ?? []).map(({ textOffset }) => textOffset),
  };
}

test('each token comes with its text and its own probabilities', async () => {
  const parts = await partsOf([bytes('ab'), bytes('c')]);
  assert.equal(parts, [
    { text: 'ab', ids: bytes('ab'), offsets: [0, 1] },
    { text: 'c', ids: bytes('c'), offsets: [2] },
  ]);
});

test('the tokens of a character come with it, and stand where it begins', async () => {
  const [first, second, third] = bytes('€') as [number, number, number];
  const parts = await partsOf([bytes('🙂'), [first], [second], [third, 97]]);
  assert.equal(parts, [
    { text: '🙂', ids: bytes('🙂'), offsets: [0, 0, 0, 0] },
    { text: '', ids: [], offsets: [] },
    { text: '', ids: [], offsets: [] },
    { text: '€a', ids: [first, second, third, 97], offsets: [1, 1, 1, 2] },
  ]);
});

test('a token that broke off its character comes with the mark for it', async () => {
  const [first] = bytes('€') as [number];
  assert.equal(await partsOf([[first], bytes('a')]), [
    { text: '', ids: [], offsets: [] },
    { text: '\ufffda', ids: [first, 97], offsets: [0, 0] },
  ]);
});

test('what is held back for a stop string comes when it is sent, or never', async () => {
  assert.equal(await partsOf([bytes('xE'), bytes('N'), bytes('!')], ['END']), [
    { text: 'x', ids: bytes('x'), offsets: [0] },
    { text: '', ids: [], offsets: [] },
    { text: 'EN!', ids: bytes('EN!'), offsets: [1, 2, 3] },
  ]);
  assert.equal(await partsOf([bytes('xE'), bytes('NDz')], ['END']), [
    { text: 'x', ids: bytes('x'), offsets: [0] },
    { text: '', ids: [], offsets: [] },
  ]);
  assert.equal((await partsOf([bytes('xEN')], ['END']))[0]?.text, 'xEN', 'the end gives out what was held');
});

test('a character that never became whole, and control tokens, have no text and do not come', async () => {
  const [first] = bytes('€') as [number];
  assert.equal(await partsOf([[97, TURN_ID, 98, EOS_ID, first]]), [
    { text: 'ab', ids: [97, 98], offsets: [0, 1] },
  ]);
});

test('a stop string counts from the first token behind min_tokens on, wherever it began', async () => {
  const textOf = async (text: string, minTokens: number) =>
    (await partsOf([bytes(text)], ['END'], { minTokens })).map((part) => part.text).join('');
  assert.is(await textOf('aENDb', 3), 'a', 'its last letter is the fourth token');
  assert.is(await textOf('aENDb', 4), 'aENDb');
  assert.is(await textOf('aENDbEND!', 4), 'aENDb');
});

test('the token that ends an answer gives no text, whatever it is', async () => {
  const parts = await partsOf([bytes('ab'), bytes('c')], [], { finish: 'stop_id' });
  assert.equal(parts.at(-1), { text: '', ids: [], offsets: [] });
  assert.equal((await partsOf([bytes('ab')], ['b'], { finish: 'stop_id' }))[0]?.text, 'a');
});

test.run();
