import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ModelReader } from '../../../gateway/models/reader/model-reader.ts';
import { answerOf } from '../../fixtures/fake-tokens.ts';
import { type NativeAnswer, readNativeAnswer } from '../../fixtures/native-stream.ts';
import { type ServedModels, servedModels } from '../../fixtures/served-models.ts';
import { patienceMs } from '../../fixtures/supervised.ts';
import { tinyId } from '../../fixtures/tiny-vocabulary.ts';
import { until, within } from '../../fixtures/within.ts';

const test = suite('serving');

/** A model whose tokenizer has no merged tokens, so that the same text has other ids. */
const withoutMerges = { 'tokenizer.ggml.merges': { type: 'array', of: 'string', value: [] } } as const;
const BYTES_OF_HELLO = ['h', 'e', 'l', 'l', 'o'].map(tinyId);

async function execute(
  served: ServedModels,
  body: object,
  headers?: Record<string, string>,
): Promise<Response> {
  const job_id = `job ${Math.random()}`;
  return served.post('/execute', { job_id, seed: 42, token_ids: true, ...body }, headers);
}

async function answered(response: Promise<Response>): Promise<NativeAnswer> {
  const answer = await within(patienceMs, 'An answer', response.then(readNativeAnswer));
  assert.is(answer.last.event, 'end', JSON.stringify(answer.last));
  return answer;
}

/** Checks that an answer is complete and is that of an undisturbed runner for these ids. Returns which model gave it. */
async function exact(
  response: Promise<Response>,
  promptIds: readonly number[],
  numTokens: number,
): Promise<unknown> {
  const { ids, started } = await answered(response);
  assert.equal(ids, answerOf(promptIds, 42n, numTokens));
  return started.model;
}

async function phase(served: ServedModels, wanted: 'draining' | 'loading'): Promise<void> {
  await until(patienceMs, wanted, () => served.serving.status().modelChange?.phase === wanted);
}

test('open requests end with the old model, and new ones use the new', async () => {
  await servedModels({}, async (served) => {
    served.write('b', withoutMerges);
    const letGo = served.hold();
    const before = Array.from({ length: 6 }, (_, index) =>
      exact(execute(served, { prompt_ids: [index], max_tokens: 20 + 10 * index }), [index], 20 + 10 * index),
    );
    await until(patienceMs, 'All streams', () => served.serving.status().openRequests === 6);
    const changed = served.change('b', '--slow-load', '300');
    await phase(served, 'draining');
    const meanwhile = [1, 2, 3].map(() =>
      exact(execute(served, { prompt: 'hello', max_tokens: 20 }), BYTES_OF_HELLO, 20),
    );
    const oldName = served.post('/v1/completions', { model: 'a', prompt: 'hello' });
    await until(patienceMs, 'All who wait', () => served.gate.numWaiting === 4);
    const draining = await served.health();
    assert.equal(draining.model_change, { phase: 'draining', from: 'a', to: 'b' });
    assert.equal([draining.model, draining.status, draining.state], ['a', 'recovering', 'recovering']);
    assert.is((draining.runner as { open_requests: number }).open_requests, 10);
    const ready = await served.get('/ready');
    assert.is(ready.status, 503);
    assert.ok(Number(ready.headers.get('retry-after')) >= 1);
    assert.match(await ready.text(), 'of the model a are being finished before the model b takes over');
    letGo();
    assert.equal(
      await Promise.all(before),
      before.map(() => 'a'),
    );
    await phase(served, 'loading');
    assert.equal((await served.health()).model_change, { phase: 'loading', from: 'a', to: 'b' });
    assert.match(await (await served.get('/ready')).text(), 'b is being loaded');
    assert.is(await changed, undefined);
    assert.equal(await Promise.all(meanwhile), ['b', 'b', 'b']);
    const unknown = await oldName;
    assert.is(unknown.status, 404);
    assert.match(await unknown.text(), 'model_not_found');
    const after = await served.health();
    assert.equal([after.model, after.model_change, after.status], ['b', null, 'healthy']);
    const names = ['model_change_draining', 'model_change_loading', 'model_change_complete'] as const;
    assert.equal(
      names.map((name) => served.eventsOf(name).map(({ from, to }) => [from, to])),
      names.map(() => [['a', 'b']]),
    );
    assert.match(
      await (await served.get('/metrics')).text(),
      'worker_requests_total{outcome="max_tokens",model="a"} 9',
    );
  });
});

test('a file that cannot be a model is refused, and nobody notices', async () => {
  await servedModels({}, async (served) => {
    const { pid } = served.serving.status();
    const open = exact(execute(served, { prompt_ids: [3], max_tokens: 100 }), [3], 100);
    assert.match((await served.change('absent')) ?? '', 'does not exist');
    served.write('bad', { 'general.architecture': undefined });
    assert.match((await served.change('bad')) ?? '', 'general.architecture');
    assert.is(await open, 'a');
    assert.is(served.serving.status().pid, pid);
    assert.is(served.eventsOf('model_change_failed').length, 2);
  });
});

