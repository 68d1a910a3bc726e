/** Bodies of a megabyte, and the streams of other clients while the bodies are read. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as elapsed } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { createApp } from '../../../gateway/app.ts';
import { loadModel } from '../../../gateway/models/model-slot.ts';
import { close, createHttpServer, listen } from '../../../gateway/server/http-server.ts';
import { randomIds } from '../../../gateway/system/ids.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { Metrics } from '../../../gateway/telemetry/metrics.ts';
import { shortTextChars } from '../../../gateway/tokenizer/tokenizer.ts';
import { oneModel } from '../../fixtures/app.ts';
import { DEFAULT_MODEL } from '../../fixtures/default-model.ts';
import { httpLimits } from '../../fixtures/http-limits.ts';
import { programFile } from '../../fixtures/programs.ts';
import { ScriptedRunner, scriptedInfo } from '../../fixtures/scripted-runner.ts';
import { turnsDuring } from '../../fixtures/turns.ts';
import { within } from '../../fixtures/within.ts';

const test = suite('large bodies');
const PATIENCE_MS = 120_000;
const NUM_REQUESTS = 18;
const WIDTH = 4;
/** The most that one turn may take of the work that a megabyte makes: five times what it takes. */
const MAX_SHARE = 1 / 5;
/** The same of all requests. */
const MAX_SHARE_OF_ALL = 1 / 50;

/** Fewer jobs may wait than by default, so that fewer requests show what happens then. */
const WAITING_JOBS = 64;
const model = { ...(await loadModel(DEFAULT_MODEL, { waitingJobs: WAITING_JOBS })), id: 'large' };
const runner = new ScriptedRunner();
// So large a context that no prompt is refused before it is tokenized.
runner.current = {
  ...runner.current,
  info: { ...scriptedInfo, vocabSize: model.tokenizer.vocabSize, maxModelLen: 2 ** 24 },
};
runner.script = [[100], ...new Array<number[]>(20).fill([101])];
const app = createApp({
  models: oneModel(() => model, runner),
  log: createLog('silent'),
  metrics: new Metrics(Date.now),
  now: Date.now,
  monotonicNow: () => performance.now(),
  ids: randomIds,
  crashes: () => [],
  restartRunner: async () => undefined,
  maxBodyBytes: 2 ** 20,
  // In the second test each body counts as a whole megabyte.
  maxBodyBytesInFlight: 2 ** 30,
  maxAnswerBytesInFlight: 2 ** 26,
});

test('everything else has its turn while a megabyte without a space is tokenized', async () => {
  const headers = { 'content-type': 'application/json' };
  const bodies: readonly (readonly [path: string, body: object])[] = [
    ['/tokenize', { content: 'a'.repeat(1_000_000) }],
    ['/v1/completions', { model: 'large', prompt: 'ab'.repeat(500_000) }],
    [
      '/v1/chat/completions',
      { model: 'large', max_tokens: 4, messages: [{ role: 'user', content: 'abc'.repeat(333_000) }] },
    ],
  ];
  for (const [path, body] of bodies) {
    const init = { method: 'POST', headers, body: JSON.stringify(body) };
    const ask = async (): Promise<Response> => app.request(path, init);
    const { result, numTurns, longestMs, longestShare } = await turnsDuring(() =>
      within(PATIENCE_MS, 'An answer', ask()),
    );
    assert.is(result.status, 200, path);
    await result.text();
    const longest = `the longest ${longestMs.toFixed(0)} ms, ${(100 * longestShare).toFixed(0)} % of the work`;
    console.log(`${path}: ${numTurns} turns, ${longest}`);
    assert.ok(numTurns >= 10, `${numTurns} turns for ${path}`);
    assert.ok(longestShare <= MAX_SHARE, `${path}: ${longest}`);
  }
});

test('large bodies beyond the limit are refused with Retry-After', async () => {
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ content: 'x '.repeat(shortTextChars) });
  const ask = async (): Promise<Response> => app.request('/tokenize', { method: 'POST', headers, body });
  const responses = await within(
    PATIENCE_MS,
    'All answers',
    Promise.all(Array.from({ length: 2 * WAITING_JOBS + 10 }, ask)),
  );
  const refused = responses.filter(({ status }) => status === 503);
  assert.ok(refused.length > 0 && refused.length < responses.length, `${refused.length} are refused`);
  for (const response of refused) {
    assert.ok(Number(response.headers.get('retry-after')) >= 1);
    assert.match(await response.text(), 'already wait to be encoded');
  }
});

test(`${NUM_REQUESTS} bodies of a megabyte hold up nobody`, async () => {
  const server = createHttpServer(app.fetch, httpLimits);
  const address = await listen(server, { host: '127.0.0.1', port: 0 });
  const port = 'port' in address ? address.port : 0;
  const args = [programFile('large-bodies-attack'), String(port), String(NUM_REQUESTS), String(WIDTH)];
  const client = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(client, 'close');
  const delay = monitorEventLoopDelay({ resolution: 5 });
  try {
    let output = '';
    client.stdout.on('data', (text) => (output += text));
    await elapsed(0);
    delay.enable();
    const { result, longestMs, longestShare } = await turnsDuring(() =>
      within(PATIENCE_MS, 'The end of the attack', ended),
    );
    const [code] = result;
    delay.disable();
    assert.is(code, 0);
    const statuses = JSON.parse(output) as number[];
    assert.is(statuses.length, NUM_REQUESTS);
    assert.ok(
      statuses.every((status) => [200, 400].includes(status)),
      output,
    );
    const [p50Ms, p99Ms] = [50, 99].map((percent) => delay.percentile(percent) / 1e6) as [number, number];
    const maxMs = delay.max / 1e6;
    const rounded = [p50Ms, p99Ms, maxMs].map((ms) => ms.toFixed(0));
    const longest = `the longest turn ${longestMs.toFixed(0)} ms, ${(100 * longestShare).toFixed(1)} % of the work`;
    console.log(
      `${NUM_REQUESTS} bodies: delay of the loop in ms p50 ${rounded[0]}, p99 ${rounded[1]}, max ${rounded[2]}; ${longest}`,
    );
    assert.ok(longestShare <= MAX_SHARE_OF_ALL, longest);
  } finally {
    client.kill('SIGKILL');
    server.closeAllConnections();
    await close(server);
    model.tokenizer.close();
  }
});

test.run();
