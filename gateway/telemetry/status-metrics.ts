import { type MemoryInUse, memoryInUse, memoryOf } from '../models/model-registry.ts';
import type { SchedulerCounters, SchedulerStats } from '../runner/protocol/scheduler-stats.ts';
import type { RunnerState, RunnerStatus } from '../runner/runner.ts';
import type { Sample } from './metric-families.ts';

/** The metrics that show a model's status: what its runners report, and what the gateway knows of them. */

const STATES: readonly RunnerState[] = ['starting', 'ready', 'recovering', 'failed', 'stopping'];

export interface StatusMetric {
  readonly name: string;
  readonly help: string;
  readonly type: 'gauge' | 'counter';
  /** The samples of one model. */
  readonly samples: (status: RunnerStatus) => readonly Sample[];
}

function gauge(name: string, help: string, value: (status: RunnerStatus) => number): StatusMetric {
  return { name, help, type: 'gauge', samples: (status) => [{ labels: {}, value: value(status) }] };
}

/** A gauge with a sample for each state a runner can be in. */
function byState(
  name: string,
  help: string,
  value: (status: RunnerStatus, state: RunnerState) => number,
): StatusMetric {
  const samples = (status: RunnerStatus): Sample[] =>
    STATES.map((state) => ({ labels: { state }, value: value(status, state) }));
  return { name, help, type: 'gauge', samples };
}

function inUse(name: keyof MemoryInUse): (status: RunnerStatus) => number {
  return (status) => memoryInUse(status)[name];
}

type StatsGauge = Exclude<keyof SchedulerStats, keyof SchedulerCounters>;

/** A figure of the current runner's scheduler. */
function stats(name: string, help: string, figure: StatsGauge): StatusMetric {
  return gauge(name, help, (status) => status.stats?.[figure] ?? 0);
}

/** A counter of runners' schedulers, over all runners so far. scale: one unit of the counter in units of the metric. */
function counter(
  name: string,
  help: string,
  shown: readonly (readonly [labels: Sample['labels'], counter: keyof SchedulerCounters])[],
  scale = 1,
): StatusMetric {
  const samples = ({ counters }: RunnerStatus): Sample[] =>
    shown.map(([labels, of]) => ({ labels, value: counters[of] * scale }));
  return { name, help, type: 'counter', samples };
}

/** The state of each runner of the model. */
function statesOf({ state, runners }: RunnerStatus): readonly RunnerState[] {
  return runners?.map((runner) => runner.state) ?? [state];
}

