import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { countersOf, schedulerCounters } from '../../../../gateway/runner/protocol/scheduler-stats.ts';
import type { RunnerState, RunnerStatus } from '../../../../gateway/runner/runner.ts';
import { testApp } from '../../../fixtures/app.ts';
import { scriptedInfo } from '../../../fixtures/scripted-runner.ts';

const test = suite('health, models and tokenize');

test('health is 200 whatever the runner does, and says what it does', async () => {
  const { runner, get } = testApp();
  const seen: Record<string, unknown> = {};
  for (const state of ['starting', 'ready', 'recovering', 'failed', 'stopping'] satisfies RunnerState[]) {
    runner.current = { ...runner.current, state };
    const response = await get('/health');
    assert.is(response.status, 200);
    const body = (await response.json()) as Record<string, unknown>;
    assert.is(body.model_loaded, state === 'ready');
    assert.is(body.vram_bytes, 0);
    assert.is(body.memory_type, 'cpu');
    seen[state] = body.status;
    assert.is((await get('/ready')).status, state === 'ready' ? 200 : 503, state);
  }
  assert.equal(seen, {
    starting: 'starting',
    ready: 'healthy',
    recovering: 'recovering',
    failed: 'unhealthy',
    stopping: 'degraded',
  });
});

test('the worker’s state shows ready, busy and draining apart', async () => {
  const { runner, get } = testApp();
  const stateOf = async (change: Partial<RunnerStatus>): Promise<unknown> => {
    runner.current = { ...runner.current, openRequests: 0, ...change };
    return ((await (await get('/health')).json()) as { state: unknown }).state;
  };
  assert.is(await stateOf({ state: 'starting' }), 'starting');
  assert.is(await stateOf({ state: 'ready' }), 'ready');
  assert.is(await stateOf({ state: 'ready', openRequests: 1 }), 'busy');
  assert.is(await stateOf({ state: 'recovering', openRequests: 1 }), 'recovering');
  assert.is(await stateOf({ state: 'stopping', openRequests: 1 }), 'draining');
  assert.is(await stateOf({ state: 'failed' }), 'failed');
});

test('memory is the device’s or the host’s, and its old key stays', async () => {
  const { runner, get } = testApp();
  const memory = async (kind: string): Promise<unknown> => {
    runner.current = { ...runner.current, info: { ...scriptedInfo, kind } };
    const { vram_bytes, memory_type, memory_bytes } = (await (await get('/health')).json()) as Record<
      string,
      unknown
    >;
    return { vram_bytes, memory_type, memory_bytes };
  };
  assert.equal(await memory('cpu'), { vram_bytes: 0, memory_type: 'cpu', memory_bytes: 1500 });
  assert.equal(await memory('cuda'), { vram_bytes: 1500, memory_type: 'vram-only', memory_bytes: 1500 });
});

test('memory is reported as weights, blocks in use and blocks kept for reuse', async () => {
  const { runner, get } = testApp();
  const gauges = { numWaiting: 0, numRunning: 1, numPaused: 0, numFreeBlocks: 40, numReusableBlocks: 16 };
  const stats = { ...countersOf(() => 0), ...gauges, memoryBytes: 0 };
  const shown = async (change: Partial<RunnerStatus>): Promise<unknown> => {
    runner.current = { ...runner.current, ...change };
    const body = (await (await get('/health')).json()) as Record<string, Record<string, unknown>>;
    const { weights_bytes, kv_cache_bytes, kv_cache_bytes_used, kv_cache_bytes_reusable } = body.runner ?? {};
    return {
      ...{ resident: body.resident, architecture: body.memory_architecture },
      ...{ vram: body.vram_bytes_used, memory: body.memory_bytes_used },
      cache: [weights_bytes, kv_cache_bytes, kv_cache_bytes_used, kv_cache_bytes_reusable],
    };
  };
  const info = { ...scriptedInfo, numBlocks: 64, weightsBytes: 1000, kvCacheBytes: 64 * 8 };
  const used = (64 - 40) * 8;
  const cache = [1000, 512, used, 16 * 8];
  assert.equal(await shown({ info, stats, numFreeBlocks: 40 }), {
    ...{ resident: true, architecture: 'cpu', vram: 0, memory: 1000 + used, cache },
  });
  assert.equal(await shown({ info: { ...info, kind: 'cuda' } }), {
    ...{ resident: true, architecture: 'vram-only', vram: 1000 + used, memory: 1000 + used, cache },
  });
  assert.equal(await shown({ state: 'recovering', numFreeBlocks: undefined, stats: undefined }), {
    ...{ resident: false, architecture: 'vram-only', vram: 0, memory: 0, cache: [1000, 512, 0, 0] },
  });
});

