import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Evidence, leftOut, type Verdict, verdictOf } from '../../../../gateway/cli/verify/compare.ts';
import { marksOf } from '../../../../gateway/generation/control-marks.ts';
import {
  callHash,
  canonicalCallOf,
  RECEIPT_VERSION,
  type Receipt,
  type StopSearch,
  tokensHash,
} from '../../../../gateway/generation/receipt.ts';
import type { AnswerOptions } from '../../../../gateway/generation/text-stream.ts';
import type { CallSyntax } from '../../../../gateway/generation/tool-call-parser.ts';
import { hermesFormat } from '../../../../gateway/prompt/tool-call-format.ts';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import { byteModel, byteTokenizer, EOS_ID, withMarks } from '../../../fixtures/byte-model.ts';
import { ScriptedRunner, scriptedInfo } from '../../../fixtures/scripted-runner.ts';
import { requestOf } from '../../../fixtures/supervised.ts';

const test = suite('compare');

const ANSWER = [...Buffer.from('Well.'), EOS_ID];
const request = { ...requestOf([72, 105], 9), stopIds: [EOS_ID] };
const noStop = { tokenizer: byteTokenizer, stop: [] };
const call = canonicalCallOf(request, noStop);

function receiptOf(changes: Partial<Receipt> = {}): Receipt {
  return {
    version: RECEIPT_VERSION,
    weights: `sha256:${'0'.repeat(64)}`,
    numerics: 'scripted',
    call: callHash(call),
    seed: call.seed,
    tokens: tokensHash(ANSWER),
    num_tokens: ANSWER.length,
    stop_reason: 'eos',
    versions: { gateway: '1', runner: 'cpu 1' },
    full: { call, token_ids: ANSWER },
    ...changes,
  };
}

async function verdict(
  receipt: Receipt,
  script: ScriptedRunner['script'] = [ANSWER],
  evidence?: Evidence,
  model = byteModel,
): Promise<Verdict> {
  const runner = new ScriptedRunner();
  runner.script = script;
  return verdictOf(receipt, { model, info: scriptedInfo, runner }, evidence);
}

/** The verdict on a receipt of an answer that ends with the stop string which ends `tokenIds`, where a runner goes on. */
async function verdictOfStopped(
  tokenIds: readonly number[],
  search: StopSearch & Pick<AnswerOptions, 'tokenizer'>,
): Promise<Verdict> {
  const stopped = canonicalCallOf({ ...request, maxTokens: 99 }, search);
  const receipt = receiptOf({
    ...{ call: callHash(stopped), tokens: tokensHash(tokenIds), num_tokens: tokenIds.length },
    ...{ stop_reason: 'stop_sequence', full: { call: stopped, token_ids: [...tokenIds] } },
  });
  const model = { ...byteModel, tokenizer: search.tokenizer };
  return verdict(receipt, [[...tokenIds, 65, 66, EOS_ID]], undefined, model);
}

test('equal tokens are told with their number', async () => {
  assert.equal(await verdict(receiptOf()), { result: 'equal', sentences: ['6 tokens, computed again.'] });
});

test('a changed, a missing and a further token are found at their positions', async () => {
  const found = async (token_ids: number[]) => {
    const { result, sentences } = await verdict(receiptOf({ full: { call, token_ids } }));
    return [result, sentences[0]];
  };
  const at = (index: number, there: number | string, here: number | string) =>
    `The tokens differ at token ${index} (from 0): ${there} in the receipt, ${here} here.`;
  assert.equal(await found(ANSWER.with(2, 7)), ['differs', at(2, 7, 108)]);
  assert.equal(await found(ANSWER.slice(0, 5)), ['differs', at(5, 'none', EOS_ID)]);
  assert.equal(await found([...ANSWER, 7]), ['differs', at(6, 7, 'none')]);
});

test('each hash and number that is not what was computed is named', async () => {
  const changes: Partial<Receipt>[] = [
    { call: `sha256:${'1'.repeat(64)}` },
    { tokens: `sha256:${'1'.repeat(64)}` },
    { seed: '99' },
    { num_tokens: 5 },
    { stop_reason: 'max_tokens' },
  ];
  for (const change of changes) {
    const [name = ''] = Object.keys(change);
    const { result, sentences } = await verdict(receiptOf(change));
    assert.is(result, 'differs', name);
    assert.ok(
      sentences.some((sentence) => sentence.startsWith(`${name} is `)),
      sentences.join(' '),
    );
  }
});

