import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type AnswerPart, TextStream } from '../../../gateway/generation/text-stream.ts';
import { cancelled, type GenerationHandle, type TokenBatch } from '../../../gateway/runner/runner.ts';
import { byteTokenizer, EOS_ID, TURN_ID } from '../../fixtures/byte-model.ts';
import { requestOf } from '../../fixtures/requests.ts';

const test = suite('tokens that were sent');

const bytes = (text: string): number[] => [...Buffer.from(text)];

type Finish = NonNullable<TokenBatch['finish']>;

/** The parts of an answer whose steps brought these ids. */
function partsOf(
  steps: readonly (readonly number[])[],
  stop: readonly string[] = [],
  { minTokens = 0, finish: last = 'max_tokens' }: { minTokens?: number; finish?: Finish } = {},
) {
  const { handle } = handleOf();
  const parts: { text: string; ids: number[]; offsets: number[] }[] = [];
  const sink = {
    onPart: (part: AnswerPart) => parts.push(seen(part)),
    onError: (error: unknown) => {
      throw error;
    },
  };
  const options = { tokenizer: byteTokenizer, stop, minTokens };
  const stream = new TextStream({ generate: () => handle }, requestOf([1], 100), options, sink);
  let firstIndex = 0;
  for (const [at, tokenIds] of steps.entries()) {
    const logprobs = tokenIds.map((id) => ({ logprob: -id, topIds: [], topLogprobs: [] }));
    const finish = at < steps.length - 1 ? {} : { finish: last };
    stream.onTokens({ firstIndex, tokenIds, logprobs, ...finish });
    firstIndex += tokenIds.length;
  }
  return parts;
}

/** A handle that records what a stream asks of its request. */
function handleOf() {
  const asked: string[] = [];
  const handle: GenerationHandle = {
    cancel: (reason = 'cancelled') => asked.push(reason),
    pause: () => asked.push('pause'),
    resume: () => asked.push('resume'),
  };
  return { asked, handle };
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

test('text held back for a stop string is released once unmatched, or dropped', async () => {
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

test('a stop string matches only if it ends after min_tokens', async () => {
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

/** A stream without log-probabilities, and what its sink heard. */
function plainStream(stop: readonly string[] = [], onPart: (part: AnswerPart) => void = () => {}) {
  const { asked, handle } = handleOf();
  const heard: string[] = [];
  const options = { tokenizer: byteTokenizer, stop, minTokens: 0 };
  const stream = new TextStream({ generate: () => handle }, requestOf([1], 100), options, {
    onPart: (part) => {
      onPart(part);
      heard.push(part.pieces.map(({ text }) => text).join(''));
    },
    onError: (error) => heard.push((error as Error).message),
  });
  return { stream, asked, heard };
}

test('a matched stop string cancels the rest, whose tokens are dropped', () => {
  const { stream, asked, heard } = plainStream(['END']);
  stream.onTokens({ firstIndex: 0, tokenIds: bytes('aEND') });
  assert.equal([heard, asked], [['a'], ['enough']]);
  stream.onTokens({ firstIndex: 4, tokenIds: bytes('b') });
  stream.abort(cancelled());
  assert.equal(heard, ['a']);
});

test('a cancelled stream ends silently, and an aborted stream ends with its reason', () => {
  const left = plainStream();
  left.stream.cancel();
  left.stream.onTokens({ firstIndex: 0, tokenIds: bytes('a') });
  left.stream.onError(cancelled());
  assert.equal([left.heard, left.asked], [[], ['cancelled']]);
  const aborted = plainStream();
  aborted.stream.abort(cancelled());
  aborted.stream.abort(cancelled());
  assert.equal([aborted.heard, aborted.asked], [[cancelled().message], ['cancelled']]);
});

test('an error of its sink or the tokenizer ends only this answer', () => {
  const faulty = plainStream([], () => {
    throw new Error('a fault');
  });
  faulty.stream.onTokens({ firstIndex: 0, tokenIds: bytes('a') });
  assert.equal([faulty.heard, faulty.asked], [['a fault'], ['cancelled']]);
  const outside = plainStream();
  outside.stream.onTokens({ firstIndex: 0, tokenIds: [999] });
  assert.is(outside.heard.length, 1);
  assert.equal(outside.asked, ['cancelled']);
});

/** What is heard of an answer that thinks, whose tokens are its bytes, in steps of so many. */
function thoughtsOf(answer: string, isOpen: boolean, perStep: number, stop: readonly string[] = []) {
  const format = { begin: '<think>', end: '</think>', member: undefined };
  const { handle } = handleOf();
  const heard = { thought: '', text: '', sent: '', end: undefined as AnswerPart['end'] };
  const sink = {
    onPart: ({ thought = '', pieces, sentTokens = [], end }: AnswerPart) => {
      assert.not.ok(thought !== '' && heard.text !== '');
      heard.thought += thought;
      heard.text += pieces.map(({ text }) => text).join('');
      heard.sent += Buffer.from(sentTokens.map(({ id }) => id)).toString();
      heard.end = end;
    },
    onError: (error: unknown) => {
      throw error;
    },
  };
  const options = { tokenizer: byteTokenizer, stop, minTokens: 0, thinking: { format, isOpen } };
  const stream = new TextStream({ generate: () => handle }, requestOf([1], 100), options, sink);
  const ids = [...bytes(answer), EOS_ID];
  for (let firstIndex = 0; firstIndex < ids.length; firstIndex += perStep) {
    const tokenIds = ids.slice(firstIndex, firstIndex + perStep);
    const logprobs = tokenIds.map((id) => ({ logprob: -id, topIds: [], topLogprobs: [] }));
    const finish = firstIndex + perStep < ids.length ? {} : { finish: 'stop_id' as const };
    stream.onTokens({ firstIndex, tokenIds, logprobs, ...finish });
  }
  return heard;
}

test('thinking is separate from the text, and only text has log-probabilities', () => {
  for (const perStep of [1, 2, 3, 5, 100]) {
    const free = thoughtsOf('<think>\nsüß <b>\n</think>\n\nés <i>', false, perStep);
    assert.equal([free.thought, free.text, free.sent], ['süß <b>', 'és <i>', 'és <i>']);
    assert.is(free.end?.numThinkingTokens, Buffer.byteLength('<think>\nsüß <b>\n</think>'));
    const open = thoughtsOf('so\n</think>x', true, perStep);
    assert.equal([open.thought, open.text, open.sent, open.end?.numThinkingTokens], ['so', 'x', 'x', 11]);
    const none = thoughtsOf('<i>', false, perStep);
    assert.equal([none.thought, none.text, none.sent, none.end?.numThinkingTokens], ['', '<i>', '<i>', 0]);
    const cut = thoughtsOf('<thi', false, perStep);
    assert.equal([cut.thought, cut.text, cut.end?.numThinkingTokens], ['', '<thi', 0]);
    const unfinished = thoughtsOf('so\n</thi', true, perStep);
    assert.equal([unfinished.thought, unfinished.text], ['so\n</thi', '']);
  }
});

test('a stop string ends the answer, not the thinking before it', () => {
  const { thought, text, end } = thoughtsOf('a END b</think>c END d', true, 4, ['END']);
  assert.equal([thought, text, end?.stopMatched], ['a END b', 'c ', 'END']);
});

test.run();
