/** Bodies of a megabyte, and the streams of other clients while the bodies are read. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as elapsed } from 'node:timers/promises';
import * as assert from 'uvu/assert';
import { loadModel } from '../../../gateway/models/model-slot.ts';
import { shortTextChars } from '../../../gateway/tokenizer/tokenizer.ts';
import { oneModel, plainApp } from '../../fixtures/app.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { DEFAULT_MODEL } from '../../fixtures/default-model.ts';
import { listening } from '../../fixtures/listening.ts';
import { programFile } from '../../fixtures/programs.ts';
import { ScriptedRunner, scriptedInfo } from '../../fixtures/scripted-runner.ts';
import { turnsDuring } from '../../fixtures/turns.ts';
import { within } from '../../fixtures/within.ts';

const test = closingSuite('large bodies');
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
// In the second test each body counts as a whole megabyte.
const app = plainApp({ models: oneModel(() => model, runner), maxBodyBytesInFlight: 2 ** 30 });

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
  const { port } = await listening(app.fetch);
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
    model.tokenizer.close();
  }
});

test.run();
