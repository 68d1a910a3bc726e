import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { thinkingLimit } from '../../../gateway/generation/thinking-families.ts';
import { harmonyThinking } from '../../../gateway/prompt/harmony-format.ts';
import { byteTokenizer } from '../../fixtures/byte-model.ts';
import { harmonyIds, harmonyTokenizer } from '../../fixtures/harmony-model.ts';

const test = suite('thinking families');

const bytes = (text: string): number[] => [...Buffer.from(text)];

test('the ids of an answer tell whether it thinks, once they are enough', () => {
  const format = { begin: '<think>', end: '</think>' };
  const facts = { maxTokens: 7, endIds: bytes('</think>'), thinking: { isOpen: false, format } };
  const limit = thinkingLimit(facts, byteTokenizer);
  const told = ['', '<thi', '<think>', '<think>so', '<think>so</think>', 'so'].map((text) =>
    limit.isThinking(bytes(text)),
  );
  assert.equal(told, [undefined, undefined, true, true, false, false]);
});

test('an answer in messages thinks from the end of a header to the end of its message', () => {
  const { begin, end } = harmonyThinking;
  const facts = {
    maxTokens: 7,
    endIds: harmonyIds(end),
    thinking: { isOpen: false, format: { begin, end } },
  };
  const limit = thinkingLimit(facts, harmonyTokenizer);
  const told = ['', '<|channel|>analysis', begin, `${begin}so`, `${begin}so<|end|>`, begin + end].map(
    (text) => limit.isThinking(harmonyIds(text)),
  );
  assert.equal(told, [undefined, undefined, true, true, undefined, false]);
});

test.run();
