/**
 * What the rest of the gateway knows of a runner: ask for tokens, hear of them in batches, see how it is. The supervisor
 * is the real one; tests pass a fake. Crashes do not show here: a stream pauses and goes on.
 */

import type { SchedulerCounters, SchedulerStats } from './protocol/scheduler-stats.ts';

/** Sampling parameters as the runner applies them; ranges are proto/runner.proto's. */
export interface SamplingParams {
  readonly temperature: number;
  /** 0: all tokens. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  /** Of tokens generated; 0: off. */
  readonly presencePenalty: number;
  /** Of tokens generated, each time; 0: off. */
  readonly frequencyPenalty: number;
  /** Token id to what is added to its logit. */
  readonly logitBias: ReadonlyMap<number, number>;
  /** Only these may be drawn; empty: all. */
  readonly allowedTokenIds: readonly number[];
  /** These are not drawn, allowed or not. */
  readonly bannedTokenIds: readonly number[];
  /** 0 to 2^64 - 1. */
  readonly seed: bigint;
}

/** Draws from what the model gives, nothing changed or left out. */
export const neutralSampling: Omit<SamplingParams, 'seed'> = {
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: new Map(),
  allowedTokenIds: [],
  bannedTokenIds: [],
};

export type GrammarKind = 'json_schema' | 'json_object' | 'regex' | 'ebnf' | 'structural_tag';

/** Of Grammar.source, in UTF-8. */
export const maxGrammarBytes = 2 ** 18;

/** All that an answer may be; docs/structured-output.md says in which languages. */
export interface Grammar {
  readonly kind: GrammarKind;
  /** Empty for json_object. */
  readonly source: string;
  /** Of json_schema: nothing is allowed that the schema does not name. */
  readonly strict: boolean;
}

/** How the tokens of a model are spelled, as vocabulary-frames.ts makes them. */
export interface VocabularyFrames {
  readonly numTokens: number;
  /** In the order in which they are sent. */
  readonly frames: readonly Uint8Array[];
}

/** What there is of an answer that another process of the gateway has begun. */
export interface BegunAnswer {
  /** Not empty; the sink hears of those behind them alone. */
  readonly tokenIds: readonly number[];
  /** Of the runner that computed the last of them. */
  readonly numericsId: string;
}

/** How many tokens of an answer may be thought. */
export interface ThinkingLimit {
  /** At least 1; what comes of the answer before it thinks counts, too. */
  readonly maxTokens: number;
  /** What ends the thinking, and is drawn behind so many. */
  readonly endIds: readonly number[];
  /** Whether an answer thinks behind these tokens; undefined: it is not known yet. It depends on nothing else. */
  readonly isThinking: (tokenIds: readonly number[]) => boolean | undefined;
}

/** Of which tokens of a text its vector is made: the last one's hidden state, the mean of all, or the first one's. */
export const poolings = ['last', 'mean', 'cls'] as const;
export type Pooling = (typeof poolings)[number];

/** Whatever API a request came by, it is turned into one of these. */
export interface GenerateRequest {
  readonly promptIds: readonly number[];
  /** RunnerInfo.modelIdentity of the model whose tokenizer made promptIds; another one would misread them. */
  readonly modelIdentity: string;
  /** Tokens to generate; the context may end it earlier. */
  readonly maxTokens: number;
  /** None of stopIds is drawn before this many. */
  readonly minTokens: number;
  readonly stopIds: readonly number[];
  readonly sampling: SamplingParams;
  /** Log-probabilities of each token and of this many most likely ones; absent: none. */
  readonly topLogprobs?: number;
  /** The same of the prompt's own tokens, from the second on. */
  readonly promptLogprobs?: number;
  /** What was computed for a prompt is shared only among requests with the same salt: at most 32 bytes. */
  readonly cacheSalt: Uint8Array;
  /** With one, stopIds are not empty, and vocabulary is there; absent: the answer may be anything. */
  readonly grammar?: Grammar;
  /** How the model's tokens are spelled: each runner is told before its first grammar. */
  readonly vocabulary?: VocabularyFrames;
  /** Absent: what is thought may be as long as the answer. */
  readonly thinkingLimit?: ThinkingLimit;
  /** With one, the answer is one vector of the prompt, and no token: of the rest, what is about tokens counts for nothing. */
  readonly pooling?: Pooling;
  /** Milliseconds since 1970 after which nobody wants the answer any more; absent: only the server's own limit holds. */
  readonly deadlineMs?: number;
  /** An earlier process had the request: the answer goes on behind these tokens. Absent: it begins. */
  readonly begun?: BegunAnswer;
  /** Whose routes it came by, for the metrics: one of a few names. */
  readonly api?: string;
}

