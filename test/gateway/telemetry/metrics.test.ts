import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ObservedRunner } from '../../../gateway/runner/observed-runner.ts';
import { countersOf, schedulerCounters, statsOf } from '../../../gateway/runner/protocol/scheduler-stats.ts';
import { GenerationError } from '../../../gateway/runner/runner.ts';
import { Metrics } from '../../../gateway/telemetry/metrics.ts';
import { testApp } from '../../fixtures/app.ts';
import { batchesOf } from '../../fixtures/batches.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { callerNamed } from '../../fixtures/keys.ts';
import { readNativeAnswer } from '../../fixtures/native-stream.ts';
import { ScriptedRunner, scriptedInfo } from '../../fixtures/scripted-runner.ts';
import { collect, requestOf } from '../../fixtures/supervised.ts';

const test = suite('metrics');

interface Metered {
  readonly inner: ScriptedRunner;
  readonly runner: ObservedRunner;
  readonly metrics: Metrics;
  clockMs: number;
}

function metered(): Metered {
  const inner = new ScriptedRunner();
  const context = { clockMs: 0 } as Metered;
  const now = (): number => context.clockMs;
  const metrics = new Metrics(now);
  const ofModel = metrics.add('m', () => inner.status());
  return Object.assign(context, { inner, metrics, runner: new ObservedRunner(inner, [ofModel], now) });
}

/** Samples by name and labels, without the label of the model. Fails if a line is not in the text format. */
async function samplesOf(metrics: Metrics): Promise<Map<string, number>> {
  const samples = new Map<string, number>();
  for (const line of (await metrics.text()).trimEnd().split('\n')) {
    if (line === '' || /^# (HELP|TYPE) [a-z0-9_]+ .+$/.test(line)) continue;
    const [, name, value] = /^([a-z0-9_]+(?:\{[^}]*\})?) ([0-9.e+-]+|NaN|\+Inf)$/.exec(line) ?? [];
    if (name === undefined) throw new Error(`not a sample: ${line}`);
    samples.set(name.replace(/,?model="m"/, '').replace('{}', ''), Number(value));
  }
  return samples;
}

test('the metrics of the first specification are there under their names', async () => {
  const context = metered();
  context.clockMs = 2500;
  const samples = await samplesOf(context.metrics);
  assert.is(samples.get('worker_vram_bytes'), 0);
  assert.is(samples.get('worker_memory_bytes'), scriptedInfo.weightsBytes + scriptedInfo.kvCacheBytes);
  assert.is(samples.get('worker_tokens_generated_total'), 0);
  assert.is(samples.get('worker_uptime_seconds'), 2.5);
  assert.is(samples.get('worker_inference_duration_ms_count'), 0);
  context.inner.current = { ...context.inner.current, info: { ...scriptedInfo, kind: 'cuda' } };
  assert.is((await samplesOf(context.metrics)).get('worker_vram_bytes'), 1500);
});

test('requests are counted by how they ended', async () => {
  const { inner, runner, metrics } = metered();
  inner.script = [[1], [2, EOS_ID]];
  await collect(runner, requestOf([1, 2, 3], 10, { stopIds: [EOS_ID] }));
  await collect(runner, requestOf([1], 2));
  for await (const _ of batchesOf(runner, requestOf([1], 10))) break;
  inner.script = [new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: false })];
  await collect(runner, requestOf([1], 2)).catch(() => {});
  inner.refuse = new GenerationError('QUEUE_FULL', 'Full.', { retriable: true });
  assert.throws(() => batchesOf(runner, requestOf([1], 2)));
  inner.refuse = undefined;
  const leave = new AbortController();
  batchesOf(runner, requestOf([1], 2), leave.signal);
  leave.abort();
  batchesOf(runner, requestOf([1], 2), AbortSignal.abort());
  const samples = await samplesOf(metrics);
  assert.is(samples.get('worker_requests_total{outcome="cancelled"}'), 2, 'one had left before it came');
  for (const outcome of ['eos', 'max_tokens', 'stop_sequence', 'inference_failed', 'queue_full'])
    assert.is(samples.get(`worker_requests_total{outcome="${outcome}"}`), 1, outcome);
  assert.is(samples.get('runnel_prompt_tokens_total'), 8);
  assert.is(samples.get('worker_inference_duration_ms_count'), 6);
});

