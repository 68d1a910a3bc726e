import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parseExecuteRequest, unusualSampling } from '../../../../gateway/api/native/execute.ts';
import { ObservedRunner } from '../../../../gateway/runner/observed-runner.ts';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';
import { readNativeAnswer } from '../../../fixtures/native-stream.ts';
import { ScriptedRunner, scriptedInfo } from '../../../fixtures/scripted-runner.ts';

/** What is no request and its answer. The rest is in test/wire. */

const test = suite('execute');

const bytes = (text: string): number[] => [...Buffer.from(text)];
const body = { job_id: 'a', prompt: 'Hi', seed: 7 };

test('combinations that leave hardly a choice are allowed, and said', () => {
  const about = (change: object) => unusualSampling(parseExecuteRequest({ ...body, ...change })).length;
  assert.is(about({ top_k: 5, top_p: 0.4 }), 1);
  assert.is(about({ min_p: 0.6, temperature: 0.4 }), 1);
  assert.is(about({ top_k: 9, top_p: 0.49, min_p: 0.51, temperature: 0.49 }), 2);
  for (const usual of [{}, { top_k: 10, top_p: 0.4 }, { top_k: 0, top_p: 0.4 }, { top_k: 5, top_p: 0.5 }])
    assert.is(about(usual), 0, JSON.stringify(usual));
  for (const usual of [
    { min_p: 0.5, temperature: 0.4 },
    { min_p: 0.6, temperature: 0.5 },
  ])
    assert.is(about(usual), 0, JSON.stringify(usual));
});

test('metrics events come when asked for, after tokens, at most once a second', async () => {
  let nowMs = 0;
  const monotonicNow = (): number => nowMs;
  const runner = new ScriptedRunner();
  const clock = {
    onTokens: () => {
      nowMs += 400;
    },
  };
  const { post } = testApp({ runner: new ObservedRunner(runner, [clock], monotonicNow), monotonicNow });
  runner.script = [bytes('a'), bytes('b'), bytes('c'), bytes('d'), bytes('e'), bytes('f'), [EOS_ID]];
  const answer = await readNativeAnswer(await post('/execute', { ...body, metrics: true }));
  const compact = answer.order.join(' ');
  assert.is(compact, 'started token token token metrics token token token metrics end');
  assert.equal(answer.metrics[0], { tokens_per_sec: 2.5, vram_bytes: 0 });
  const without = await readNativeAnswer(await post('/execute', body));
  assert.equal(without.metrics, []);

  runner.current = { ...runner.current, info: { ...scriptedInfo, kind: 'cuda' } };
  const cuda = await readNativeAnswer(await post('/execute', { ...body, metrics: true }));
  assert.is(cuda.metrics[0]?.vram_bytes, 1500);
});

test.run();