export interface TokenLogprobs {
  readonly logprob: number;
  readonly topIds: readonly number[];
  readonly topLogprobs: readonly number[];
}

/** How a request came to its first token, by the runner's own clock. */
export interface FirstOutput {
  /** Tokens of the prompt that were found in the KV cache and not computed. */
  readonly numCachedTokens: number;
  /** Until the first step that computed for it. */
  readonly queuedUs: number;
  /** From then to the first token. */
  readonly prefillUs: number;
}

/** Tokens that came with one step, or while their consumer was paused. */
export interface TokenBatch {
  /** Index of the first of tokenIds in the answer, from 0, without gaps. */
  readonly firstIndex: number;
  readonly tokenIds: readonly number[];
  /** As many as tokenIds if the request asked, else absent. */
  readonly logprobs?: readonly TokenLogprobs[];
  /** Of a request with a pooling, on its only batch, which has no tokens: not scaled to a length. */
  readonly embedding?: Float32Array;
  /** Set on the first batch: of the runner that began the answer, whichever went on with it. */
  readonly first?: FirstOutput;
  /** Those of the prompt from its second token on, on the first batch if the request asked and there are any. */
  readonly promptLogprobs?: readonly TokenLogprobs[];
  /** The numerics id of a runner that went on with the answer by other arithmetic: it is not promised to be the one it would be. */
  readonly continuedBy?: string;
  /** The first tokens since another runner went on with an answer of which some had come. */
  readonly isResumed?: true;
  /**
   * Set on the last batch. 'stop_id': its last token is one of stopIds, or it has the embedding. 'max_tokens': also when the context is full.
   * 'time_limit': from endingAtTimeLimit alone, where a runner says TIMEOUT.
   */
  readonly finish?: 'stop_id' | 'max_tokens' | 'time_limit';
}

export type GenerationErrorCode =
  | 'INVALID_REQUEST'
  | 'CANCELLED'
  | 'TIMEOUT'
  | 'OUT_OF_MEMORY'
  | 'QUEUE_FULL'
  | 'NOT_READY'
  | 'INFERENCE_FAILED'
  | 'GRAMMAR_FAILED'
  | 'RUNNER_CRASHED';

/** How a generation ends when it does not end well. */
export class GenerationError extends Error {
  override readonly name = 'GenerationError';
  readonly code: GenerationErrorCode;
  /** Whether sending the same request again can help. */
  readonly retriable: boolean;
  /** When waiting helps: how long, in seconds. */
  readonly retryAfterSec: number | undefined;

