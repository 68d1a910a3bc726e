import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  emptyContent,
  packEnd,
  packPiece,
  packRecord,
  unpackEnd,
  unpackPiece,
  unpackRecord,
} from '../../../gateway/journal/records.ts';
import type { LogEnd } from '../../../gateway/journal/token-log.ts';
import { GenerationError } from '../../../gateway/runner/runner.ts';
import { recordOf } from '../../fixtures/durable.ts';

const test = suite('records');

test('a request reads back bit-identical', () => {
  const plain = recordOf('a');
  assert.equal(unpackRecord(packRecord(plain)), plain);
  const full = recordOf('b', {
    model: 'm',
    endsAtTimeLimit: true,
    request: {
      ...plain.request,
      ...{ topLogprobs: 2, deadlineMs: 1e12 + 0.5, api: 'native' },
      trace: { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' },
      grammar: { kind: 'regex', source: 'a|b', strict: false },
    },
    thinkingLimit: {
      ...{ maxTokens: 5, endIds: [7, 8] },
      thinking: { format: { begin: '<a>', end: '</a>' }, isOpen: true },
    },
  });
  const read = unpackRecord(packRecord(full));
  assert.equal(
    { ...read, request: { ...read.request, cacheSalt: [...read.request.cacheSalt] } },
    {
      ...full,
      request: { ...full.request, cacheSalt: [...full.request.cacheSalt] },
    },
  );
});

test('pieces put together are what came, and one that does not go on there is refused', () => {
  const content = {
    tokenIds: [1, 70_000, 3],
    logprobs: [1, 2, 3].map((n) => ({ logprob: -n / 3, topIds: [n], topLogprobs: [-n / 7] })),
    first: { numCachedTokens: 1, queuedUs: 2, prefillUs: 3 },
    continuations: [{ index: 2, numericsId: 'other' }],
    end: undefined,
  };
  const pieces = [0, 2].map((from) =>
    packPiece(
      {
        ...content,
        tokenIds: content.tokenIds.slice(0, from === 0 ? 2 : 3),
        logprobs: content.logprobs.slice(0, from === 0 ? 2 : 3),
        continuations: from === 0 ? [] : content.continuations,
      },
      from,
    ),
  );
  const read = emptyContent({ topLogprobs: 1 });
  for (const piece of pieces) unpackPiece(piece, read);
  assert.equal(read, content);
  assert.throws(
    () => unpackPiece(pieces[1] as Uint8Array, emptyContent({ topLogprobs: 1 })),
    /begins at token 2/,
  );
  assert.throws(() => unpackPiece(pieces[0] as Uint8Array, emptyContent({})), /log-probabilities/);
});

test('every end comes back as it was', () => {
  const ends: LogEnd[] = [
    { kind: 'enough' },
    { kind: 'finish', finish: 'time_limit', isAlone: true },
    { kind: 'finish', finish: 'stop_id', isAlone: false },
  ];
  for (const end of ends) assert.equal(unpackEnd(packEnd({ end, endedMs: 5 })), { end, endedMs: 5 });
  const error = new GenerationError('TIMEOUT', 'Too late.', { retriable: true });
  const { end } = unpackEnd(packEnd({ end: { kind: 'error', error }, endedMs: 5 }));
  if (end.kind !== 'error') throw new Error('an error came back as something else');
  assert.equal({ ...end.error, message: end.error.message }, { ...error, message: error.message });
});

test('bytes that are no record are refused, whatever they are', () => {
  for (const bytes of [[], [0xc0], [0x81, 0xa1, 0x61, 1], [0xdd, 0xff, 0xff, 0xff, 0xff]])
    for (const unpack of [unpackRecord, unpackEnd, (each: Uint8Array) => unpackPiece(each, emptyContent({}))])
      assert.throws(() => unpack(Uint8Array.from(bytes)));
});

test.run();
