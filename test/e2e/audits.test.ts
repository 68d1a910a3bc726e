/** Answers that the gateway's own process computes again on the CPU, of a CPU and of an emulated GPU, which then computes wrong. */
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { TINY_MODEL } from '../fixtures/default-model.ts';
import { emulatedRunners, mostLikelyIds, writeLlama } from '../fixtures/emulated-runners.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { patienceMs, temporaryDirectory } from '../fixtures/supervised.ts';
import { until } from '../fixtures/within.ts';

const test = gatewaySuite('audits');

/** The number of audits with this result. */
async function audits(gateway: Gateway, result: string): Promise<number> {
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  const sample = metrics
    .split('\n')
    .find((line) => line.startsWith(`runnel_audits_total{result="${result}"`));
  return Number(sample?.split(' ')[1] ?? 0);
}

async function untilAudited(gateway: Gateway, result: string, count: number): Promise<void> {
  const what = `${count} audits with the result ${result}`;
  await until(patienceMs, what, async () => (await audits(gateway, result)) >= count);
}

test('answers of several kinds at once are computed again by a runner of its own, and are equal', async () => {
  const gateway = await Gateway.start(TINY_MODEL, ['--audit-share', '1', '--served-model-name', 'tiny']);
  await gateway.ready();
  const sampled = { model: 'tiny', prompt: 'Once upon', temperature: 0.9, seed: 11 };
  const bodies = [
    { ...sampled, max_tokens: 20 },
    { ...sampled, max_tokens: 60, stop: ['e'], stream: true },
    { ...sampled, max_tokens: 30, repetition_penalty: 1.3, logit_bias: { 40: 5 }, logprobs: 2 },
    { ...sampled, max_tokens: 30, guided_regex: '[a-f]{3,9}' },
    { ...sampled, max_tokens: 9, min_tokens: 4, banned_token_ids: [40], n: 2 },
  ];
  await Promise.all(bodies.map(async (body) => (await gateway.post('/v1/completions', body)).text()));
  await untilAudited(gateway, 'equal', 6);
  for (const result of ['differs', 'unverifiable', 'skipped'])
    assert.is(await audits(gateway, result), 0, result);
  assert.is((await gateway.health()).runner.restarts, 0);
  assert.is((await gateway.stop()).code, 0, gateway.log);
});

test('what audits has a cache for one answer, also of a model that mixes windows, with any limit for what answers', async () => {
  const model = fileURLToPath(new URL('../golden/models/gemma3-q8_0.gguf', import.meta.url));
  for (const limit of ['--memory-bytes', '--kv-cache-bytes']) {
    const gateway = await Gateway.start(model, ['--audit-share', '1', limit, '50000000']);
    await gateway.ready();
    const body = { job_id: 'a', prompt_ids: [3, 4, 5], max_tokens: 20 };
    await (await gateway.post('/execute', body)).text();
    await untilAudited(gateway, 'equal', 1);
    assert.is((await gateway.stop()).code, 0, gateway.log);
  }
});

/** The launch after which results of the device are wrong: in the middle of the first answer. */
const MIDDLE = 300;

for (const [policy, serving] of [
  ['retire', 'cpu'],
  ['report', 'cuda'],
] as const) {
  test(`an answer of a device that computes wrong is found, with a report; policy ${policy}: the next is from ${serving}`, async () => {
    const directory = temporaryDirectory();
    const model = writeLlama(directory, 'a');
    const runners = emulatedRunners(directory);
    runners.spoilDevice(MIDDLE);
    const flags = ['--runner', runners.cpuRunner, '--cuda-runner', runners.cudaRunner, '--backend', 'auto'];
    const gateway = await Gateway.start(model, [...flags, '--audit-share', '1', '--audit-policy', policy]);
    await gateway.ready();
    const body = { prompt_ids: [4], max_tokens: 80, temperature: 0, token_ids: true };
    const answer = async (job_id: string) =>
      (await readNativeAnswer(await gateway.post('/execute', { ...body, job_id }))).ids;
    assert.not.equal(await answer('wrong'), mostLikelyIds(model, 4, 80));
    await untilAudited(gateway, 'differs', 1);
    const { backend } = await gateway
      .healthWhere(
        ({ runner, ...health }) =>
          runner.state === 'ready' &&
          (health as { backend?: { serving: string } }).backend?.serving === serving,
        `A runner of the kind ${serving}`,
      )
      .then((health) => health as unknown as { backend: { reason: string | null } });
    const { crashes } = (await (await fetch(`${gateway.url}/runner/crashes`)).json()) as {
      crashes: { reason: string; message: string }[];
    };
    const [report] = crashes;
    assert.is(report?.reason, 'audit', JSON.stringify(crashes));
    assert.match(report?.message ?? '', /An answer of 80 tokens .* differs from the token \d+ on/);
    if (serving === 'cpu') {
      assert.is(backend.reason, report?.message);
      assert.equal(await answer('right'), mostLikelyIds(model, 4, 80));
    } else assert.is((await gateway.health()).runner.restarts, 0);
    assert.is((await gateway.stop()).code, 0, gateway.log);
  });
}

test.run();
