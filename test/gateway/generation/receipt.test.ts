import { createHash } from 'node:crypto';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { marksOf } from '../../../gateway/generation/control-marks.ts';
import {
  type CanonicalCall,
  callHash,
  canonicalCallOf,
  quantizedAs,
  RECEIPT_VERSION,
  type Receipt,
  receiptSchema,
  type StopSearch,
  tokensHash,
} from '../../../gateway/generation/receipt.ts';
import { harmonyThinking } from '../../../gateway/prompt/harmony-format.ts';
import { byteTokenizer, withMarks } from '../../fixtures/byte-model.ts';
import { requestOf } from '../../fixtures/supervised.ts';

const test = suite('receipt');

const sha256 = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`;

const stopAt = (...stop: readonly string[]): StopSearch => ({ tokenizer: byteTokenizer, stop });

function reversed<Value extends object>(value: Value): Value {
  return Object.fromEntries(Object.entries(value).reverse()) as Value;
}

function receipt(call: CanonicalCall): Receipt {
  const hash = sha256('');
  return {
    ...{
      version: RECEIPT_VERSION,
      weights: hash,
      numerics: 'n',
      call: callHash(call),
      seed: call.seed,
      tokens: hash,
    },
    ...{ num_tokens: 0, stop_reason: 'eos', versions: { gateway: '1', runner: 'cpu 1' } },
  };
}

test('the hash of a call is that of its JSON, in whatever order its members were read', () => {
  const call = canonicalCallOf(requestOf([5, 6], 9), stopAt('end'));
  assert.is(callHash(call), sha256(JSON.stringify(call)));
  const turned = { ...receipt(call), full: { call: reversed(call), token_ids: [] } };
  assert.is.not(JSON.stringify(turned.full.call), JSON.stringify(call));
  assert.is(callHash(receiptSchema.parse(reversed(turned)).full?.call ?? call), callHash(call));
});

test('whatever determines the tokens changes the hash, and nothing else does', () => {
  const request = requestOf([5, 6], 9);
  const hash = callHash(canonicalCallOf(request, stopAt()));
  const { sampling } = request;
  const changes = [
    { promptIds: [5, 7] },
    { maxTokens: 8 },
    { minTokens: 1 },
    { stopIds: [1, 2, 3] },
    { sampling: { ...sampling, seed: sampling.seed + 1n } },
    { sampling: { ...sampling, logitBias: new Map([[3, 0.5]]) } },
    { grammar: { kind: 'regex', source: 'a', strict: false } as const },
  ];
  for (const change of changes)
    assert.is.not(
      callHash(canonicalCallOf({ ...request, ...change }, stopAt())),
      hash,
      JSON.stringify(Object.keys(change)),
    );
  assert.is.not(callHash(canonicalCallOf(request, stopAt('x'))), hash);
  const others = { topLogprobs: 3, priority: 5, cacheSalt: Uint8Array.of(1), api: 'openai', deadlineMs: 1 };
  assert.is(callHash(canonicalCallOf({ ...request, ...others }, stopAt())), hash);
});

test('a call with stop strings says in which text they are looked for, and one without does not', () => {
  const tokenizer = withMarks('<tool_call>');
  const marks = marksOf(['<tool_call>'], tokenizer);
  const format = { begin: '<think>', end: '</think>' };
  const channels = { format: harmonyThinking, isOpen: false };
  const read: readonly Omit<StopSearch, 'tokenizer' | 'stop'>[] = [
    {},
    { thinking: { format, isOpen: false } },
    { thinking: { format, isOpen: true } },
    { thinking: { format: { begin: '<t>', end: '</t>' }, isOpen: true } },
    { thinking: channels },
    { thinking: { ...channels, isClosed: true } },
    { thinking: { ...channels, isInText: true } },
    { thinking: { ...channels, readsCalls: true } },
    { toolCalls: { marks } },
  ];
  const hashesOf = (stop: readonly string[]) =>
    read.map((each) => callHash(canonicalCallOf(requestOf([5], 9), { tokenizer, stop, ...each })));
  assert.is(new Set(hashesOf(['x'])).size, read.length);
  assert.is(new Set(hashesOf([])).size, 1);
  assert.is(hashesOf([])[0], callHash(canonicalCallOf(requestOf([5], 9), stopAt())));
});

test('the order in which biases were sent makes no difference', () => {
  const biased = (pairs: [number, number][]) => {
    const request = requestOf([5], 9);
    return canonicalCallOf(
      { ...request, sampling: { ...request.sampling, logitBias: new Map(pairs) } },
      stopAt(),
    );
  };
  const one = biased([
    [7, 1],
    [3, -2],
  ]);
  assert.equal(one.logit_bias, [
    [3, -2],
    [7, 1],
  ]);
  assert.is(
    callHash(one),
    callHash(
      biased([
        [3, -2],
        [7, 1],
      ]),
    ),
  );
});

test('ids are hashed as a JSON array', () => {
  assert.is(tokensHash([1, 22, 333]), sha256('[1,22,333]'));
});

test('the identity of a quantised model says its type', () => {
  assert.is(quantizedAs('xxh3-0123456789abcdef-9-8-7'), undefined);
  assert.is(quantizedAs('q8_0-xxh3-0123456789abcdef-9-8-7'), 'q8_0');
});

test('a receipt of another version is not read as one of this version', () => {
  const { error } = receiptSchema.safeParse({ version: RECEIPT_VERSION - 1 });
  assert.ok(error?.issues.some(({ path }) => path[0] === 'version'));
});

test.run();
