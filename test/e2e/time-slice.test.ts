/** The real gateway with real runners: two models that do not fit into memory together take turns by `--time-slice`. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as assert from 'uvu/assert';
import { pacedRunner, TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { within } from '../fixtures/within.ts';

const PATIENCE_MS = 240_000;
/** For each of the models: 4 MiB of KV cache, 4 MiB for requests, and less than 3 MB besides. */
const CACHE_BYTES = 4 << 20;
const BUDGET_BYTES = 15_000_000;
/** Of each step: an answer takes several time slices. */
const STEP_MS = 20;
const NUM_TOKENS = 150;

const test = gatewaySuite('time slices');
const folder = temporaryFolder();
const golden = (name: string): Buffer => readFileSync(join(dirname(TINY_MODEL), name));
const models = {
  a: folder.write('a.gguf', golden('tiny-llama-q8_0.gguf')),
  b: folder.write('b.gguf', golden('tiny-llama-f32.gguf')),
};
const NAMES = ['a', 'b', 'a', 'b', 'b', 'a'] as const;

async function start(numModels: number, ...flags: string[]): Promise<Gateway> {
  const paths = Object.values(models).flatMap((path) => ['--model', path]);
  const gateway = await Gateway.startOn(undefined, [
    ...['--port', '0', ...paths, '--runner', pacedRunner(STEP_MS), '--threads', '1'],
    ...['--kv-cache-bytes', String(CACHE_BYTES), '--memory-budget-bytes', String(numModels * BUDGET_BYTES)],
    ...['--journal-dir', join(temporaryFolder().path, 'journal'), ...flags],
  ]);
  return gateway.ready();
}

/** The text of a durable stream of each of NAMES, all at once. */
function textsOf(gateway: Gateway): Promise<string[]> {
  return Promise.all(
    NAMES.map(async (model, seed) => {
      const length = { max_tokens: NUM_TOKENS, min_tokens: NUM_TOKENS };
      const body = { model, prompt: 'hello', seed, ...length, stream: true, durable: true };
      const response = await gateway.post('/v1/completions', body);
      const text = await within(PATIENCE_MS, `The answer of ${model}`, response.text());
      assert.is(response.status, 200, text);
      assert.match(text, 'data: [DONE]');
      const chunks = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json = '']) => JSON.parse(json));
      return chunks.map(({ choices: [choice] }) => choice?.text ?? '').join('');
    }),
  );
}

test('durable streams of two models that do not fit together take turns, on streams that stay open, and have the same texts', async () => {
  const expected = await textsOf(await start(2));
  const gateway = await start(1, '--time-slice', '1');
  assert.equal(await textsOf(gateway), expected);
  const turns = [
    ...gateway.log.matchAll(/"model":"([^"]+)"[^\n]*"event":"model_unloaded"[^\n]*"reason":"turn"/g),
  ];
  for (const path of Object.values(models))
    assert.ok(turns.filter(([, model]) => model === path).length >= 2, `${turns.length} turns`);
  assert.match(gateway.log, /"event":"durable_parked"/);
});

test.run();
