/** The real gateway with real runners, with two models in memory for one and a half, and one that is broken on disk. */
import { readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as assert from 'uvu/assert';
import { CPU_RUNNER, FAULTY_RUNNER, TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until, within } from '../fixtures/within.ts';

/** A control token: it is in no text, and only one request here may draw it. */
const POISON_ID = 1;
/** For each of the models: 4 MiB of KV cache, 4 MiB for requests, and less than 3 MB besides. */
const CACHE_BYTES = 4 << 20;
const BUDGET_BYTES = 15_000_000;

const test = gatewaySuite('several models');
const folder = temporaryFolder();
const golden = (name: string): Buffer => readFileSync(join(dirname(TINY_MODEL), name));
const models = {
  a: folder.write('a.gguf', golden('tiny-llama-q8_0.gguf')),
  b: folder.write('b.gguf', golden('tiny-llama-f32.gguf')),
  broken: folder.write('broken.gguf', golden('tiny-llama-f32.gguf').subarray(0, 1000)),
};
/** The runner of model a dies when it meets the poison token. */
const runner = folder.write(
  'runner',
  `#!/bin/sh\ncase "$1 $*" in\n"serve "*a.gguf*) exec ${FAULTY_RUNNER} abort@token:${POISON_ID} "$@" ;;\nesac\nexec ${CPU_RUNNER} "$@"\n`,
  0o755,
);

interface ModelState {
  readonly name: string;
  readonly state: string;
  readonly reason: string | null;
  readonly pid: number | null;
  readonly restarts: number;
}

async function start(...args: string[]): Promise<Gateway> {
  const paths = Object.values(models).flatMap((path) => ['--model', path]);
  const more = ['--runner', runner, '--threads', '1', '--kv-cache-bytes', String(CACHE_BYTES)];
  const gateway = await Gateway.startOn(undefined, ['--port', '0', ...paths, ...more, ...args]);
  return gateway.ready();
}

async function stateOf(gateway: Gateway, name: string): Promise<ModelState> {
  const { models: all } = (await gateway.health()) as unknown as { models: ModelState[] };
  return all.find((model) => model.name === name) as ModelState;
}

function bodyOf(model: string, numTokens: number, more: object = {}): object {
  const banned = { [POISON_ID]: -100 };
  return {
    ...{ model, prompt: 'hello', max_tokens: numTokens, min_tokens: numTokens, seed: 7, logit_bias: banned },
    ...more,
  };
}

async function answer(gateway: Gateway, model: string, numTokens: number): Promise<string> {
  const response = await gateway.post('/v1/completions', bodyOf(model, numTokens));
  const text = await within(PATIENCE_MS, `The answer of ${model}`, response.text());
  assert.is(response.status, 200, text);
  return (JSON.parse(text) as { choices: { text: string }[] }).choices[0]?.text ?? '';
}

/** The text of a stream, which must be complete. */
async function streamed(response: Response): Promise<string> {
  assert.is(response.status, 200);
  const events = (await within(PATIENCE_MS, 'A stream', response.text())).split('\n\n');
  assert.ok(events.includes('data: [DONE]'), 'it has its end');
  return events
    .filter((event) => event.startsWith('data: {'))
    .map(
      (event) => JSON.parse(event.slice('data: '.length)) as { choices?: { text: string }[]; error?: object },
    )
    .map(({ choices, error }) => {
      assert.is(error, undefined);
      return choices?.[0]?.text ?? '';
    })
    .join('');
}

test('two models in a memory for one and a half: both answer, one leaves and comes back, no stream is cut', async () => {
  const alone = await start('--memory-budget-bytes', String(2 * BUDGET_BYTES));
  const expected = { a: await answer(alone, 'a', 200), b: await answer(alone, 'b', 200) };
  assert.not.equal(expected.a, expected.b);

  const gateway = await start('--memory-budget-bytes', String(BUDGET_BYTES));
  const listed = (await (await fetch(`${gateway.url}/v1/models`)).json()) as {
    data: { id: string; status: { state: string } }[];
  };
  assert.equal(
    listed.data.map(({ id, status }) => `${id} ${status.state}`),
    ['a loaded', 'b unloaded', 'broken unloaded'],
  );
  for (let round = 0; round < 3; round += 1) {
    const names = ['a', 'b', 'a', 'b'] as const;
    const streams = names.map(async (name) =>
      streamed(await gateway.post('/v1/completions', bodyOf(name, 200, { stream: true }))),
    );
    assert.equal(
      await Promise.all(streams),
      names.map((name) => expected[name]),
      `round ${round}`,
    );
  }
  await gateway.logged(/"model_unloaded"[^\n]*"reason":"memory"/);
  const unloaded = [...gateway.log.matchAll(/"model":"([^"]+)"[^\n]*"event":"model_unloaded"/g)];
  assert.ok(unloaded.some(([, path]) => path === models.a) && unloaded.some(([, path]) => path === models.b));
  const residents = [await stateOf(gateway, 'a'), await stateOf(gateway, 'b')];
  assert.ok(residents.filter(({ pid }) => pid !== null).length <= 1, 'two are never in memory at once');
});

test('a model broken on disk is refused with its reason, and others serve', async () => {
  const gateway = await start('--memory-budget-bytes', String(BUDGET_BYTES));
  const response = await gateway.post('/v1/completions', bodyOf('broken', 5));
  assert.is(response.status, 503);
  assert.match(await response.text(), 'broken.gguf');
  const { state, reason } = await stateOf(gateway, 'broken');
  assert.is(state, 'failed');
  assert.match(reason ?? '', 'broken.gguf');
  assert.ok((await stateOf(gateway, 'a')).pid !== null);
  await answer(gateway, 'a', 20);
  const absent = await gateway.post('/v1/completions', bodyOf('absent', 5));
  assert.is(absent.status, 404);
  assert.match(await absent.text(), 'not found; available: ');
});

test('SIGHUP adds new models of the folder, and removed ones finish their requests', async () => {
  const dir = temporaryFolder();
  const gone = dir.write('gone.gguf', golden('tiny-llama-q8_0.gguf'));
  const args = ['--models-dir', dir.path, '--runner', CPU_RUNNER, '--threads', '1'];
  const gateway = await Gateway.startOn(undefined, ['--port', '0', ...args]);
  await gateway.ready();
  const expected = await answer(gateway, 'gone', 400);
  const body = bodyOf('gone', 400, { stream: true });
  const open = [await gateway.post('/v1/completions', body), await gateway.post('/v1/completions', body)];

  dir.write('new.gguf', golden('tiny-llama-f32.gguf'));
  rmSync(gone);
  gateway.process.kill('SIGHUP');
  const listed = async (): Promise<string> => {
    const response = await fetch(`${gateway.url}/v1/models`);
    return ((await response.json()) as { data: { id: string }[] }).data.map(({ id }) => id).join(' ');
  };
  await until(PATIENCE_MS, 'The new list', async () => (await listed()) === 'new');
  assert.equal(await Promise.all(open.map(streamed)), [expected, expected]);
  assert.is((await gateway.post('/v1/completions', bodyOf('gone', 5))).status, 404);
  assert.ok((await answer(gateway, 'new', 20)).length > 0);
});

test('a request that kills the runner of one model leaves the streams of the other alone', async () => {
  const gateway = await start('--memory-budget-bytes', String(2 * BUDGET_BYTES));
  const expected = await answer(gateway, 'b', 400);
  const { pid } = await stateOf(gateway, 'b');
  const other = gateway.post('/v1/completions', bodyOf('b', 400, { stream: true })).then(streamed);
  const poison = await gateway.post('/v1/completions', {
    ...{ model: 'a', prompt: [20, POISON_ID, 21], max_tokens: 20, seed: 7 },
  });
  assert.is(poison.status, 500);
  assert.match(await poison.text(), 'runner_crashed');
  assert.is(await other, expected);
  await until(PATIENCE_MS, 'a again', async () => (await stateOf(gateway, 'a')).state === 'loaded');
  const [a, b] = [await stateOf(gateway, 'a'), await stateOf(gateway, 'b')];
  assert.ok(a.restarts >= 2);
  assert.equal([b.restarts, b.pid], [0, pid]);
  const { crashes } = (await (await fetch(`${gateway.url}/runner/crashes`)).json()) as {
    crashes: { model: string }[];
  };
  assert.ok(crashes.length >= 2 && crashes.every(({ model }) => model === 'a'));
  await answer(gateway, 'a', 20);
});

test.run();
