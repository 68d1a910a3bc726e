import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { GenerateRequest } from '../../../../gateway/runner/runner.ts';
import {
  type GenerationSegment,
  GenerationState,
  ThinkingEnd,
} from '../../../../gateway/runner/supervision/generation-state.ts';

const test = suite('generation state');

const request: GenerateRequest = {
  promptIds: [1, 2, 3],
  modelIdentity: 'm',
  maxTokens: 10,
  minTokens: 2,
  stopIds: [9],
  sampling: {
    temperature: 0.5,
    topK: 4,
    topP: 0.9,
    minP: 0.1,
    repetitionPenalty: 1.1,
    presencePenalty: 0,
    frequencyPenalty: 0,
    logitBias: new Map(),
    allowedTokenIds: [],
    bannedTokenIds: [],
    seed: 2n ** 64n - 1n,
  },
  cacheSalt: Uint8Array.of(7),
};

function output(firstIndex: number, ...tokenIds: number[]) {
  return { requestId: 1, firstIndex, tokenIds };
}

test('asks a first runner for what was asked', () => {
  const { promptIds: tokenIds, modelIdentity: _, ...rest } = request;
  assert.equal(new GenerationState(request).toGenerate(), { ...rest, tokenIds, numEmitted: 0 });
});

test('asks a first runner to go on with what another process of the gateway has begun', () => {
  const begun = { tokenIds: [4, 5], numericsId: 'i8-1' };
  const state = new GenerationState({ ...request, resumeFrom: begun });
  const { promptIds: _prompt, modelIdentity: _model, ...rest } = request;
  assert.equal(state.toGenerate(), { ...rest, tokenIds: [1, 2, 3, 4, 5], numEmitted: 2 });
  state.append(output(2, 6));
  assert.equal([state.numEmitted, state.toGenerate().tokenIds], [3, [1, 2, 3, 4, 5, 6]]);
});

test('resumes on the next runner after the tokens received', () => {
  const entry = new GenerationState({ ...request, topLogprobs: 0 });
  entry.append(output(0, 5, 6));
  entry.append(output(2));
  entry.append(output(2, 7));
  const { promptIds: _promptIds, modelIdentity: _identity, ...rest } = request;
  const resumed = { ...rest, tokenIds: [1, 2, 3, 5, 6, 7], numEmitted: 3, topLogprobs: 0 };
  assert.equal(entry.toGenerate(), resumed);
  assert.equal(request.promptIds, [1, 2, 3], 'the request itself is as it was');
});

test('counts deaths only until a token comes', () => {
  const entry = new GenerationState(request);
  entry.crashesWithoutProgress += 1;
  entry.crashesWithoutProgress += 1;
  entry.append(output(0));
  assert.is(entry.crashesWithoutProgress, 2);
  entry.append(output(0, 5));
  assert.is(entry.crashesWithoutProgress, 0);
});

test('asks for scores of the prompt until all have come, and takes each once', () => {
  const entry = new GenerationState({ ...request, promptIds: [1, 2, 3, 4], promptLogprobs: 2 });
  const scores = (firstIndex: number, count: number) => ({
    type: 'prompt_logprobs' as const,
    requestId: 1,
    firstIndex,
    logprobs: Array.from({ length: count }, (_, offset) => {
      return { logprob: -(firstIndex + offset), topIds: [], topLogprobs: [] };
    }),
  });
  const taken = (firstIndex: number, count: number) =>
    entry.takeNew(scores(firstIndex, count)).map(({ logprob }) => logprob);
  assert.equal(taken(1, 2), [-1, -2]);
  assert.is(entry.toGenerate().promptLogprobs, 2, 'the next runner tells them from the beginning');
  assert.equal(taken(1, 1), []);
  assert.equal(taken(2, 2), [-3]);
  assert.is(Object.hasOwn(entry.toGenerate(), 'promptLogprobs'), false);
});

test('a prompt of one token has no scores to ask for', () => {
  const entry = new GenerationState({ ...request, promptIds: [1], promptLogprobs: 2 });
  assert.is(Object.hasOwn(entry.toGenerate(), 'promptLogprobs'), false);
});

test('is full with the last token that was asked for, or that the context holds, and not before', () => {
  const entry = new GenerationState(request);
  for (let index = 0; index < request.maxTokens; index += 1) {
    const length = request.promptIds.length + index;
    assert.equal(
      [entry.isFull(1000), entry.isFull(length + 1), entry.isFull(length)],
      [false, false, true],
      `behind ${index} tokens`,
    );
    entry.append(output(index, 5));
  }
  assert.is(entry.isFull(1000), true);
});

const BEGIN = 1;
const HALF = 2;
const END = 7;
const CLOSE = [6, END];

/** The answer thinks after BEGIN, or after two HALFs, until END. */
function isThinking(ids: readonly number[]): boolean | undefined {
  const [first, second] = ids;
  if (first === undefined || (first === HALF && second === undefined)) return undefined;
  const hasBegun = first === BEGIN || (first === HALF && second === HALF);
  return hasBegun && !ids.includes(END);
}

/** The answer of a model that would write the tokens `wanted` and then end, and the segments in which it was requested. */
function written(
  maxTokens: number,
  wanted: readonly number[],
): { ids: number[]; segments: (GenerationSegment | undefined)[] } {
  const thinking = new ThinkingEnd({ maxTokens, endIds: CLOSE, isThinking });
  const ids: number[] = [];
  const segments: (GenerationSegment | undefined)[] = [];
  const rest = [...wanted];
  for (;;) {
    const segment = thinking.segmentAfter(ids);
    segments.push(segment);
    // An instance that has seen none of the earlier segments asks for the same.
    const other = new ThinkingEnd({ maxTokens, endIds: CLOSE, isThinking });
    assert.equal(other.segmentAfter(ids), segment);
    if (segment?.onlyId !== undefined) ids.push(segment.onlyId);
    else while (rest.length > 0 && ids.length < (segment?.maxTokens ?? 1000)) ids.push(rest.shift() ?? 0);
    if (segment === undefined || (rest.length === 0 && segment.onlyId === undefined))
      return { ids, segments };
  }
}

test('an answer that thinks to its limit gets the end of its thinking, and goes on', () => {
  const { ids, segments } = written(3, [BEGIN, 10, 11, 12, 13]);
  assert.equal(ids, [BEGIN, 10, 11, ...CLOSE, 12, 13]);
  assert.equal(segments, [
    { maxTokens: 3 },
    { maxTokens: 4, onlyId: 6 },
    { maxTokens: 5, onlyId: END },
    undefined,
  ]);
});

test('an answer that ends its thinking in time, or has none, is as it would be', () => {
  for (const wanted of [
    [BEGIN, END, 12, 13],
    [BEGIN, 10, END, 13],
    [20, 21, 22, 23],
  ]) {
    const { ids, segments } = written(3, wanted);
    assert.equal(ids, wanted);
    assert.equal(segments, [{ maxTokens: 3 }, undefined]);
  }
});

test('a mark that has come in part is waited for', () => {
  assert.equal(written(1, [HALF, HALF, 11, 12]).ids, [HALF, HALF, ...CLOSE, 11, 12]);
  assert.equal(written(1, [HALF, 11, 12]).ids, [HALF, 11, 12]);
});

test.run();
