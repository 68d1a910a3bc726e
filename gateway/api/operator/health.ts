import type { Handler } from 'hono';
import * as z from 'zod';
import { notReady } from '../../calls/prompt.ts';
import type { Model } from '../../models/model.ts';
import {
  isResident,
  memoryInUse,
  memoryOf,
  type ServedModel,
  workerMemory,
  workerStatus,
} from '../../models/model-registry.ts';
import type { SchedulerStats } from '../../runner/protocol/scheduler-stats.ts';
import type { BackendStatus, RunnerState, RunnerStatus, SingleRunnerStatus } from '../../runner/runner.ts';
import { CAPABILITIES } from '../../server/ready-callback.ts';
import type { RouteDeps } from '../../server/route-group.ts';

/** GET /health and GET /ready: of each member of their answers its schema, and what it is read from. */

const count = z.int().nullable();
const text = z.string().nullable();
const fraction = z.number().nullable();

/** How a member is read of a source. What is unknown, and may not be left out, is null. */
type Read<Source, Value> = (source: Source) => Value | (null extends Value ? undefined : never);
type Members<Source, Shape extends z.ZodRawShape> = {
  readonly [Name in keyof Shape]: readonly [schema: Shape[Name], read: Read<Source, z.infer<Shape[Name]>>];
};

/** A table of members that are read of a Source. */
function membersOf<Source>() {
  return <Shape extends z.ZodRawShape>(members: Members<Source, Shape>) => members;
}

function schemaOf<Shape extends z.ZodRawShape>(members: Members<never, Shape>): z.ZodObject<Shape> {
  return z.object(
    Object.fromEntries(Object.entries(members).map(([name, [schema]]) => [name, schema])) as Shape,
  );
}

function read<Source, Shape extends z.ZodRawShape>(members: Members<Source, Shape>, source: Source) {
  const values = Object.entries(members).map(([name, [schema, read]]) => {
    const value = read(source);
    return [name, schema instanceof z.ZodNullable ? (value ?? null) : value];
  });
  return Object.fromEntries(values) as z.infer<z.ZodObject<Shape>>;
}

interface ModelStatus extends Pick<ServedModel, 'names' | 'loadState'> {
  readonly status: RunnerStatus;
}

/** One of the served models. */
const modelMembers = membersOf<ModelStatus>()({
  name: [text, ({ names }) => names[0]],
  state: [z.enum(['loaded', 'loading', 'unloaded', 'failed']), ({ loadState }) => loadState.state],
  load_progress: [fraction, ({ loadState }) => loadState.progress],
  reason: [text, ({ loadState }) => loadState.reason],
  pid: [count, ({ status }) => status.pid],
  restarts: [z.int(), ({ status }) => status.restarts],
  open_requests: [z.int(), ({ status }) => status.openRequests],
  memory_bytes: [z.int(), ({ status }) => memoryOf(status.info).memory_bytes],
});
const modelSchema = schemaOf(modelMembers).meta({ title: 'ModelState' });

function modelsOf({ models }: RouteDeps): z.infer<typeof modelSchema>[] {
  return models.all.map(({ names, loadState, runner }) =>
    read(modelMembers, { names, loadState, status: runner.status() }),
  );
}

type AnyStatus = RunnerStatus | SingleRunnerStatus;

/** What one runner and all runners of a model together have. */
const processMembers = membersOf<AnyStatus>()({
  state: [z.enum(['starting', 'ready', 'recovering', 'failed', 'stopping']), ({ state }) => state],
  reason: [text, ({ reason }) => reason],
  pid: [count, ({ pid }) => pid],
  restarts: [z.int(), ({ restarts }) => restarts],
  open_requests: [z.int(), ({ openRequests }) => openRequests],
  load_progress: [fraction, ({ loadProgress }) => loadProgress],
});
const blockMembers = membersOf<AnyStatus>()({
  kv_blocks: [count, ({ info }) => info?.numBlocks],
  kv_blocks_free: [count, ({ numFreeBlocks }) => numFreeBlocks],
});
const memoryMembers = membersOf<AnyStatus>()({
  weights_bytes: [count, ({ info }) => info?.weightsBytes],
  kv_cache_bytes: [count, ({ info }) => info?.kvCacheBytes],
});
const singleRunnerMembers = { ...processMembers, ...blockMembers, ...memoryMembers };