test('a model that no runner gets ready with: the one before is served again, also to those who waited', async () => {
  await servedModels({}, async (served) => {
    served.write('b');
    const letGo = served.hold();
    const open = exact(execute(served, { prompt_ids: [3], max_tokens: 20 }), [3], 20);
    await until(patienceMs, 'A stream', () => served.serving.status().openRequests === 1);
    const changed = served.change('b', '--crash-at', 'load', '--crash-after', '0');
    await phase(served, 'draining');
    const waiting = exact(execute(served, { prompt_ids: [4], max_tokens: 20 }), [4], 20);
    await until(patienceMs, 'A waiting one', () => served.gate.numWaiting === 1);
    letGo();
    assert.match((await changed) ?? '', 'SIGSEGV');
    assert.equal([await open, await waiting], ['a', 'a']);
    assert.is((await served.health()).model_change, null);
    assert.is(served.eventsOf('model_change_failed').length, 1);
  });
});

test('requests not finished in time end with an error that says so', async () => {
  await servedModels({ serving: { drainMs: 50 } }, async (served) => {
    served.write('b');
    let letGo = () => {};
    let text = '';
    const open = execute(served, { prompt_ids: [3], max_tokens: 2000 }).then((response) =>
      readNativeAnswer(response, (soFar) => {
        // It keeps a beginning.
        if (text === '') letGo = served.hold();
        text = soFar;
      }),
    );
    await until(patienceMs, 'A beginning', () => text !== '');
    const changed = served.change('b');
    await until(patienceMs, 'The end of it', () => served.serving.status().openRequests === 0);
    letGo();
    assert.is(await changed, undefined);
    const { last, ids } = await within(patienceMs, 'The end', open);
    assert.equal([last.event, last.data.code, last.data.retriable], ['error', 'INFERENCE_FAILED', true]);
    assert.match(String(last.data.message), 'not finished within 0.05 s, and the model b takes over from a');
    assert.equal(ids, answerOf([3], 42n, ids.length));
    assert.is(await exact(execute(served, { prompt_ids: [4], max_tokens: 20 }), [4], 20), 'b');
  });
});

test('waiting requests keep their deadlines, and their number is bounded', async () => {
  await servedModels({ maxWaiting: 1 }, async (served) => {
    served.write('b');
    const letGo = served.hold();
    const open = exact(execute(served, { prompt_ids: [3], max_tokens: 20 }), [3], 20);
    await until(patienceMs, 'A stream', () => served.serving.status().openRequests === 1);
    const changed = served.change('b');
    await phase(served, 'draining');
    const late = await execute(served, { prompt: 'hello' }, { 'x-deadline': String(Date.now() + 20) });
    assert.is(late.status, 504);
    assert.match(await late.text(), 'deadline');
    const waiting = exact(execute(served, { prompt_ids: [4], max_tokens: 20 }), [4], 20);
    await until(patienceMs, 'A waiting one', () => served.gate.numWaiting === 1);
    const full = await execute(served, { prompt: 'hello' });
    assert.is(full.status, 429);
    assert.ok(Number(full.headers.get('retry-after')) >= 1);
    const metrics = await (await served.get('/metrics')).text();
    for (const outcome of ['timeout', 'queue_full'])
      assert.match(metrics, `{outcome="${outcome}",model="a"} 1`);
    letGo();
    assert.is(await changed, undefined);
    assert.equal([await open, await waiting], ['a', 'b']);
  });
});

test('of several changes the last one counts, and all hear how it went', async () => {
  await servedModels({}, async (served) => {
    for (const name of ['b', 'c', 'd']) served.write(name);
    const letGo = served.hold();
    const open = exact(execute(served, { prompt_ids: [3], max_tokens: 20 }), [3], 20);
    await until(patienceMs, 'A stream', () => served.serving.status().openRequests === 1);
    const toB = served.change('b');
    await phase(served, 'draining');
    const toC = served.change('c', '--slow-load', '60000');
    const waiting = exact(execute(served, { prompt_ids: [4], max_tokens: 20 }), [4], 20);
    await until(patienceMs, 'The change to c', () => served.serving.status().modelChange?.to === 'c');
    letGo();
    await phase(served, 'loading');
    assert.is(served.serving.status().modelChange?.to, 'c');
    assert.match((await served.change('absent')) ?? '', 'does not exist', 'and this is none');
    const toD = served.change('d');
    assert.equal(await Promise.all([toB, toC, toD]), [undefined, undefined, undefined]);
    assert.equal([await open, await waiting], ['a', 'd']);
    assert.is((await served.health()).model, 'd');
    assert.is(served.eventsOf('model_change_complete').length, 1);
  });
});

