import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { FrameDecoder, maxBytesToRunner } from '../../../../gateway/runner/protocol/frame.ts';
import { runner } from '../../../../gateway/runner/protocol/proto/runner.js';
import type { Generate } from '../../../../gateway/runner/protocol/to-runner.ts';
import {
  encodeToRunner,
  maxSpellingBytes,
  maxVocabularyBytes,
  vocabularyFrames,
} from '../../../../gateway/runner/protocol/to-runner.ts';
import type { VocabularyFrames } from '../../../../gateway/runner/runner.ts';
import { errorOf } from '../../../fixtures/errors.ts';

const test = suite('messages to the runner');

const { v1 } = runner;

const generate: Generate = {
  requestId: 7,
  tokenIds: [1, 300, 49151, 16777215],
  numEmitted: 2,
  maxTokens: 2048,
  minTokens: 0,
  stopIds: [0, 2],
  sampling: {
    temperature: 0.75,
    topK: 40,
    topP: 0.875,
    minP: 0.0625,
    repetitionPenalty: 1.25,
    seed: 18446744073709551615n,
    presencePenalty: 1.5,
    frequencyPenalty: -0.5,
    logitBias: new Map([
      [11, -100],
      [49151, 2.5],
    ]),
    allowedTokenIds: [],
    bannedTokenIds: [],
  },
  topLogprobs: 20,
  cacheSalt: new Uint8Array(),
};

test('encoded commands equal the vectors byte for byte', () => {
  const vectors: readonly { name: string; frames: string[] }[] = JSON.parse(
    readFileSync(new URL('../../../golden/frames.json', import.meta.url), 'utf8'),
  );
  const bytesOf = (name: string) => vectors.find((vector) => vector.name === name)?.frames[0];
  const hex = (message: Parameters<typeof encodeToRunner>[0]) =>
    Buffer.from(encodeToRunner(message)).toString('hex');
  assert.is(hex({ type: 'generate', ...generate }), bytesOf('one generate'));
  assert.is(hex({ type: 'cancel', requestId: 4294967295, isComplete: true }), bytesOf('one cancel'));
  for (const cancel of [{ requestId: 4 }, { requestId: 4, isComplete: false }]) {
    const sent = v1.ToRunner.decode(encodeToRunner({ type: 'cancel', ...cancel })).cancel;
    assert.is(sent?.isComplete ?? false, false);
  }
  assert.is(hex({ type: 'pause', requestId: 8 }), bytesOf('one pause'));
  assert.is(hex({ type: 'resume', requestId: 9 }), bytesOf('one resume'));
  assert.is(hex({ type: 'drain' }), bytesOf('one drain'));
  assert.is(hex({ type: 'release_kv', descriptor: 5 }), bytesOf('one release_kv'));
  const sent = v1.ToRunner.decode(encodeToRunner({ type: 'generate', ...generate, kvFrom: [5, 300] }));
  assert.equal(sent.generate?.kvFrom, [5, 300]);
  const spellings = Uint8Array.from([0, 255, 97, 10]);
  const part = { numTokens: 49152, numBytes: 300000, firstId: 256, lengths: [0, 3, 1], spellings };
  assert.is(hex({ type: 'vocabulary', ...part }), bytesOf('one vocabulary'));
});

test('a grammar arrives as it is', () => {
  const kinds = ['json_schema', 'json_object', 'regex', 'ebnf', 'structural_tag'] as const;
  for (const kind of kinds) {
    const grammar = { kind, source: '"é"', strict: true };
    const sent = v1.ToRunner.decode(encodeToRunner({ type: 'generate', ...generate, grammar })).generate;
    const name = v1.GrammarKind[sent?.grammar?.kind ?? 0];
    assert.equal(
      [name, sent?.grammar?.source, sent?.grammar?.strict],
      [`GRAMMAR_KIND_${kind.toUpperCase()}`, grammar.source, true],
    );
  }
});

test('seeds of all 64 bits arrive unchanged', () => {
  for (const seed of [0n, 1n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n]) {
    const bytes = encodeToRunner({ type: 'generate', ...generate, sampling: { ...generate.sampling, seed } });
    assert.is(v1.ToRunner.decode(bytes).generate?.sampling?.seed?.toString(), seed.toString());
  }
});

test('a number that its field cannot carry is refused by name, not wrapped', () => {
  const sampling = { ...generate.sampling, seed: 2n ** 64n };
  const bad: [Partial<Generate>, RegExp][] = [
    [{ tokenIds: [1, -1] }, /token_ids must be an integer from 0 to 4294967295, not -1/],
    [{ stopIds: [1.5] }, /stop_ids .* not 1\.5/],
    [
      { sampling: { ...generate.sampling, logitBias: new Map([[-1, 1]]) } },
      /logit_bias must be an integer from 0 to 4294967295, not -1/,
    ],
    [
      { sampling: { ...generate.sampling, allowedTokenIds: [-2] } },
      /allowed_token_ids must be an integer .* not -2/,
    ],
    [
      { sampling: { ...generate.sampling, bannedTokenIds: [0.5] } },
      /banned_token_ids must be an integer .* not 0\.5/,
    ],
    [{ minTokens: -1 }, /min_tokens .* not -1/],
    [
      { grammar: { kind: 'regex', source: 'é'.repeat(2 ** 17 + 1), strict: false } },
      /The grammar must have at most 262144 bytes, not 262146/,
    ],
    [
      { grammar: { kind: 'regex', source: 'a\ud800', strict: false } },
      /The grammar is not valid Unicode: it has an unpaired surrogate/,
    ],
    [{ promptLogprobs: 1.5 }, /prompt_logprobs .* not 1\.5/],
    [{ maxTokens: 2 ** 32 }, /max_tokens .* not 4294967296/],
    [{ sampling }, /seed must be an integer from 0 to 18446744073709551615, not 18446744073709551616/],
  ];
  for (const [change, sentence] of bad) {
    assert.throws(
      () => encodeToRunner({ type: 'generate', ...generate, ...change }),
      (error: unknown) => error instanceof RangeError && sentence.test(error.message),
    );
  }
});