const runnerMembers = {
  ...processMembers,
  ...membersOf<RunnerStatus>()({
    kind: [text, ({ info }) => info?.kind],
    build: [text, ({ info }) => info?.build],
    device: [text, ({ info }) => info?.device],
    numerics_id: [text, ({ info }) => info?.numericsId],
    sandbox: [text, ({ info }) => info?.sandbox],
  }),
  ...blockMembers,
  ...membersOf<RunnerStatus>()({ kv_cache_type: [text, ({ info }) => info?.kvCacheType] }),
  ...memoryMembers,
  ...membersOf<RunnerStatus>()({
    kv_cache_bytes_used: [z.number(), (status) => memoryInUse(status).cacheUsedBytes],
    kv_cache_bytes_reusable: [z.number(), (status) => memoryInUse(status).cacheReusableBytes],
  }),
};

/** Which backend serves, and why another does not. */
const backendMembers = membersOf<{ readonly backend: BackendStatus; readonly serving: string | undefined }>()(
  {
    requested: [z.enum(['auto', 'cpu', 'cuda']), ({ backend }) => backend.requested],
    serving: [text, ({ serving }) => serving],
    is_fallback: [z.boolean(), ({ backend }) => backend.isFallback],
    reason: [text, ({ backend }) => backend.reason],
    looks_again_in_seconds: [
      count,
      ({ backend: { looksAgainInMs: ms } }) => (ms === undefined ? null : Math.ceil(ms / 1000)),
    ],
  },
);

interface Scheduler extends SchedulerStats {
  readonly numBlocks: number | undefined;
}

/** The counts of the current runner since it started. */
const schedulerMembers = membersOf<Scheduler>()({
  total: [z.int(), (s) => s.numWaiting + s.numRunning + s.numPaused + s.numFinished + s.numFailed],
  waiting: [z.int(), (s) => s.numWaiting],
  running: [z.int(), (s) => s.numRunning],
  paused: [z.int(), (s) => s.numPaused],
  finished: [z.int(), (s) => s.numFinished],
  failed: [z.int(), (s) => s.numFailed],
  preemptions: [z.int(), (s) => s.numPreemptions],
  prefill_batches: [z.int(), (s) => s.numPrefillSteps],
  decode_batches: [z.int(), (s) => s.numDecodeSteps],
  mixed_batches: [z.int(), (s) => s.numMixedSteps],
  mean_prefill_batch_size: [
    z.number(),
    (s) => mean(s.numPrefillSequences, s.numPrefillSteps + s.numMixedSteps),
  ],
  mean_decode_batch_size: [z.number(), (s) => mean(s.numDecodeSequences, s.numDecodeSteps + s.numMixedSteps)],
  prefill_tokens: [z.int(), (s) => s.numPrefillTokens],
  cached_tokens: [z.int(), (s) => s.numCachedTokens],
  generated_tokens: [z.int(), (s) => s.numGeneratedTokens],
  draft_tokens: [z.int(), (s) => s.numDraftTokens],
  accepted_draft_tokens: [z.int(), (s) => s.numAcceptedDraftTokens],
  blocks_total: [count, (s) => s.numBlocks],
  blocks_free: [z.int(), (s) => s.numFreeBlocks],
  blocks_reusable: [z.int(), (s) => s.numReusableBlocks],
  busy_seconds: [z.number(), (s) => s.busyUs / 1e6],
  memory_bytes: [count, (s) => (s.memoryBytes === 0 ? null : s.memoryBytes)],
});

function mean(sum: number, count: number): number {
  return count === 0 ? 0 : sum / count;
}

const HEALTH = {
  starting: 'starting',
  ready: 'healthy',
  recovering: 'recovering',
  failed: 'unhealthy',
  stopping: 'degraded',
} as const satisfies Record<RunnerState, string>;

function workerState({ state, openRequests }: RunnerStatus) {
  if (state === 'ready') return openRequests > 0 ? 'busy' : 'ready';
  return state === 'stopping' ? 'draining' : state;
}

const memoryType = z.enum(['cpu', 'vram-only']);

interface Health {
  readonly deps: RouteDeps;
  readonly uptimeMs: number;
  readonly worker: ReturnType<typeof workerStatus>;
  readonly memory: ReturnType<typeof workerMemory>;
  /** The default model, and its runners. */
  readonly model: Model | undefined;
  readonly runner: RunnerStatus;
}

