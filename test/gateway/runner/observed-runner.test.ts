import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ObservedRunner, type RequestObserver } from '../../../gateway/runner/observed-runner.ts';
import { type GenerateRequest, GenerationError, type TokenSink } from '../../../gateway/runner/runner.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { requestOf } from '../../fixtures/supervised.ts';

const test = suite('observed runner');

const refusal = new GenerationError('QUEUE_FULL', 'Full.', { retriable: true });

/** A runner whose requests are answered by hand, with two observers and a consumer that all write down what they see. */
function observed() {
  const seen: string[] = [];
  const inner = new ScriptedRunner();
  inner.script = ['wait'];
  const observer = (name: string): RequestObserver => ({
    onAsked: ({ promptIds }) => {
      seen.push(`${name} asked`);
      if (promptIds.length === 0) throw refusal;
    },
    onRefused: (outcome) => seen.push(`${name} refused ${outcome}`),
    onAdmitted: () => seen.push(`${name} admitted`),
    onTokens: (_, { tokenIds }) => seen.push(`${name} ${tokenIds}`),
    onEnd: (_, outcome) => seen.push(`${name} ended ${outcome}`),
  });
  const sink: TokenSink = {
    onTokens: ({ tokenIds }) => seen.push(`consumer ${tokenIds}`),
    onError: ({ code }) => seen.push(`consumer ${code}`),
  };
  const runner = new ObservedRunner(inner, [observer('first'), observer('second')], () => 0);
  const generate = (request: GenerateRequest = requestOf([1], 5)) => runner.generate(request, sink);
  /** What was seen since the last call. */
  const taken = (): string[] => seen.splice(0);
  return { inner, runner, generate, taken };
}

test('each observer sees admission, tokens and end, in order and before the consumer', () => {
  const { generate, taken } = observed();
  const request = generate();
  assert.equal(taken(), ['first asked', 'second asked', 'first admitted', 'second admitted']);
  request.onTokens({ firstIndex: 0, tokenIds: [7] });
  assert.equal(taken(), ['first 7', 'second 7', 'consumer 7']);
  request.onTokens({ firstIndex: 1, tokenIds: [8], finish: 'stop_id' });
  assert.equal(taken(), ['first 8', 'second 8', 'first ended eos', 'second ended eos', 'consumer 8']);
  request.cancel('enough');
  assert.equal(taken(), [], 'the end is seen once');
});

test('an observer can fail an answer, whose request is then cancelled on the runner', () => {
  const { inner, generate, taken } = observed();
  const request = generate();
  taken();
  request.fail(new GenerationError('TIMEOUT', 'Too late.', { retriable: true }));
  assert.equal(taken(), ['first ended timeout', 'second ended timeout', 'consumer TIMEOUT']);
  assert.is(inner.cancelled, 1);
});

test('what a runner or an observer refuses is seen as refused, once for each request', () => {
  const { inner, runner, generate, taken } = observed();
  assert.throws(() => generate(requestOf([], 5)), refusal.message);
  assert.equal(taken(), ['first asked', 'first refused queue_full', 'second refused queue_full']);
  assert.is(inner.requests.length, 0, 'the runner does not hear of it');
  inner.refuse = refusal;
  assert.throws(() => runner.assertCapacity([requestOf([1], 5), requestOf([1], 5)]), refusal.message);
  const refused = ['first refused queue_full', 'second refused queue_full'];
  assert.equal(taken(), [...refused, ...refused]);
});

test.run();
