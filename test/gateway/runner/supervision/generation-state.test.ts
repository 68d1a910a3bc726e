import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { GenerateRequest } from '../../../../gateway/runner/runner.ts';
import { GenerationState } from '../../../../gateway/runner/supervision/generation-state.ts';

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

const journal = suite('journal');

journal('asks a first runner for what was asked', () => {
  const { promptIds: tokenIds, modelIdentity: _, ...rest } = request;
  assert.equal(new GenerationState(request).toGenerate(), { ...rest, tokenIds, numEmitted: 0 });
});

journal('asks a first runner to go on with what another process of the gateway has begun', () => {
  const begun = { tokenIds: [4, 5], numericsId: 'i8-1' };
  const state = new GenerationState({ ...request, begun });
  const { promptIds: _prompt, modelIdentity: _model, ...rest } = request;
  assert.equal(state.toGenerate(), { ...rest, tokenIds: [1, 2, 3, 4, 5], numEmitted: 2 });
  state.append(output(2, 6));
  assert.equal([state.numEmitted, state.toGenerate().tokenIds], [3, [1, 2, 3, 4, 5, 6]]);
});

journal('resumes on the next runner after the tokens received', () => {
  const entry = new GenerationState({ ...request, topLogprobs: 0 });
  entry.append(output(0, 5, 6));
  entry.append(output(2));
  entry.append(output(2, 7));
  const { promptIds: _promptIds, modelIdentity: _identity, ...rest } = request;
  const resumed = { ...rest, tokenIds: [1, 2, 3, 5, 6, 7], numEmitted: 3, topLogprobs: 0 };
  assert.equal(entry.toGenerate(), resumed);
  assert.equal(request.promptIds, [1, 2, 3], 'the request itself is as it was');
});

journal('counts deaths only until a token comes', () => {
  const entry = new GenerationState(request);
  entry.countDeath();
  entry.countDeath();
  entry.append(output(0));
  assert.is(entry.fruitlessDeaths, 2);
  entry.append(output(0, 5));
  assert.is(entry.fruitlessDeaths, 0);
});

journal('asks for scores of the prompt until all have come, and takes each once', () => {
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

journal('a prompt of one token has no scores to ask for', () => {
  const entry = new GenerationState({ ...request, promptIds: [1], promptLogprobs: 2 });
  assert.is(Object.hasOwn(entry.toGenerate(), 'promptLogprobs'), false);
});

journal('is full with the last token that was asked for, or that the context holds, and not before', () => {
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

journal.run();