test('log-probabilities that were not asked for are not asked for', () => {
  const { topLogprobs: _, ...plain } = generate;
  const isAsked = (request: Generate) =>
    Object.hasOwn(
      v1.ToRunner.decode(encodeToRunner({ type: 'generate', ...request })).generate ?? {},
      'topLogprobs',
    );
  assert.is(isAsked(plain), false);
  assert.is(isAsked({ ...plain, topLogprobs: 0 }), true);
});

test('masks, min_tokens, scores of the prompt and the salt reach the runner', () => {
  const sampling = { ...generate.sampling, allowedTokenIds: [1, 2], bannedTokenIds: [3] };
  const cacheSalt = Uint8Array.from({ length: 32 }, (_, byte) => byte);
  const sent: Generate = { ...generate, sampling, minTokens: 9, promptLogprobs: 0, cacheSalt };
  const got = v1.ToRunner.decode(encodeToRunner({ type: 'generate', ...sent })).generate;
  assert.equal([got?.minTokens, got?.promptLogprobs], [9, 0]);
  assert.equal([got?.sampling?.allowedTokenIds, got?.sampling?.bannedTokenIds], [[1, 2], [3]]);
  assert.equal([...(got?.cacheSalt ?? [])], [...cacheSalt]);
  const tooLong = { ...sent, cacheSalt: new Uint8Array(33) };
  assert.throws(() => encodeToRunner({ type: 'generate', ...tooLong }), /cache_salt .* 32 bytes, not 33/);
});

/** Decodes the frames as a runner does. */
function read({ numTokens, frames }: VocabularyFrames): { spellings: Buffer[]; numBytes: number } {
  const spellings: Buffer[] = [];
  const sizes = new Set<number>();
  const decoder = new FrameDecoder(maxBytesToRunner, (bytes) => {
    const { vocabulary } = runner.v1.ToRunner.decode(bytes);
    assert.is(vocabulary?.numTokens, numTokens);
    assert.is(vocabulary?.firstId ?? 0, spellings.length, 'they come in order and without gaps');
    sizes.add(vocabulary?.numBytes ?? 0);
    let at = 0;
    assert.ok((vocabulary?.lengths ?? []).length > 0);
    for (const length of vocabulary?.lengths ?? []) {
      spellings.push(Buffer.from((vocabulary?.spellings ?? new Uint8Array()).subarray(at, at + length)));
      at += length;
    }
    assert.is(at, vocabulary?.spellings?.length ?? 0);
  });
  for (const frame of frames) decoder.push(frame);
  assert.is(sizes.size, 1, 'each says the same size');
  return { spellings, numBytes: [...sizes][0] as number };
}

test('each token arrives with its bytes, in frames of a bounded size', async () => {
  const numTokens = 20_000;
  const expected = Array.from({ length: numTokens }, (_, id) =>
    Buffer.from([id & 255, ...Array(id % 90).fill(7)]),
  );
  expected[5] = Buffer.alloc(0);
  const frames = await vocabularyFrames(numTokens, (id) => expected[id] as Buffer);
  const { spellings, numBytes } = read(frames);
  assert.equal(spellings, expected);
  assert.is(numBytes, Buffer.concat(expected).length);
  assert.ok(frames.frames.length > 3);
  for (const frame of frames.frames) assert.ok(frame.length < 2 ** 19, `a frame of ${frame.length} bytes`);
});

test('a token that is too long has no spelling', async () => {
  const spelled = [
    Buffer.alloc(maxSpellingBytes, 97),
    Buffer.alloc(maxSpellingBytes + 1, 97),
    Buffer.from('b'),
  ];
  const { spellings } = read(await vocabularyFrames(3, (id) => spelled[id] as Buffer));
  assert.equal(
    spellings.map(({ length }) => length),
    [maxSpellingBytes, 0, 1],
  );
});

test('a vocabulary that a runner does not take is refused', async () => {
  const long = Buffer.alloc(maxSpellingBytes);
  const numTokens = maxVocabularyBytes / maxSpellingBytes;
  assert.is((await vocabularyFrames(numTokens, () => long)).numTokens, numTokens);
  assert.match(
    (await errorOf(() => vocabularyFrames(numTokens + 1, () => long))).message,
    /spelled with 33558528 bytes; a runner takes 33554432/,
  );
});

test.run();