  constructor(
    code: GenerationErrorCode,
    message: string,
    options: { retriable: boolean; retryAfterSec?: number; cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.code = code;
    this.retriable = options.retriable;
    this.retryAfterSec = options.retryAfterSec;
  }
}

/** What whoever waits for an answer hears when somebody else has cancelled it. */
export function cancelled(): GenerationError {
  return new GenerationError('CANCELLED', 'The request was cancelled.', { retriable: false });
}

/**
 * starting: no runner has been ready yet. ready: takes requests. recovering: the runner died or is replaced, and another is coming;
 * requests wait, unless too many have failed. failed: no runner will come until something changes, or time has passed; `reason` says what. stopping: draining.
 */
export type RunnerState = 'starting' | 'ready' | 'recovering' | 'failed' | 'stopping';

/** Facts of the runner that is ready now, or was last. In the status of several, blocks and bytes are those of all together. */
export interface RunnerInfo {
  readonly kind: string;
  readonly build: string;
  readonly numericsId: string;
  /** What the runner has confined itself with: `landlock+mdwe+seccomp`, or what is missing and why; empty: it did not say. */
  readonly sandbox: string;
  readonly modelIdentity: string;
  readonly architecture: string;
  readonly device: string;
  readonly vocabSize: number;
  readonly maxModelLen: number;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly weightsBytes: number;
  readonly kvCacheBytes: number;
  /** What it stores: f16, f32 or q8_0. */
  readonly kvCacheType: string;
  /** Values of an embedding; 0: it makes none. */
  readonly embeddingSize: number;
}

/** Another model takes over: first what is open with the old one is finished, then the new one is loaded. */
export interface ModelChange {
  readonly phase: 'draining' | 'loading';
  /** As clients name them. */
  readonly from: string;
  readonly to: string;
}

/** What was asked to compute, and whether something else does. */
export interface BackendStatus {
  readonly requested: 'auto' | 'cpu' | 'cuda';
  /** The CPU computes because CUDA, which was asked for, cannot. */
  readonly isFallback: boolean;
  /** A sentence: why the CPU computes, where CUDA might. */
  readonly reason?: string;
  /** Until it is looked whether CUDA can; absent: it is not. */
  readonly looksAgainInMs?: number;
}

/** One of several runners of a model. */
export interface SingleRunnerStatus {
  readonly state: Exclude<RunnerState, 'stopping'>;
  /** A sentence, when the state is not ready. */
  readonly reason: string | undefined;
  readonly pid: number | undefined;
  /** Processes started in its place after the first. */
  readonly restarts: number;
  /** Those that it has. */
  readonly openRequests: number;
  /** 0 to 1 while its model loads. */
  readonly loadProgress: number | undefined;
  readonly numFreeBlocks: number | undefined;
  /** Its own memory and blocks. */
  readonly info: RunnerInfo | undefined;
}

/** Of all runners of the model together. */
export interface RunnerStatus {
  /** Ready as long as one of them is. */
  readonly state: RunnerState;
  /** A sentence, when the state is not ready. */
  readonly reason: string | undefined;
  /** Process id of the runner, while there is one; of several, of one that serves. */
  readonly pid: number | undefined;
  /** Runner processes started after the first ones. */
  readonly restarts: number;
  readonly openRequests: number;
  /** Absent while no other model takes over. */
  readonly modelChange?: ModelChange;
  /** Absent where there is no choice. */
  readonly backend?: BackendStatus;
  /** Of the prompts of these. */
  readonly openTokens: number;
  /** 0 to 1 while a model loads. */
  readonly loadProgress: number | undefined;
  /** Seconds after which a request that is not taken now may be; undefined when it is taken, or waiting cannot help. */
  readonly retryAfterSec: number | undefined;
  readonly info: RunnerInfo | undefined;
  /** Blocks of the KV cache nobody uses, as last heard, at most a second or so ago; undefined while no runner serves. */
  readonly numFreeBlocks: number | undefined;
  /** As last heard of the runner that serves; undefined while none does, and until it has said it once. */
  readonly stats: SchedulerStats | undefined;
  /** Over all runners there were. */
  readonly counters: SchedulerCounters;
  /** Each by itself, by its index; absent where there is one. */
  readonly runners?: readonly SingleRunnerStatus[];
}

/** Hears what comes of a request, in the turn of the event loop in which it comes, and never before generate has returned. */
export interface TokenSink {
  /** The last batch has `finish`, and nothing is heard behind it. */
  onTokens(batch: TokenBatch): void;
  /** In place of a batch with `finish`: the last that is heard. */
  onError(error: GenerationError): void;
}

/** Why a consumer wants no more. enough: what came is all it needs, such as a text with its stop string. */
export type CancelReason = 'cancelled' | 'enough';

/** What is open, in the hands of its consumer. After the end none of these does anything. */
export interface GenerationHandle {
  /** The sink hears nothing more. */
  cancel(reason?: CancelReason): void;
  /** Tokens wait until resume, up to the bounds of token-stream.ts; above them the runner is asked to let the request lie. */
  pause(): void;
  /** All that has come meanwhile is heard as one batch, before it returns. */
  resume(): void;
}

export interface Runner {
  /**
   * Takes the request, or throws GenerationError at once. The sink hears the tokens of the answer as they come. A sink that
   * is paused pauses its own request only.
   */
  generate(request: GenerateRequest, sink: TokenSink): GenerationHandle;
  /**
   * Throws the GenerationError that one of these would get if they all came now, and takes none: for several requests
   * of which none shall be begun unless all can be. What is asked in the same turn of the event loop still holds.
   */
  assertCapacity(requests: readonly GenerateRequest[]): void;
  /** Throws the GenerationError that any request would get now, whatever it asks: nobody need look at what that is. */
  assertAcceptsRequests(): void;
  status(): RunnerStatus;
}
