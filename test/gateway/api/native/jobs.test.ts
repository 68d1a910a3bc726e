import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { CacheSharing } from '../../../../gateway/config/serve-settings.ts';
import { AdmissionGate } from '../../../../gateway/models/admission-gate.ts';
import { loopbackOnly } from '../../../../gateway/server/guard/guard.ts';
import type { Tokenizer } from '../../../../gateway/tokenizer/tokenizer.ts';
import { testApp } from '../../../fixtures/app.ts';
import { byteModel, EOS_ID } from '../../../fixtures/byte-model.ts';
import { keysOf } from '../../../fixtures/keys.ts';
import { readNativeAnswer } from '../../../fixtures/native-stream.ts';
import { ScriptedRunner } from '../../../fixtures/scripted-runner.ts';
import { VirtualClock } from '../../../fixtures/virtual-clock.ts';
import { PATIENCE_MS, until } from '../../../fixtures/within.ts';

const test = suite('jobs');

const OURS = 'a-key-of-this-client';
const THEIRS = 'a-key-of-the-others';
const ADMIN = 'a-key-of-an-operator';

function setUp(cacheSharing: CacheSharing = 'per-key') {
  const apiKeys = keysOf([OURS, THEIRS], [ADMIN]);
  const { post, runner } = testApp({ guard: { ...loopbackOnly, apiKeys, cacheSharing } });
  const as = (key: string) => (path: string, body: object) => post(path, body, { 'x-api-key': key });
  return { as, runner };
}

test('a job id is its key’s: another key’s cancel is answered as for an unknown id and cancels nothing', async () => {
  for (const sharing of ['per-key', 'all'] as const) {
    const { as, runner } = setUp(sharing);
    runner.script = [[97], 'wait'];
    const stream = await as(OURS)('/execute', { job_id: 'a', prompt: 'x' });
    const unknown = await as(OURS)('/cancel', { job_id: 'b' });
    for (const key of [THEIRS, ADMIN]) {
      const refused = await as(key)('/cancel', { job_id: 'a' });
      assert.is(refused.status, unknown.status);
      assert.equal(await refused.json(), { ...((await unknown.clone().json()) as object), job_id: 'a' });
    }
    assert.is(runner.cancelled, 0, 'no cancel of another key has ended it');
    let isAsked = false;
    const answer = await readNativeAnswer(stream, () => {
      if (isAsked) return;
      isAsked = true;
      void as(OURS)('/cancel', { job_id: 'a' });
    });
    assert.is(answer.last.data.code, 'CANCELLED', sharing);
  }
});

test('the same id under two keys is two jobs', async () => {
  const { as, runner } = setUp();
  runner.script = [[97], 'wait'];
  const ours = await as(OURS)('/execute', { job_id: 'a', prompt: 'x' });
  const theirs = await as(THEIRS)('/execute', { job_id: 'a', prompt: 'x' });
  assert.equal([ours.status, theirs.status], [200, 200]);
  assert.is((await as(OURS)('/execute', { job_id: 'a', prompt: 'x' })).status, 409);
  await as(OURS)('/cancel', { job_id: 'a' });
  assert.is((await readNativeAnswer(ours)).last.data.code, 'CANCELLED');
  await until(PATIENCE_MS, 'The cancel', () => runner.cancelled === 1);
  runner.script = [[EOS_ID]];
  const again = await as(OURS)('/execute', { job_id: 'a', prompt: 'x' });
  assert.is((await readNativeAnswer(again)).last.event, 'end', 'the id of the one is free');
  assert.is(
    (await as(THEIRS)('/execute', { job_id: 'a', prompt: 'x' })).status,
    409,
    'that of the other is not',
  );
  await as(THEIRS)('/cancel', { job_id: 'a' });
  assert.is((await readNativeAnswer(theirs)).last.data.code, 'CANCELLED');
});

/** An application whose model is not ready before the gate is opened. */
function loading() {
  const runner = new ScriptedRunner();
  runner.script = [[97], [EOS_ID]];
  const clock = new VirtualClock();
  const gate = new AdmissionGate({
    ...{ maxWaiting: 8, maxWaitMs: PATIENCE_MS, now: () => clock.now(), clock },
    onRefused: () => {},
  });
  gate.close();
  return { ...testApp({ runner, gate }), gate };
}

test('a cancel reaches a job that waits for its model, and its id is free again', async () => {
  const { post, runner, gate } = loading();
  const waiting = post('/execute', { job_id: 'a', prompt: 'x' });
  await until(PATIENCE_MS, 'The wait', () => gate.numWaiting === 1);
  assert.is((await post('/execute', { job_id: 'a', prompt: 'x' })).status, 409);
  assert.is((await post('/cancel', { job_id: 'a' })).status, 202);
  const refused = (await (await waiting).json()) as { code: string; retriable: boolean };
  assert.equal([refused.code, refused.retriable], ['CANCELLED', false]);
  gate.open();
  const again = await readNativeAnswer(await post('/execute', { job_id: 'a', prompt: 'x' }));
  assert.equal([again.text, runner.requests.length], ['a', 1]);
});

test('a cancel reaches a job whose prompt is being encoded, although the encoder does not hear of it', async () => {
  let isEncoding = false;
  let goOn = (): void => {};
  const mayGoOn = new Promise<void>((resolve) => (goOn = resolve));
  const { tokenizer } = byteModel;
  const encodeTexts: Tokenizer['encodeTexts'] = async (texts, options) => {
    isEncoding = true;
    await mayGoOn;
    return tokenizer.encodeTexts(texts, options);
  };
  const { post, runner } = testApp({
    model: () => ({ ...byteModel, tokenizer: { ...tokenizer, encodeTexts } }),
  });
  const waiting = post('/execute', { job_id: 'a', prompt: 'x' });
  await until(PATIENCE_MS, 'The encoding', () => isEncoding);
  assert.is((await post('/cancel', { job_id: 'a' })).status, 202);
  goOn();
  const refused = (await (await waiting).json()) as { code: string };
  assert.equal([refused.code, runner.requests.length], ['CANCELLED', 0]);
});

test.run();
