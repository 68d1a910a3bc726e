import { type MemoryInUse, memoryInUse, memoryOf } from '../models/model-registry.ts';
import type { SchedulerCounters, SchedulerStats } from '../runner/protocol/scheduler-stats.ts';
import type { RunnerState, RunnerStatus } from '../runner/runner.ts';
import { families, type Sample } from './metric-families.ts';

/** The metrics that show a model's status: what its runners report, and what the gateway knows of them. */

const STATES: readonly RunnerState[] = ['starting', 'ready', 'recovering', 'failed', 'stopping'];

/** A sample for each state that a runner can be in. */
const byState = (value: (status: RunnerStatus, state: RunnerState) => number) => (status: RunnerStatus) =>
  STATES.map((state) => ({ labels: { state }, value: value(status, state) }));

const inUse = (name: keyof MemoryInUse) => (status: RunnerStatus) => memoryInUse(status)[name];

const figure =
  (name: Exclude<keyof SchedulerStats, keyof SchedulerCounters>) =>
  ({ stats }: RunnerStatus) =>
    stats?.[name] ?? 0;

type Counter = keyof SchedulerCounters;

/** A counter of runners' schedulers, over all runners so far. */
const total = (name: Counter) => (status: RunnerStatus) => status.counters[name];

const totals = (label: string, names: Readonly<Record<string, Counter>>) => (status: RunnerStatus) =>
  Object.entries(names).map(
    ([value, name]): Sample => ({
      labels: { [label]: value },
      value: status.counters[name],
    }),
  );

function statesOf({ state, runners }: RunnerStatus): readonly RunnerState[] {
  return runners?.map((runner) => runner.state) ?? [state];
}

export const statusMetrics = [
  ...families<RunnerStatus>('gauge', {
    worker_vram_bytes: ['Device memory of weights and KV cache', ({ info }) => memoryOf(info).vram_bytes],
    worker_memory_bytes: [
      'Memory of weights and KV cache, on host or device',
      ({ info }) => memoryOf(info).memory_bytes,
    ],
    worker_vram_used_bytes: [
      'Device memory of weights and of the used part of the KV cache',
      inUse('vramBytes'),
    ],
    worker_memory_used_bytes: [
      'Memory of weights and of the used part of the KV cache, on host or device',
      inUse('memoryBytes'),
    ],
    runnel_weights_bytes: ['Memory of the weights', inUse('weightsBytes')],
    runnel_kv_cache_bytes: ['Memory set aside for the KV cache', ({ info }) => info?.kvCacheBytes ?? 0],
    runnel_kv_cache_used_bytes: ['Bytes of the KV cache that sequences use', inUse('cacheUsedBytes')],
    runnel_kv_cache_usage_ratio: [
      'Used share of the KV cache, from 0 to 1',
      (status) => {
        const cacheBytes = status.info?.kvCacheBytes ?? 0;
        return cacheBytes === 0 ? 0 : memoryInUse(status).cacheUsedBytes / cacheBytes;
      },
    ],
    runnel_kv_cache_reusable_bytes: [
      'Free bytes of the KV cache whose content can be reused',
      inUse('cacheReusableBytes'),
    ],
    runnel_requests_open: ['Requests generating or waiting', ({ openRequests }) => openRequests],
    runnel_prompt_tokens_open: ['Prompt tokens of open requests', ({ openTokens }) => openTokens],
    runnel_kv_blocks: ['Blocks in the KV cache', ({ info }) => info?.numBlocks ?? 0],
    runnel_kv_block_tokens: ['Tokens in a block of the KV cache', ({ info }) => info?.blockSize ?? 0],
    runnel_kv_blocks_free: ['Free blocks of the KV cache', ({ numFreeBlocks }) => numFreeBlocks ?? 0],
    runnel_backend_fallback: [
      '1 while the CPU computes because CUDA was requested but cannot be used',
      ({ backend }) => (backend?.isFallback ? 1 : 0),
    ],
  }),
  ...families<RunnerStatus>('counter', {
    runnel_runner_restarts_total: ['Runner processes started after the first', ({ restarts }) => restarts],
  }),
  ...families<RunnerStatus>('gauge', {
    runnel_runner_state: [
      '1 for the state the runner is in',
      byState((status, state) => (status.state === state ? 1 : 0)),
    ],
    runnel_runners: [
      'Runners of the model, by the state each is in',
      byState((status, state) => statesOf(status).filter((each) => each === state).length),
    ],
  }),
  ...families<RunnerStatus>('counter', {
    runnel_sequences_total: [
      'Sequences that ended, by outcome',
      totals('outcome', { finished: 'numFinished', failed: 'numFailed' }),
    ],
    runnel_preemptions_total: ['Preemptions: a sequence lost its blocks to others', total('numPreemptions')],
    runnel_steps_total: [
      'Steps, by what they computed: parts of prompts, next tokens, or both',
      totals('kind', { prefill: 'numPrefillSteps', decode: 'numDecodeSteps', mixed: 'numMixedSteps' }),
    ],
    runnel_step_sequences_total: [
      'Sequences in steps, by what was computed for them; each counts once a step',
      totals('kind', { prefill: 'numPrefillSequences', decode: 'numDecodeSequences' }),
    ],
    runnel_prefill_tokens_total: [
      'Prompt tokens that were computed, including tokens computed again after a preemption',
      total('numPrefillTokens'),
    ],
    runnel_prefix_cache_hit_tokens_total: [
      'Prompt tokens that were found in the KV cache',
      total('numCachedTokens'),
    ],
    runnel_generated_tokens_total: ['Tokens that runners drew', total('numGeneratedTokens')],
    runnel_draft_tokens_total: ['Guesses of next tokens that were computed', total('numDraftTokens')],
    runnel_accepted_draft_tokens_total: [
      'Guesses of next tokens that were then drawn',
      total('numAcceptedDraftTokens'),
    ],
    runnel_kv_blocks_adopted_total: [
      'Blocks of the KV cache that runners found where a dead runner had computed them',
      total('numAdoptedBlocks'),
    ],
    runnel_kv_blocks_dropped_total: ['Blocks found there that were damaged', total('numDroppedBlocks')],
    runnel_step_seconds_total: ['Seconds spent in steps', ({ counters }) => counters.busyUs * 1e-6],
  }),
  ...families<RunnerStatus>('gauge', {
    runnel_sequences_waiting: [
      'Sequences that wait for a step, in the gateway or in the runner',
      figure('numWaiting'),
    ],
    runnel_sequences_running: ['Sequences that steps compute for', figure('numRunning')],
    runnel_sequences_paused: [
      'Sequences that are paused because their client does not read',
      figure('numPaused'),
    ],
    runnel_kv_blocks_reusable: [
      'Free blocks of the KV cache whose content can be reused',
      figure('numReusableBlocks'),
    ],
    runnel_runner_memory_bytes: [
      'Memory of the runner without mapped files; 0: unknown',
      figure('memoryBytes'),
    ],
  }),
];

/** Of these, the ones by which balancers choose a server. */
export const LOAD_METRICS: readonly string[] = [
  'runnel_sequences_waiting',
  'runnel_sequences_running',
  'runnel_kv_cache_usage_ratio',
  'runnel_kv_blocks',
  'runnel_kv_block_tokens',
];