test('tokens are counted by caller, and only so many callers have samples of their own', async () => {
  const { inner, runner, metrics } = metered();
  inner.script = [[1, 2]];
  const ask = (name?: string) =>
    collect(runner, requestOf([1, 2, 3], 2, name === undefined ? {} : { caller: callerNamed(name) }));
  await ask('a');
  await ask('a');
  await ask();
  const of = async (what: string, caller: string) =>
    (await samplesOf(metrics)).get(`runnel_caller_${what}_tokens_total{caller="${caller}"}`);
  assert.equal([await of('prompt', 'a'), await of('generated', 'a'), await of('cached', 'a')], [6, 4, 0]);
  assert.equal([await of('prompt', 'anonymous'), await of('generated', 'anonymous')], [3, 2]);
  for (let i = 0; i < 300; i++) await ask(`caller-${i}`);
  const callers = [...(await samplesOf(metrics)).keys()].filter((name) => /^runnel_caller_prompt/.test(name));
  assert.is(callers.length, 257);
  assert.is(await of('prompt', 'other'), 3 * 46);
});

test('first token, tokens in between and the whole request are timed', async () => {
  const context = metered();
  const { inner, runner, metrics } = context;
  inner.script = [[1], [2, 3, 4]];
  context.clockMs = 1000;
  const batches = batchesOf(runner, { ...requestOf([1], 4), api: 'openai' });
  context.clockMs = 1030;
  for await (const { finish } of batches) if (finish === undefined) context.clockMs += 60;
  const samples = await samplesOf(metrics);
  const of = (name: string) => samples.get(`runnel_${name}{api="openai"}`);
  assert.is(of('time_to_first_token_seconds_count'), 1);
  assert.is(of('time_to_first_token_seconds_sum'), 0.03);
  assert.is(of('inter_token_latency_seconds_count'), 3);
  assert.ok(Math.abs((of('inter_token_latency_seconds_sum') ?? 0) - 0.06) < 1e-9);
  assert.is(of('e2e_request_latency_seconds_sum'), 0.09);
  assert.is(samples.get('worker_inference_duration_ms_sum'), 90);
  assert.is(samples.get('worker_tokens_generated_total'), 4);
});

test('counters outlive runners; state, restarts and blocks are the runner’s of now', async () => {
  const { inner, runner, metrics } = metered();
  inner.script = [[1]];
  await collect(runner, requestOf([1], 1));
  inner.current = { ...inner.current, state: 'recovering', restarts: 3, openRequests: 2, numFreeBlocks: 60 };
  const samples = await samplesOf(metrics);
  assert.is(samples.get('worker_tokens_generated_total'), 1);
  assert.is(samples.get('runnel_runner_restarts_total'), 3);
  assert.is(samples.get('runnel_runner_state{state="recovering"}'), 1);
  assert.is(samples.get('runnel_runner_state{state="ready"}'), 0);
  assert.is(samples.get('runnel_requests_open'), 2);
  assert.is(samples.get('runnel_kv_blocks'), 64);
  assert.is(samples.get('runnel_kv_blocks_free'), 60);
  assert.is((await samplesOf(metrics)).get('runnel_runner_restarts_total'), 3, 'asking counts nothing');
});

test('a request is timed by the clock of its runner, once', async () => {
  const { inner, runner, metrics } = metered();
  inner.script = [[1], [2, 3]];
  await collect(runner, requestOf([1, 2], 3));
  const samples = await samplesOf(metrics);
  const of = (name: string) =>
    ['count', 'sum'].map((what) => samples.get(`runnel_${name}_${what}{api="none"}`));
  assert.equal(of('request_queue_time_seconds'), [1, 0.001]);
  assert.equal(of('request_prefill_time_seconds'), [1, 0.002]);
  assert.equal(of('runner_time_to_first_token_seconds'), [1, 0.003]);
});

