/**
 * Many clients at once, over sockets and a runner in a process of its own. The pace and the failure of one do not
 * affect the others.
 */
import * as assert from 'uvu/assert';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { openCrowd } from '../../fixtures/crowd.ts';
import { answerOf } from '../../fixtures/fake-tokens.ts';
import { readNativeAnswer } from '../../fixtures/native-stream.ts';
import { RawClient } from '../../fixtures/raw-client.ts';
import { patienceMs } from '../../fixtures/supervised.ts';
import { until, within } from '../../fixtures/within.ts';

const test = closingSuite('crowd');

test('a client that does not read holds its own answer up and no other', async () => {
  const { execute, supervisor, directory, port } = await openCrowd({ flags: ['--delay-ms', '1'] });
  const slow = await RawClient.connect(port);
  slow.socket.pause();
  slow.post('/execute', { job_id: 'slow', prompt_ids: [1], max_tokens: 2048 });
  await until(patienceMs, 'The slow job', () => supervisor.status().openRequests === 1);
  // Each step makes a token for each request. Once this one has all of its tokens, only a pause can have kept the
  // first from ending.
  const quick = await execute('quick', { prompt_ids: [2], max_tokens: 2048 });
  const { ids } = await within(patienceMs, 'The other', readNativeAnswer(quick));
  assert.equal(ids, answerOf([2], 42n, 2048));
  assert.is(supervisor.status().openRequests, 1, 'the slow job is still there');
  assert.ok(directory.jsonLines('echo').some(({ pause }) => pause?.requestId === 1));
  slow.socket.resume();
  await until(patienceMs, 'The end of the slow one', () => slow.received.slice(-1000).includes('event: end'));
});

test('a request beyond the limit is refused with Retry-After and reaches no runner', async () => {
  const bounds = { maxOpenRequests: 4, maxQueuedTokens: 20 };
  const { execute, complete, supervisor, directory } = await openCrowd({
    flags: ['--delay-ms', '20'],
    supervisor: bounds,
  });
  const open = await execute('open', { prompt_ids: [1, 2], max_tokens: 2000 });
  const refused: [object, number, string, string | null][] = [
    [{ prompt: [1], n: 4 }, 429, 'queue_full', 'true'],
    [{ prompt: new Array(19).fill(1) }, 429, 'queue_full', 'true'],
    [{ prompt: [1], n: 5 }, 400, 'invalid_request', 'false'],
    [{ prompt: [[1], [2], [3], [4], [5]] }, 400, 'invalid_request', 'false'],
    [{ prompt: new Array(11).fill(1), n: 2 }, 400, 'invalid_request', 'false'],
  ];
  for (const [body, status, code, shouldRetry] of refused) {
    const response = await complete(body);
    const said = JSON.stringify(body);
    assert.is(response.status, status, said);
    assert.is(((await response.json()) as { error: { code: string } }).error.code, code, said);
    assert.is(response.headers.get('x-should-retry'), shouldRetry);
    assert.is(response.headers.get('retry-after'), status === 429 ? '1' : null);
    assert.is(response.headers.get('retry-after-ms'), status === 429 ? '1000' : null);
  }
  const native = await execute('too much', { prompt_ids: new Array(19).fill(1) });
  assert.equal([native.status, native.headers.get('retry-after')], [429, '1']);
  assert.is(supervisor.status().openRequests, 1);
  assert.is((await complete({ prompt: [1], n: 3 })).status, 200, 'three choices fit beside the one');
  const generates = directory.jsonLines('echo').filter(({ generate }) => generate !== undefined);
  assert.is(generates.length, 4, 'the refused ones never reached the runner');
  await open.body?.cancel();
});

test.run();