test('each of several runners is listed, from place 0 on', async () => {
  const { runner, get } = testApp();
  const shown = async () => ((await (await get('/health')).json()) as { runners?: unknown }).runners;
  assert.is(await shown(), undefined, 'a single runner has no list');
  const serving = {
    ...({ state: 'ready', reason: undefined, pid: 11, restarts: 0, openRequests: 3 } as const),
    ...{ loadProgress: undefined, numFreeBlocks: 40, info: scriptedInfo },
  };
  const loading = {
    ...({ state: 'recovering', reason: 'Loading.', pid: undefined, restarts: 2, openRequests: 0 } as const),
    ...{ loadProgress: 0.5, numFreeBlocks: undefined, info: undefined },
  };
  runner.current = { ...runner.current, runners: [serving, loading] };
  const { numBlocks, weightsBytes, kvCacheBytes } = scriptedInfo;
  assert.equal(await shown(), [
    {
      ...{ runner: 0, state: 'ready', reason: null, pid: 11, restarts: 0, open_requests: 3 },
      ...{ load_progress: null, kv_blocks: numBlocks, kv_blocks_free: 40 },
      ...{ weights_bytes: weightsBytes, kv_cache_bytes: kvCacheBytes },
    },
    {
      ...{ runner: 1, state: 'recovering', reason: 'Loading.', pid: null, restarts: 2, open_requests: 0 },
      ...{ load_progress: 0.5, kv_blocks: null, kv_blocks_free: null },
      ...{ weights_bytes: null, kv_cache_bytes: null },
    },
  ]);
});

test('which backend serves, whether it is a fallback and why, are in /health, and a fallback in /ready', async () => {
  const { runner, get } = testApp();
  const shown = async (path: string) => (await (await get(path)).json()) as Record<string, unknown>;
  assert.is((await shown('/health')).backend, null);
  const absent = { requested: 'auto', isFallback: true, reason: 'There is no device.' } as const;
  runner.current = { ...runner.current, backend: { ...absent, looksAgainInMs: 1500 } };
  assert.equal((await shown('/health')).backend, {
    requested: 'auto',
    serving: 'cpu',
    is_fallback: true,
    reason: 'There is no device.',
    looks_again_in_seconds: 2,
  });
  assert.is((await shown('/health')).status, 'healthy');
  assert.equal(await shown('/ready'), { status: 'ready', fallback: 'There is no device.' });
  runner.current = { ...runner.current, backend: { ...absent, isFallback: false } };
  assert.equal(await shown('/ready'), { status: 'ready' });
});

test('scheduler statistics appear once the runner reports them, with mean batches', async () => {
  const { runner, get } = testApp();
  const scheduler = async () => ((await (await get('/health')).json()) as { scheduler: unknown }).scheduler;
  assert.is(await scheduler(), null);
  const counters = countersOf((name) => schedulerCounters.indexOf(name) + 10);
  const gauges = { numWaiting: 1, numRunning: 2, numPaused: 3, numFreeBlocks: 4, numReusableBlocks: 5 };
  runner.current = { ...runner.current, stats: { ...counters, ...gauges, memoryBytes: 6 } };
  assert.equal(await scheduler(), {
    total: 1 + 2 + 3 + 10 + 11,
    waiting: 1,
    running: 2,
    paused: 3,
    finished: 10,
    failed: 11,
    preemptions: 12,
    prefill_batches: 13,
    decode_batches: 14,
    mixed_batches: 15,
    mean_prefill_batch_size: 16 / (13 + 15),
    mean_decode_batch_size: 17 / (14 + 15),
    prefill_tokens: 18,
    cached_tokens: 19,
    generated_tokens: 20,
    draft_tokens: 21,
    accepted_draft_tokens: 22,
    blocks_total: 64,
    blocks_free: 4,
    blocks_reusable: 5,
    busy_seconds: 23e-6,
    memory_bytes: 6,
  });
  const idle = { ...countersOf(() => 0), ...gauges, memoryBytes: 0 };
  runner.current = { ...runner.current, stats: idle };
  const { mean_prefill_batch_size, memory_bytes } = (await scheduler()) as Record<string, unknown>;
  assert.equal([mean_prefill_batch_size, memory_bytes], [0, null]);
});

test('/ready says why not, and when to ask again', async () => {
  const { runner, get } = testApp();
  runner.current = {
    ...runner.current,
    state: 'starting',
    info: undefined,
    reason: 'Loading.',
    retryAfterSec: 1,
  };
  const response = await get('/ready');
  assert.is(response.status, 503);
  assert.ok(Number(response.headers.get('retry-after')) >= 1);
  const body = (await response.json()) as { message: string };
  assert.is(body.message, 'Loading.');
});

test('the model is listed, found by id, and another one is not found', async () => {
  const { get } = testApp();
  const lengths = { max_model_len: 512, context_length: 512 };
  const model = { id: 'bytes', object: 'model', created: 1_700_000_000, owned_by: 'runnel', ...lengths };
  assert.equal(await (await get('/v1/models')).json(), { object: 'list', data: [model] });
  assert.equal(await (await get('/v1/models/bytes')).json(), model);
  const missing = await get('/v1/models/other');
  assert.is(missing.status, 404);
  assert.equal(await missing.json(), {
    error: {
      message: 'Model "other" not found; available: "bytes".',
      type: 'not_found_error',
      param: 'model',
      code: 'model_not_found',
    },
  });
});

test('tokenize and detokenize are each other’s inverse; pieces that are no text are bytes', async () => {
  const { post } = testApp();
  assert.equal(await (await post('/tokenize', { content: 'aé' })).json(), { tokens: [97, 195, 169] });
  assert.equal(await (await post('/tokenize', { content: 'aé', with_pieces: true })).json(), {
    tokens: [
      { id: 97, piece: 'a' },
      { id: 195, piece: [195] },
      { id: 169, piece: [169] },
    ],
  });
  assert.equal(await (await post('/detokenize', { tokens: [97, 195, 169] })).json(), { content: 'aé' });
  assert.is((await post('/detokenize', { tokens: [258] })).status, 400);
  assert.is((await post('/tokenize', {})).status, 400);
});

test.run();
