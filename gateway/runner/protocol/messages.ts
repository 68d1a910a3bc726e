/**
 * The messages of proto/runner.proto as the gateway's own types. The schema defines their names, units and limits;
 * to-runner.ts encodes them, and from-runner.ts decodes them.
 */
import type { FirstOutput } from '../answer-times.ts';
import type { Grammar, Pooling, RunnerInfo, SamplingParams, TokenLogprobs } from '../runner.ts';
import type { SchedulerStats } from './scheduler-stats.ts';

export const protocolVersion = 3;

export interface Generate {
  readonly requestId: number;
  readonly tokenIds: readonly number[];
  readonly numEmitted: number;
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly stopIds: readonly number[];
  readonly sampling: SamplingParams;
  readonly topLogprobs?: number;
  readonly promptLogprobs?: number;
  readonly cacheSalt: Uint8Array;
  readonly grammar?: Grammar;
}

export interface Embed {
  readonly requestId: number;
  readonly tokenIds: readonly number[];
  readonly pooling: Pooling;
  readonly cacheSalt: Uint8Array;
}

/** A part of the spellings of the model's tokens: those from firstId on. numTokens and numBytes count all parts together. */
export interface Vocabulary {
  readonly numTokens: number;
  readonly numBytes: number;
  readonly firstId: number;
  readonly lengths: readonly number[];
  readonly spellings: Uint8Array;
}

export type ToRunner =
  | ({ readonly type: 'generate' } & Generate)
  | ({ readonly type: 'embed' } & Embed)
  /** isComplete: the answer needs no more tokens, so it counts as finished. */
  | { readonly type: 'cancel'; readonly requestId: number; readonly isComplete?: boolean }
  | { readonly type: 'pause' | 'resume'; readonly requestId: number }
  | { readonly type: 'drain' }
  | ({ readonly type: 'vocabulary' } & Vocabulary);

export interface Hello {
  readonly type: 'hello';
  readonly protocolVersion: number;
  readonly kind: string;
  readonly build: string;
  readonly numericsId: string;
  /** For people; empty: the runner did not say. */
  readonly sandbox: string;
}

export interface LoadProgress {
  readonly type: 'load_progress';
  readonly loadedBytes: number;
  /** 0: not known yet. */
  readonly totalBytes: number;
}

/** What a runner reports about itself and its model once it is ready. Hello has the fields left out here. */
export type Ready = { readonly type: 'ready' } & Omit<
  RunnerInfo,
  'kind' | 'build' | 'numericsId' | 'sandbox'
>;

/** What one step made for one request. */
export interface Output {
  readonly requestId: number;
  readonly firstIndex: number;
  readonly tokenIds: readonly number[];
  readonly finish?: 'stop_id' | 'max_tokens';
  readonly logprobs?: readonly TokenLogprobs[];
  /** Set on the first output that a request gets from a runner. */
  readonly first?: FirstOutput;
}

export interface Step {
  readonly type: 'step';
  readonly step: number;
  readonly outputs: readonly Output[];
}

export interface PromptLogprobs {
  readonly type: 'prompt_logprobs';
  readonly requestId: number;
  /** Index in the prompt of the first token in this frame. */
  readonly firstIndex: number;
  readonly logprobs: readonly TokenLogprobs[];
}

export interface Embedding {
  readonly type: 'embedding';
  readonly requestId: number;
  readonly values: Float32Array;
  /** As for tokens; prefillUs ends when the vector is computed. */
  readonly first: FirstOutput;
}

export type Stats = { readonly type: 'stats' } & SchedulerStats;

/** What a runner's stepping thread was last seen to begin. */
export type Phase = 'loading' | 'idle' | 'prefill' | 'decode' | 'mixed' | 'compiling';

export interface Heartbeat {
  readonly type: 'heartbeat';
  readonly phase: Phase;
  readonly step: number;
  readonly numRequests: number;
  readonly numFreeBlocks: number;
}

export type RequestErrorCode =
  | 'INVALID_REQUEST'
  | 'CANCELLED'
  | 'OUT_OF_MEMORY'
  | 'QUEUE_FULL'
  | 'DRAINING'
  | 'INFERENCE_FAILED'
  | 'GRAMMAR_FAILED';

export interface RequestError {
  readonly type: 'request_error';
  readonly requestId: number;
  readonly code: RequestErrorCode;
  readonly message: string;
}

export interface Failure {
  readonly type: 'failure';
  readonly exitCode: number;
  readonly message: string;
  /** The device that the model could not be loaded for; empty: the runner did not say. */
  readonly device: string;
  /** Bytes asked for and bytes available. Set only where memory was missing; availableBytes may be unknown even then. */
  readonly requiredBytes?: number;
  readonly availableBytes?: number;
}

export type FromRunner =
  | Hello
  | LoadProgress
  | Ready
  | Step
  | PromptLogprobs
  | Embedding
  | Stats
  | Heartbeat
  | RequestError
  | Failure;