test('an answer that a time limit has ended is compared as far as it came', async () => {
  const begun = ANSWER.slice(0, 3);
  const cut = receiptOf({
    ...{ stop_reason: 'time_limit', tokens: tokensHash(begun), num_tokens: 3 },
    full: { call, token_ids: begun },
  });
  assert.is((await verdict(cut)).result, 'equal');
  assert.is((await verdict(cut, [[1, 2, 3, EOS_ID]])).result, 'differs');
});

test('a stop string that stands in the thinking ends no answer here, as it ended none there', async () => {
  const thinking = { format: { begin: '<think>', end: '</think>' }, isOpen: true };
  const said = [...Buffer.from('Hm.\n\nWell.</think>\n\nYes.\n\n')];
  const { result, sentences } = await verdictOfStopped(said, {
    ...{ tokenizer: byteTokenizer, stop: ['\n\n'], thinking },
  });
  assert.equal([result, ...sentences], ['equal', `${said.length} tokens, computed again.`]);
});

test('a stop string that has a control token of a tool call ends an answer here as it did there', async () => {
  const tokenizer = withMarks('</tool_call>');
  const marks = marksOf(['</tool_call>'], tokenizer);
  const said = [...Buffer.from('{}'), byteTokenizer.vocabSize];
  const toolCalls: CallSyntax = { format: hermesFormat, marks, kindOf: () => 'json' };
  const { result, sentences } = await verdictOfStopped(said, { tokenizer, stop: ['call>'], toolCalls });
  assert.equal([result, ...sentences], ['equal', '3 tokens, computed again.']);
});

test('a request that gives another call proves nothing, and a full receipt is verified without it', async () => {
  const other = canonicalCallOf({ ...request, promptIds: [72, 111] }, noStop);
  const evidence: Evidence = {
    call: other,
    options: { ...noStop, minTokens: 0 },
    echoed: '',
    said: { thought: '', text: 'Other.' },
  };
  const named = new RegExp(`does not give the call .* ${callHash(call)} in .* ${callHash(other)} here`);
  const { full, ...hashes } = receiptOf();
  const alone = await verdict(hashes, [], evidence);
  assert.is(alone.result, 'unverifiable');
  assert.match(alone.sentences.join(' '), named);
  const both = await verdict({ ...hashes, ...(full && { full }) }, [ANSWER], evidence);
  assert.equal([both.result, both.sentences[0]], ['unverifiable', '6 tokens, computed again.']);
  assert.match(both.sentences[1] as string, named);
  const changed = receiptOf({ full: { call, token_ids: ANSWER.with(2, 7) } });
  assert.is((await verdict(changed, [ANSWER], evidence)).result, 'differs');
});

test('a request that continues a response does not say all that was called', () => {
  const verdict = leftOut({ input: 'And?', previous_response_id: 'resp_1' });
  assert.is(verdict?.result, 'unverifiable');
  assert.match(verdict?.sentences[0] as string, 'previous_response_id');
  assert.is(leftOut({ input: 'And?', previous_response_id: null }), undefined);
});

test('what nothing here can compute is not verified, and the reason has both values', async () => {
  const cases: [Partial<Receipt>, RegExp][] = [
    [{ numerics: 'other' }, /numerics other; .* are scripted/],
    [{ continued_by: 'third' }, /begun by the numerics scripted and continued by third/],
    [{ quantize: 'q8_0' }, /--quantize q8_0; here .* no --quantize/],
    [{ num_tokens: 600 }, /have 602 tokens, .* context of 512/],
    [{ full: undefined } as Partial<Receipt>, /only the hashes/],
  ];
  for (const [change, expected] of cases) {
    const { result, sentences } = await verdict(receiptOf(change));
    assert.is(result, 'unverifiable');
    assert.match(sentences[0] as string, expected);
  }
});

test('a call that the runner refuses is not verified, and other failures are no verdict', async () => {
  const failing = (code: 'INVALID_REQUEST' | 'OUT_OF_MEMORY') => [
    new GenerationError(code, 'It cannot be.', { retriable: false }),
  ];
  const { result, sentences } = await verdict(receiptOf(), failing('INVALID_REQUEST'));
  assert.equal(
    [result, sentences[0]],
    ['unverifiable', 'The runner refuses the call of the receipt: It cannot be.'],
  );
  try {
    await verdict(receiptOf(), failing('OUT_OF_MEMORY'));
    assert.unreachable();
  } catch (error) {
    assert.instance(error, GenerationError);
  }
});

test.run();