export const statusMetrics: readonly StatusMetric[] = [
  gauge(
    'worker_vram_bytes',
    'Device memory of weights and KV cache',
    ({ info }) => memoryOf(info).vram_bytes,
  ),
  gauge(
    'worker_memory_bytes',
    'Memory of weights and KV cache, on host or device',
    ({ info }) => memoryOf(info).memory_bytes,
  ),
  gauge(
    'worker_vram_used_bytes',
    'Device memory of weights and of the used part of the KV cache',
    inUse('vramBytes'),
  ),
  gauge(
    'worker_memory_used_bytes',
    'Memory of weights and of the used part of the KV cache, on host or device',
    inUse('memoryBytes'),
  ),
  gauge('runnel_weights_bytes', 'Memory of the weights', inUse('weightsBytes')),
  gauge('runnel_kv_cache_bytes', 'Memory set aside for the KV cache', ({ info }) => info?.kvCacheBytes ?? 0),
  gauge('runnel_kv_cache_used_bytes', 'Bytes of the KV cache that sequences use', inUse('cacheUsedBytes')),
  gauge('runnel_kv_cache_usage_ratio', 'Used share of the KV cache, from 0 to 1', (status) => {
    const cacheBytes = status.info?.kvCacheBytes ?? 0;
    return cacheBytes === 0 ? 0 : memoryInUse(status).cacheUsedBytes / cacheBytes;
  }),
  gauge(
    'runnel_kv_cache_reusable_bytes',
    'Free bytes of the KV cache whose content can be reused',
    inUse('cacheReusableBytes'),
  ),
  gauge('runnel_requests_open', 'Requests generating or waiting', ({ openRequests }) => openRequests),
  gauge('runnel_prompt_tokens_open', 'Prompt tokens of open requests', ({ openTokens }) => openTokens),
  gauge('runnel_kv_blocks', 'Blocks in the KV cache', ({ info }) => info?.numBlocks ?? 0),
  gauge('runnel_kv_blocks_free', 'Free blocks of the KV cache', ({ numFreeBlocks }) => numFreeBlocks ?? 0),
  gauge(
    'runnel_backend_fallback',
    '1 while the CPU computes because CUDA was requested but cannot be used',
    ({ backend }) => (backend?.isFallback ? 1 : 0),
  ),
  {
    name: 'runnel_runner_restarts_total',
    help: 'Runner processes started after the first',
    type: 'counter',
    samples: ({ restarts }) => [{ labels: {}, value: restarts }],
  },
  byState('runnel_runner_state', '1 for the state the runner is in', (status, state) =>
    status.state === state ? 1 : 0,
  ),
  byState(
    'runnel_runners',
    'Runners of the model, by the state each is in',
    (status, state) => statesOf(status).filter((each) => each === state).length,
  ),
  counter('runnel_sequences_total', 'Sequences that ended, by outcome', [
    [{ outcome: 'finished' }, 'numFinished'],
    [{ outcome: 'failed' }, 'numFailed'],
  ]),
  counter('runnel_preemptions_total', 'Preemptions: a sequence lost its blocks to others', [
    [{}, 'numPreemptions'],
  ]),
  counter('runnel_steps_total', 'Steps, by what they computed: parts of prompts, next tokens, or both', [
    [{ kind: 'prefill' }, 'numPrefillSteps'],
    [{ kind: 'decode' }, 'numDecodeSteps'],
    [{ kind: 'mixed' }, 'numMixedSteps'],
  ]),
  counter(
    'runnel_step_sequences_total',
    'Sequences in steps, by what was computed for them; each counts once a step',
    [
      [{ kind: 'prefill' }, 'numPrefillSequences'],
      [{ kind: 'decode' }, 'numDecodeSequences'],
    ],
  ),
  counter(
    'runnel_prefill_tokens_total',
    'Prompt tokens that were computed, including tokens computed again after a preemption',
    [[{}, 'numPrefillTokens']],
  ),
  counter('runnel_prefix_cache_hit_tokens_total', 'Prompt tokens that were found in the KV cache', [
    [{}, 'numCachedTokens'],
  ]),
  counter('runnel_generated_tokens_total', 'Tokens that runners drew', [[{}, 'numGeneratedTokens']]),
  counter('runnel_draft_tokens_total', 'Guesses of next tokens that were computed', [[{}, 'numDraftTokens']]),
  counter('runnel_accepted_draft_tokens_total', 'Guesses of next tokens that were then drawn', [
    [{}, 'numAcceptedDraftTokens'],
  ]),
  counter(
    'runnel_kv_blocks_adopted_total',
    'Blocks of the KV cache that runners found where a dead runner had computed them',
    [[{}, 'numAdoptedBlocks']],
  ),
  counter('runnel_kv_blocks_dropped_total', 'Blocks found there that were damaged', [
    [{}, 'numDroppedBlocks'],
  ]),
  counter('runnel_step_seconds_total', 'Seconds spent in steps', [[{}, 'busyUs']], 1e-6),
  stats(
    'runnel_sequences_waiting',
    'Sequences that wait for a step, in the gateway or in the runner',
    'numWaiting',
  ),
  stats('runnel_sequences_running', 'Sequences that steps compute for', 'numRunning'),
  stats(
    'runnel_sequences_paused',
    'Sequences that are paused because their client does not read',
    'numPaused',
  ),
  stats(
    'runnel_kv_blocks_reusable',
    'Free blocks of the KV cache whose content can be reused',
    'numReusableBlocks',
  ),
  stats('runnel_runner_memory_bytes', 'Memory of the runner without mapped files; 0: unknown', 'memoryBytes'),
];