test('a change that is taken back while streams are open costs none of them', async () => {
  await servedModels({ serving: { drainMs: 10 * patienceMs } }, async (served) => {
    served.write('b');
    const letGo = served.hold();
    const open = exact(execute(served, { prompt_ids: [3], max_tokens: 20 }), [3], 20);
    await until(patienceMs, 'A stream', () => served.serving.status().openRequests === 1);
    const toB = served.change('b');
    await phase(served, 'draining');
    const waiting = exact(execute(served, { prompt_ids: [4], max_tokens: 20 }), [4], 20);
    assert.is(await served.change('a', '--max-model-len', '3000'), undefined);
    assert.is(await toB, undefined);
    assert.is(served.serving.status().info?.maxModelLen, 3000);
    assert.is(served.serving.status().openRequests > 0, true, 'the stream is still open');
    letGo();
    assert.equal([await open, await waiting], ['a', 'a']);
  });
});

test('another model is a way out where there is none left for the one before', async () => {
  await servedModels({}, async (served) => {
    served.write('a', { 'general.architecture': undefined });
    process.kill(served.serving.status().pid as number, 'SIGKILL');
    await until(patienceMs, 'A failure', () => served.serving.status().state === 'failed');
    served.write('b');
    const changed = served.change('b', '--slow-load', '200');
    await phase(served, 'loading');
    assert.is((await execute(served, { prompt: 'hello' })).status, 503, 'nobody waits who did not before');
    assert.is(await changed, undefined);
    assert.is(await exact(execute(served, { prompt_ids: [4], max_tokens: 20 }), [4], 20), 'b');
  });
});

test('another file of the same name is another model', async () => {
  await servedModels({}, async (served) => {
    const open = exact(execute(served, { prompt: 'hello', max_tokens: 100 }), [tinyId('hello')], 100);
    await until(patienceMs, 'A stream', () => served.serving.status().openRequests === 1);
    served.write('a', withoutMerges);
    assert.is(await served.change('a'), undefined);
    assert.is(await open, 'a');
    await exact(execute(served, { prompt: 'hello', max_tokens: 20 }), BYTES_OF_HELLO, 20);
  });
});

test('a conversation that is being rendered is finished with the model it was rendered for', async () => {
  await servedModels({}, async (served) => {
    served.write('b');
    const body = { model: 'a', messages: [{ role: 'user', content: 'hello' }], max_tokens: 20 };
    // The template's process has not been started yet.
    const rendering = served.post('/v1/chat/completions', body);
    const changed = served.change('b');
    const response = await within(patienceMs, 'An answer', rendering);
    assert.is(response.status, 200);
    assert.is(((await response.json()) as { model: string }).model, 'a');
    assert.is(await changed, undefined);
  });
});

test('a rendering that outlasts the drain time gets a retriable error', async () => {
  const metadata = { 'tokenizer.chat_template': { type: 'string', value: 'hello' } } as const;
  for (const flags of [['--slow-load', '3000'], []]) {
    await servedModels({ serving: { drainMs: 0 }, metadata }, async (served) => {
      served.write('b');
      const reader = served.serving.model?.chatTemplate;
      if (!(reader instanceof ModelReader)) throw new Error('the model has no reader');
      // Once this is answered, the process runs.
      await reader.features();
      const pid = reader.pid as number;
      process.kill(pid, 'SIGSTOP');
      const body = { model: 'a', messages: [{ role: 'user', content: 'hello' }], max_tokens: 20 };
      const rendering = served.post('/v1/chat/completions', body);
      assert.is(await served.change('b', ...flags), undefined);
      process.kill(pid, 'SIGCONT');
      const response = await within(patienceMs, 'An answer', rendering);
      const told = await response.text();
      assert.is(response.status, 503, told);
      assert.match(told, 'send it again');
      assert.ok(Number(response.headers.get('retry-after')) >= 1);
    });
  }
});

test('the end of the server ends a change, while it drains and while it loads', async () => {
  for (const at of ['draining', 'loading'] as const) {
    await servedModels({}, async (served) => {
      served.write('b');
      const letGo = served.hold();
      const open = exact(execute(served, { prompt_ids: [3], max_tokens: 20 }), [3], 20);
      await until(patienceMs, 'A stream', () => served.serving.status().openRequests === 1);
      const changed = served.change('b', '--slow-load', '60000');
      await phase(served, 'draining');
      if (at === 'loading') letGo();
      await phase(served, at);
      const waiting = execute(served, { prompt: 'hello' });
      await until(patienceMs, 'A waiting one', () => served.gate.numWaiting === 1);
      const stopped = served.serving.stop(patienceMs);
      assert.is((await within(patienceMs, 'An answer', waiting)).status, 503);
      assert.is(served.serving.status().openRequests, at === 'draining' ? 1 : 0, 'who waits is told at once');
      assert.match((await changed) ?? '', 'stopping');
      if (at === 'draining') letGo();
      await within(patienceMs, 'The stop', stopped);
      assert.is(await open, 'a');
      assert.is(served.serving.status().pid, undefined);
      assert.match((await served.change('b')) ?? '', 'stopping');
    });
  }
});

test.run();