test('the scheduler is shown: counters over all runners, the rest of the one that serves', async () => {
  const { inner, metrics } = metered();
  const counters = countersOf((name) => schedulerCounters.indexOf(name) + 1);
  const gauges = { numWaiting: 21, numRunning: 22, numPaused: 23, numFreeBlocks: 24, numReusableBlocks: 25 };
  const stats = { ...countersOf(() => 0), ...gauges, memoryBytes: 26 };
  inner.current = { ...inner.current, counters, stats, openTokens: 27 };
  const samples = await samplesOf(metrics);
  const expected: Record<string, number> = {
    'sequences_total{outcome="finished"}': 1,
    'sequences_total{outcome="failed"}': 2,
    preemptions_total: 3,
    'steps_total{kind="prefill"}': 4,
    'steps_total{kind="decode"}': 5,
    'steps_total{kind="mixed"}': 6,
    'step_sequences_total{kind="prefill"}': 7,
    'step_sequences_total{kind="decode"}': 8,
    prefill_tokens_total: 9,
    prefix_cache_hit_tokens_total: 10,
    generated_tokens_total: 11,
    draft_tokens_total: 12,
    accepted_draft_tokens_total: 13,
    kv_blocks_adopted_total: 14,
    kv_blocks_dropped_total: 15,
    step_seconds_total: 16e-6,
    sequences_waiting: 21,
    sequences_running: 22,
    sequences_paused: 23,
    kv_blocks_reusable: 25,
    runner_memory_bytes: 26,
    prompt_tokens_open: 27,
  };
  for (const [name, value] of Object.entries(expected)) assert.is(samples.get(`runnel_${name}`), value, name);
  const again = await samplesOf(metrics);
  assert.is(again.get('runnel_preemptions_total'), 3, 'asking counts nothing');
});

test('reserved memory and memory in use are separate metrics', async () => {
  const { inner, metrics } = metered();
  const gauges = { numWaiting: 0, numRunning: 1, numPaused: 0, numFreeBlocks: 40, numReusableBlocks: 16 };
  const stats = { ...countersOf(() => 0), ...gauges, memoryBytes: 0 };
  const info = { ...scriptedInfo, kind: 'cuda', numBlocks: 64, weightsBytes: 1000, kvCacheBytes: 64 * 8 };
  inner.current = { ...inner.current, info, stats, numFreeBlocks: 40 };
  const expected: Record<string, number> = {
    worker_vram_bytes: 1512,
    worker_vram_used_bytes: 1000 + 24 * 8,
    worker_memory_bytes: 1512,
    worker_memory_used_bytes: 1000 + 24 * 8,
    runnel_weights_bytes: 1000,
    runnel_kv_cache_bytes: 512,
    runnel_kv_cache_used_bytes: 24 * 8,
    runnel_kv_cache_usage_ratio: 24 / 64,
    runnel_kv_cache_reusable_bytes: 16 * 8,
  };
  const samples = await samplesOf(metrics);
  for (const [name, value] of Object.entries(expected)) assert.is(samples.get(name), value, name);
  inner.current = { ...inner.current, state: 'recovering', numFreeBlocks: undefined, stats: undefined };
  const after = await samplesOf(metrics);
  for (const name of ['worker_vram_used_bytes', 'worker_memory_used_bytes', 'runnel_kv_cache_used_bytes'])
    assert.is(after.get(name), 0, name);
});

test('requests of which none can be begun are counted as refused, each', async () => {
  const { inner, runner, metrics } = metered();
  inner.refuse = new GenerationError('QUEUE_FULL', 'Full.', { retriable: true });
  assert.throws(() => runner.assertCapacity([requestOf([1], 2), requestOf([1], 2)]));
  assert.is((await samplesOf(metrics)).get('worker_requests_total{outcome="queue_full"}'), 2);
});

test('the pause of a stream that another runner goes on with is timed, and no other', async () => {
  const context = metered();
  const { runner, metrics } = context;
  const sink = { onTokens: () => {}, onError: () => {} };
  const admit = () => runner.generate(requestOf([1], 9, { api: 'native' }), sink);
  const observed = admit();
  observed.onTokens({ firstIndex: 0, tokenIds: [1] });
  context.clockMs += 50;
  observed.onTokens({ firstIndex: 1, tokenIds: [1] });
  context.clockMs += 750;
  observed.onTokens({ firstIndex: 2, tokenIds: [1, 2], isResumed: true });
  admit().onTokens({ firstIndex: 0, tokenIds: [1], isResumed: true });
  const samples = await samplesOf(metrics);
  assert.is(samples.get('runnel_resume_pause_seconds_count{api="native"}'), 1);
  assert.is(samples.get('runnel_resume_pause_seconds_sum{api="native"}'), 0.75);
});

