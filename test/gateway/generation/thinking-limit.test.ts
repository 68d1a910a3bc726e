import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { thinkingLimit } from '../../../gateway/generation/thinking-parser.ts';
import { byteTokenizer } from '../../fixtures/byte-model.ts';

const test = suite('thinking limit');

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

test.run();