/** Members are only ever added. The oldest clients read the first four. */
const healthMembers = membersOf<Health>()({
  status: [
    z.enum(['healthy', 'starting', 'recovering', 'degraded', 'unhealthy']),
    ({ worker }) => HEALTH[worker.state],
  ],
  model_loaded: [z.boolean(), ({ runner }) => runner.state === 'ready'],
  vram_bytes: [z.int(), ({ memory }) => memory.vramBytes],
  memory_type: [memoryType, ({ memory }) => memory.type],
  memory_bytes: [z.int(), ({ memory }) => memory.memoryBytes],
  memory_architecture: [memoryType, ({ memory }) => memory.type],
  resident: [z.boolean(), ({ runner }) => isResident(runner)],
  vram_bytes_used: [z.number(), ({ memory }) => memory.vramUsedBytes],
  memory_bytes_used: [z.number(), ({ memory }) => memory.memoryUsedBytes],
  state: [
    z.enum(['starting', 'ready', 'busy', 'recovering', 'draining', 'failed']),
    ({ worker }) => workerState(worker),
  ],
  model: [text, ({ model }) => model?.id],
  quant_kind: [text, ({ model }) => model?.quantKind],
  tokenizer_kind: [text, ({ model }) => model?.tokenizer.kind],
  vocab_size: [count, ({ model, runner }) => runner.info?.vocabSize ?? model?.tokenizer.vocabSize],
  context_length: [count, ({ runner }) => runner.info?.maxModelLen],
  capabilities: [z.array(z.string()), () => CAPABILITIES],
  protocol: [z.literal('sse'), () => 'sse' as const],
  uptime_seconds: [z.int(), ({ uptimeMs }) => Math.floor(uptimeMs / 1000)],
  runner: [schemaOf(runnerMembers), ({ runner }) => read(runnerMembers, runner)],
  runners: [
    z.array(z.object({ runner: z.int(), ...schemaOf(singleRunnerMembers).shape })).optional(),
    ({ runner }) =>
      runner.runners?.map((each, index) => ({ runner: index, ...read(singleRunnerMembers, each) })),
  ],
  backend: [
    schemaOf(backendMembers).nullable(),
    ({ runner: { backend, info } }) => backend && read(backendMembers, { backend, serving: info?.kind }),
  ],
  model_change: [
    z
      .object({ phase: z.enum(['draining', 'loading']), from: z.string(), to: z.string() })
      .readonly()
      .nullable(),
    ({ runner }) => runner.modelChange,
  ],
  models: [z.array(modelSchema), ({ deps }) => modelsOf(deps)],
  scheduler: [
    schemaOf(schedulerMembers).nullable(),
    ({ runner: { stats, info } }) =>
      stats && read(schedulerMembers, { ...stats, numBlocks: info?.numBlocks }),
  ],
  parked_jobs: [z.int(), ({ deps }) => deps.jobs.numParked],
});
export const healthSchema = schemaOf(healthMembers).meta({ title: 'Health' });

/** GET /health: 200 while the gateway lives, with the rest in its body. */
export function health(deps: RouteDeps): Handler {
  const startedMs = deps.monotonicNow();
  return (c) => {
    const { models } = deps;
    const { model, runner } = models.default;
    return c.json(
      read(healthMembers, {
        deps,
        model,
        runner: runner.status(),
        worker: workerStatus(models),
        memory: workerMemory(models),
        uptimeMs: deps.monotonicNow() - startedMs,
      }),
    );
  };
}

export const readySchema = z
  .object({
    status: z.literal('ready'),
    fallback: z.string().optional(),
    models: z.array(modelSchema).optional(),
  })
  .meta({ title: 'Ready' });

/** GET /ready, for load balancers: 503 if no work is taken. */
export function ready(deps: RouteDeps): Handler {
  return (c) => {
    const worker = workerStatus(deps.models);
    const { state, backend } = worker;
    if (state !== 'ready') throw notReady(worker);
    return c.json({
      status: 'ready',
      ...(backend?.isFallback ? { fallback: backend.reason } : {}),
      ...(deps.models.single === undefined ? { models: modelsOf(deps) } : {}),
    } satisfies z.infer<typeof readySchema>);
  };
}