test('requests of each API are timed by its name, and each answer is counted by route and status', async () => {
  const { inner, runner, metrics } = metered();
  const { get, post } = testApp({ runner, metrics });
  const messages = [{ role: 'user', content: 'a' }];
  const asked: Record<string, readonly [path: string, body: object]> = {
    native: ['/execute', { job_id: 'a', prompt: 'a' }],
    openai: ['/v1/completions', { model: 'bytes', prompt: 'a' }],
    anthropic: ['/v1/messages', { model: 'bytes', max_tokens: 3, messages }],
    ollama: ['/api/generate', { model: 'bytes', prompt: 'a' }],
  };
  for (const [path, body] of Object.values(asked)) {
    inner.script = [[65], [66], [EOS_ID]];
    await (await post(path, body)).text();
  }
  await post('/v1/completions', {});
  await get('/nowhere');
  const text = await (await get('/metrics')).text();
  const names = ['time_to_first_token', 'inter_token_latency', 'request_queue_time', 'e2e_request_latency'];
  for (const api of Object.keys(asked)) {
    for (const name of names)
      assert.match(text, new RegExp(`^runnel_${name}_seconds_count{api="${api}",model="m"} [12]$`, 'm'));
  }
  const counted = (route: string, status: number) =>
    text.includes(`runnel_http_requests_total{route="${route}",status="${status}"} 1\n`);
  for (const [path] of Object.values(asked)) assert.ok(counted(path, 200), path);
  assert.ok(counted('/v1/completions', 400));
  assert.ok(counted('none', 404));
});

/** The values of the label `model` in the samples of this metric; undefined: a sample has none. */
async function modelsIn(metrics: Metrics, metric: string): Promise<(string | undefined)[]> {
  const lines = (await metrics.text()).split('\n').filter((line) => line.startsWith(metric));
  return lines.map((line) => /model="([^"]*)"/.exec(line)?.[1]);
}

test('what belongs to a model has its name as a label, until the model is removed', async () => {
  const { inner, runner, metrics } = metered();
  metrics.add('other', () => inner.status());
  inner.script = [[1]];
  await collect(runner, requestOf([1], 1));
  metrics.answered('/execute', 200);
  for (const metric of ['runnel_requests_open', 'worker_tokens_generated_total', 'runnel_weights_bytes'])
    assert.equal(await modelsIn(metrics, metric), ['m', 'other'], metric);
  for (const metric of ['worker_uptime_seconds', 'runnel_http_requests_total', 'runnel_journal_jobs'])
    assert.equal(await modelsIn(metrics, metric), [undefined], metric);
  metrics.remove('m');
  assert.equal(await modelsIn(metrics, 'worker_tokens_generated_total'), ['other']);
  assert.not.match(await metrics.text(), 'model="m"');
});

test('the metrics of a model that replaces another begin anew under its own name', async () => {
  const { inner, runner, metrics } = metered();
  inner.script = [[1]];
  await collect(runner, requestOf([1], 1));
  metrics.replace('m', 'm');
  assert.match(await metrics.text(), 'worker_tokens_generated_total{model="m"} 1\n');
  metrics.replace('m', 'next');
  const text = await metrics.text();
  assert.match(text, 'worker_tokens_generated_total{model="next"} 0\n');
  assert.not.match(text, 'model="m"');
  assert.not.match(text, 'worker_requests_total{');
});

test('GET /metrics is Prometheus text, and holds no prompt', async () => {
  const { inner, runner, metrics } = metered();
  const { get, post } = testApp({ runner, metrics });
  inner.script = [[65], [EOS_ID]];
  await readNativeAnswer(await post('/execute', { job_id: 'canary-job', prompt: 'canary-prompt' }));
  const response = await get('/metrics');
  assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  const text = await response.text();
  assert.match(text, 'worker_requests_total{outcome="eos",model="m"} 1');
  assert.not.match(text, 'canary');
});

test('GET /metrics/load has the load, and nothing of callers', async () => {
  const { inner, runner, metrics } = metered();
  inner.current = {
    ...inner.current,
    numFreeBlocks: 16,
    stats: statsOf((name) => ({ numWaiting: 3, numRunning: 2 })[name as string] ?? 0),
  };
  const { get } = testApp({ runner, metrics });
  const response = await get('/metrics/load');
  assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  const lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  assert.equal(lines, [
    'runnel_sequences_waiting{model="m"} 3',
    'runnel_sequences_running{model="m"} 2',
    'runnel_kv_cache_usage_ratio{model="m"} 0.75',
    'runnel_kv_blocks{model="m"} 64',
    'runnel_kv_block_tokens{model="m"} 16',
  ]);
});

test.run();
