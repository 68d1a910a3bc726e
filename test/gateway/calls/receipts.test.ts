import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { withReceipts } from '../../../gateway/calls/receipts.ts';
import { messageOf } from '../../../gateway/errors/thrown.ts';
import type { AnswerPart } from '../../../gateway/generation/text-stream.ts';
import { byteTokenizer } from '../../fixtures/byte-model.ts';
import { requestOf } from '../../fixtures/supervised.ts';

const test = suite('receipts');

const terms = { form: 'hashes', versions: { gateway: '1', runner: 'cpu 1' } } as const;

const partOf = (tokenIds: readonly number[], isLast: boolean): AnswerPart => ({
  ...{ text: '', pieces: [], tokenIds },
  ...(isLast && { end: { reason: 'eos', stopMatched: null, numTokens: 9, numCachedTokens: 0 } as const }),
});

/** A sink over weights whose hash is made when the test says so. */
function receipting(numChoices = 1) {
  let settle: (hash: Promise<string>) => void = () => {};
  const hash = new Promise<string>((resolve) => (settle = resolve));
  const heard: string[] = [];
  const sink = withReceipts(
    {
      onPart: ({ tokenIds, end }, index) =>
        heard.push(
          `${index}: ${tokenIds.join(' ')}${end === undefined ? '' : ` ${end.receipt?.num_tokens}`}`,
        ),
      onError: (error) => heard.push(messageOf(error)),
    },
    terms,
    {
      model: { weightsHash: () => hash },
      numericsId: 'n',
      requests: Array.from({ length: numChoices }, () => requestOf([1], 9)),
      search: { tokenizer: byteTokenizer, stop: [] },
    },
  );
  return { sink, heard, settle };
}

test('only the last part of an answer waits for the hash of the weights', async () => {
  const { sink, heard, settle } = receipting();
  sink.onPart(partOf([5], false), 0);
  sink.onPart(partOf([6, 7], true), 0);
  await new Promise(setImmediate);
  assert.equal(heard, ['0: 5']);
  settle(Promise.resolve('sha256:0'));
  await new Promise(setImmediate);
  assert.equal(heard, ['0: 5', '0: 6 7 3']);
});

test('an answer whose weights cannot be hashed fails once, however many choices it has, and says why', async () => {
  const { sink, heard, settle } = receipting(2);
  sink.onPart(partOf([5], true), 0);
  sink.onPart(partOf([6], true), 1);
  settle(Promise.reject(new Error('The files have changed.')));
  await new Promise(setImmediate);
  assert.is(heard.length, 1);
  assert.match(heard[0] as string, 'its receipt cannot be made: The files have changed.');
});

test('nothing follows a failure, not even a choice that waits for the hash', async () => {
  const { sink, heard, settle } = receipting(2);
  sink.onPart(partOf([5], true), 0);
  sink.onError(new Error('The runner is lost.'));
  settle(Promise.resolve('sha256:0'));
  await new Promise(setImmediate);
  assert.equal(heard, ['The runner is lost.']);
});

test.run();
