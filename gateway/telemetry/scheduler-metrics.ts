import { Counter, Gauge, type Registry } from 'prom-client';
import type { SchedulerCounters, SchedulerStats } from '../runner/protocol/scheduler-stats.ts';
import type { RunnerStatus } from '../runner/runner.ts';

/** What runners report about their schedulers: counters over all runners so far, and gauges of the current one. */

interface CounterFamily {
  readonly help: string;
  /** The labels of each sample, and the counter that it shows. */
  readonly samples: readonly (readonly [labels: Record<string, string>, counter: keyof SchedulerCounters])[];
  /** One unit of the counter in units of the metric. */
  readonly scale?: number;
}

const COUNTERS: Readonly<Record<string, CounterFamily>> = {
  runnel_sequences_total: {
    help: 'Sequences that ended, by outcome',
    samples: [
      [{ outcome: 'finished' }, 'numFinished'],
      [{ outcome: 'failed' }, 'numFailed'],
    ],
  },
  runnel_preemptions_total: {
    help: 'Preemptions: a sequence lost its blocks to others',
    samples: [[{}, 'numPreemptions']],
  },
  runnel_steps_total: {
    help: 'Steps, by what they computed: parts of prompts, next tokens, or both',
    samples: [
      [{ kind: 'prefill' }, 'numPrefillSteps'],
      [{ kind: 'decode' }, 'numDecodeSteps'],
      [{ kind: 'mixed' }, 'numMixedSteps'],
    ],
  },
  runnel_step_sequences_total: {
    help: 'Sequences in steps, by what was computed for them; each counts once a step',
    samples: [
      [{ kind: 'prefill' }, 'numPrefillSequences'],
      [{ kind: 'decode' }, 'numDecodeSequences'],
    ],
  },
  runnel_prefill_tokens_total: {
    help: 'Prompt tokens that were computed, including tokens computed again after a preemption',
    samples: [[{}, 'numPrefillTokens']],
  },
  runnel_prefix_cache_hit_tokens_total: {
    help: 'Prompt tokens that were found in the KV cache',
    samples: [[{}, 'numCachedTokens']],
  },
  runnel_generated_tokens_total: {
    help: 'Tokens that runners drew',
    samples: [[{}, 'numGeneratedTokens']],
  },
  runnel_draft_tokens_total: {
    help: 'Guesses of next tokens that were computed',
    samples: [[{}, 'numDraftTokens']],
  },
  runnel_accepted_draft_tokens_total: {
    help: 'Guesses of next tokens that were then drawn',
    samples: [[{}, 'numAcceptedDraftTokens']],
  },
  runnel_step_seconds_total: {
    help: 'Seconds spent in steps',
    samples: [[{}, 'busyUs']],
    scale: 1e-6,
  },
};

type StatsGauge = Exclude<keyof SchedulerStats, keyof SchedulerCounters>;

const GAUGES: Readonly<Record<string, { readonly help: string; readonly gauge: StatsGauge }>> = {
  runnel_sequences_waiting: {
    help: 'Sequences that wait for a step, in the gateway or in the runner',
    gauge: 'numWaiting',
  },
  runnel_sequences_running: { help: 'Sequences that steps compute for', gauge: 'numRunning' },
  runnel_sequences_paused: {
    help: 'Sequences that are paused because their client does not read',
    gauge: 'numPaused',
  },
  runnel_kv_blocks_reusable: {
    help: 'Free blocks of the KV cache whose content can be reused',
    gauge: 'numReusableBlocks',
  },
  runnel_runner_memory_bytes: {
    help: 'Memory of the runner without mapped files; 0: unknown',
    gauge: 'memoryBytes',
  },
};

export function addSchedulerMetrics(registry: Registry, status: () => RunnerStatus): void {
  for (const [name, { help, samples, scale = 1 }] of Object.entries(COUNTERS)) {
    const labelNames = Object.keys(samples[0]?.[0] ?? {});
    new Counter({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        const { counters } = status();
        for (const [labels, counter] of samples) this.inc(labels, counters[counter] * scale);
      },
    });
  }
  for (const [name, { help, gauge }] of Object.entries(GAUGES)) {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(status().stats?.[gauge] ?? 0);
      },
    });
  }
}
