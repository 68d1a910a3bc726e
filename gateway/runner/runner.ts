/**
 * A runner as the rest of the gateway knows it: it takes requests, gives tokens in batches, and has a status. RunnerPool
 * implements it; tests use fakes. Crashes do not show here: a stream pauses and goes on.
 */

import type { Caller } from '../system/caller.ts';
import type { SchedulerCounters, SchedulerStats } from './protocol/scheduler-stats.ts';

/** Sampling parameters as the runner applies them; proto/runner.proto has the ranges. */
export interface SamplingParams {
  readonly temperature: number;
  /** 0: all tokens. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  /** Subtracted once from the logit of every token that was generated; 0: off. */
  readonly presencePenalty: number;
  /** Subtracted from a token's logit once for each time it was generated; 0: off. */
  readonly frequencyPenalty: number;
  readonly logitBias: ReadonlyMap<number, number>;
  /** Only these may be sampled; empty: all. */
  readonly allowedTokenIds: readonly number[];
  /** These are never sampled, even if they are allowed. */
  readonly bannedTokenIds: readonly number[];
  /** 0 to 2^64 - 1. */
  readonly seed: bigint;
}

/** Draws from the model's own distribution, unchanged. */
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

export const grammarKinds = ['json_schema', 'json_object', 'regex', 'ebnf', 'structural_tag'] as const;
export type GrammarKind = (typeof grammarKinds)[number];

/** Limit of Grammar.source in UTF-8. */
export const maxGrammarBytes = 2 ** 18;

/** Restricts the whole answer; docs/structured-output.md describes the languages. */
export interface Grammar {
  readonly kind: GrammarKind;
  /** Empty for json_object. */
  readonly source: string;
  /** For json_schema: nothing is allowed that the schema does not name. */
  readonly strict: boolean;
}

/** How the tokens of a model are spelled, as vocabularyFrames() makes them. */
export interface VocabularyFrames {
  readonly numTokens: number;
  /** In the order in which they are sent. */
  readonly frames: readonly Uint8Array[];
}

/** The beginning of an answer that another gateway process has generated. */
export interface ResumePoint {
  /** Not empty. The sink gets only the tokens after these. */
  readonly tokenIds: readonly number[];
  /** Numerics id of the runner that computed the last of them. */
  readonly numericsId: string;
}

export interface ThinkingLimit {
  /** At least 1. Tokens of the answer before the thinking count too. */
  readonly maxTokens: number;
  /** The tokens that end the thinking; they are forced once the limit is reached. */
  readonly endIds: readonly number[];
  /** How the limited answer thinks: all that isThinking depends on. */
  readonly thinking: {
    readonly format: { readonly begin: string; readonly end: string };
    /** Whether the prompt has begun the thinking. */
    readonly isOpen: boolean;
  };
  /** Whether an answer that began with these tokens is thinking now; undefined: not known yet. A pure function of tokenIds. */
  readonly isThinking: (tokenIds: readonly number[]) => boolean | undefined;
}

/** From which hidden states the vector of a text is made: the last token's, the mean of all tokens', or the first token's. */
export const poolings = ['last', 'mean', 'cls'] as const;
export type Pooling = (typeof poolings)[number];
/** rank: one value that the model's classification head makes of the first token's state. */
export type RequestPooling = Pooling | 'rank';

/** What every API's request becomes. */
export interface GenerateRequest {
  readonly promptIds: readonly number[];
  /** RunnerInfo.modelIdentity of the model whose tokenizer made promptIds. Another model would misread them. */
  readonly modelIdentity: string;
  /** Tokens to generate, those of `resumeFrom` included. A full context may end the answer earlier. */
  readonly maxTokens: number;
  /** No stop id is sampled before this many tokens. */
  readonly minTokens: number;
  readonly stopIds: readonly number[];
  readonly sampling: SamplingParams;
  /** Asks for log-probabilities: each token's own and those of this many most likely ones. Absent: none. */
  readonly topLogprobs?: number;
  /** The same for the prompt's own tokens, from the second on. */
  readonly promptLogprobs?: number;
  /** KV cache blocks are shared only among requests with the same salt. At most 32 bytes. */
  readonly cacheSalt: Uint8Array;
  /** Absent: the answer may be anything. With a grammar, stopIds must not be empty and vocabulary must be set. */
  readonly grammar?: Grammar;
  /** The spellings of the model's tokens. A runner needs them before its first grammar. */
  readonly vocabulary?: VocabularyFrames;
  /** Absent: the thinking may be as long as the answer. */
  readonly thinkingLimit?: ThinkingLimit;
  /** If set, the answer is one vector of the prompt and no tokens, and the fields about tokens are ignored. */
  readonly pooling?: RequestPooling;
  /** With a pooling, the index of the first token of the second type; absent: all tokens are of the first type. */
  readonly secondTypeFrom?: number;
  /** Milliseconds since 1970 after which nobody wants the answer; absent: only the server's own limit holds. */
  readonly deadlineMs?: number;
  /** The beginning of an answer that another gateway process has generated; absent: the answer begins here. */
  readonly resumeFrom?: ResumePoint;
  /** The API whose routes the request came by, for metrics: one of a few names. */
  readonly api?: string;
  /** Whose share of the runners the request takes; absent: that of ANONYMOUS. */
  readonly caller?: Caller;
  /** Requests of one caller are computed in this order, lower first; absent: 0. It gains nothing against other callers. */
  readonly priority?: number;
  /** The span that the request is a part of, of a recorded trace; absent: none. */
  readonly trace?: { readonly traceId: string; readonly spanId: string };
}

export interface TokenLogprobs {
  readonly logprob: number;
  readonly topIds: readonly number[];
  readonly topLogprobs: readonly number[];
}

/** Whether models of this architecture make vectors of texts and write none. */
export function isEncoder(architecture: string): boolean {
  return architecture === 'bert' || architecture === 'nomic-bert';
}

/** How a request came to its first token. */
export interface FirstOutput {
  /** Tokens of the prompt that were found in the KV cache and not computed. */
  readonly numCachedTokens: number;
  /** Microseconds from the admission until the first step that computed for the request. */
  readonly queuedUs: number;
  /** Microseconds from then to the first token, by the runner's clock. */
  readonly prefillUs: number;
}

/** Tokens that came with one step, or that were buffered while their consumer was paused. */
export interface TokenBatch {
  /** Index in the answer of the first of tokenIds, from 0. Batches leave no gaps. */
  readonly firstIndex: number;
  readonly tokenIds: readonly number[];
  /** One entry for each token if the request asked for them, else absent. */
  readonly logprobs?: readonly TokenLogprobs[];
  /** The vector of a request with a pooling, not normalized; set on its only batch, which has no tokens. */
  readonly embedding?: Float32Array;
  /** Set on the first batch. It describes the runner that began the answer, even if another one goes on with it. */
  readonly first?: FirstOutput;
  /**
   * Log-probabilities of the prompt's tokens from the second on; set on the first batch if the request asked for them and
   * there are any.
   */
  readonly promptLogprobs?: readonly TokenLogprobs[];
  /**
   * Numerics id of a runner that continues the answer with other arithmetic. The tokens may then differ from an uninterrupted
   * answer's.
   */
  readonly continuedBy?: string;
  /** These are the first tokens since another runner took over an answer that had begun. */
  readonly isResumed?: true;
  /**
   * Set on the last batch. 'stop_id': the last token is one of stopIds, or the batch has the embedding. 'max_tokens':
   * maxTokens is reached or the context is full. 'time_limit': only a TextStream or a token log gives it, in place of the
   * error TIMEOUT.
   */
  readonly finish?: 'stop_id' | 'max_tokens' | 'time_limit';
}

export const generationErrorCodes = [
  'INVALID_REQUEST',
  'CANCELLED',
  'TIMEOUT',
  'OUT_OF_MEMORY',
  'QUEUE_FULL',
  'NOT_READY',
  'INFERENCE_FAILED',
  'GRAMMAR_FAILED',
  'RUNNER_CRASHED',
] as const;
export type GenerationErrorCode = (typeof generationErrorCodes)[number];

export class GenerationError extends Error {
  override readonly name = 'GenerationError';
  readonly code: GenerationErrorCode;
  /** Whether sending the same request again can help. */
  readonly retriable: boolean;
  /** Seconds after which a retry may succeed; undefined if waiting does not help. */
  readonly retryAfterSec: number | undefined;

  constructor(
    code: GenerationErrorCode,
    message: string,
    options: { retriable: boolean; retryAfterSec?: number | undefined; cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.code = code;
    this.retriable = options.retriable;
    this.retryAfterSec = options.retryAfterSec;
  }
}

/** The error that a consumer gets when somebody else has cancelled its request. */
export function cancelled(): GenerationError {
  return new GenerationError('CANCELLED', 'The request was cancelled.', { retriable: false });
}

/**
 * starting: no runner has been ready yet. ready: requests are computed. recovering: the runner died or is being replaced, and
 * another one is coming; requests wait, unless too many starts have failed. failed: no runner comes until something changes
 * or time has passed; `reason` says what. stopping: the server drains.
 */
export type RunnerState = 'starting' | 'ready' | 'recovering' | 'failed' | 'stopping';

/**
 * Facts about the runner that is ready now, or was last. In the status of several runners, blocks and bytes are sums over
 * all.
 */
export interface RunnerInfo {
  readonly kind: string;
  readonly build: string;
  readonly numericsId: string;
  /** How the runner has confined itself: `landlock+mdwe+seccomp`, or what is missing and why; empty: the runner did not say. */
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
  /** The part of them that all runners of the model share. */
  readonly sharedWeightsBytes: number;
  readonly kvCacheBytes: number;
  /** Type of the KV cache's elements: f16, f32 or q8_0. */
  readonly kvCacheType: string;
  /** Number of values in an embedding; 0: the runner makes no embeddings. */
  readonly embeddingSize: number;
  /** Whether the model has a classification head, which scores pairs of texts. */
  readonly scoresPairs: boolean;
  /** GPUs or processes that compute the model together; bytes are those of all. */
  readonly numRanks: number;
}

/** Another model takes over: the requests open with the old one are finished first, then the new one is loaded. */
export interface ModelChange {
  readonly phase: 'draining' | 'loading';
  /** Both names as clients use them. */
  readonly from: string;
  readonly to: string;
}

/** Which backend the settings ask for, and whether another one computes. */
export interface BackendStatus {
  readonly requested: 'auto' | 'cpu' | 'cuda';
  /** The CPU computes because CUDA was requested and cannot. */
  readonly isFallback: boolean;
  /** A sentence that says why the CPU computes, where CUDA might. */
  readonly reason?: string;
  /** Milliseconds until CUDA is probed again; absent: it is not probed. */
  readonly looksAgainInMs?: number;
}

export interface SingleRunnerStatus {
  readonly state: Exclude<RunnerState, 'stopping'>;
  /** A sentence, when the state is not ready. */
  readonly reason: string | undefined;
  readonly pid: number | undefined;
  /** Runner processes started in this place after the first one. */
  readonly restarts: number;
  readonly openRequests: number;
  /** 0 to 1 while its model loads. */
  readonly loadProgress: number | undefined;
  readonly numFreeBlocks: number | undefined;
  /** Memory and blocks are this runner's own. */
  readonly info: RunnerInfo | undefined;
}

export interface RunnerStatus {
  /** Ready as long as one of the runners is. */
  readonly state: RunnerState;
  /** A sentence, when the state is not ready. */
  readonly reason: string | undefined;
  /** Process id of the runner; of several, one that is in the state above. Undefined while there is none. */
  readonly pid: number | undefined;
  /** Runner processes started after the first one of each place. */
  readonly restarts: number;
  readonly openRequests: number;
  /** Absent while no other model takes over. */
  readonly modelChange?: ModelChange;
  /** Absent where only one backend is possible. */
  readonly backend?: BackendStatus;
  readonly openTokens: number;
  /** 0 to 1 while a model loads. */
  readonly loadProgress: number | undefined;
  /** Seconds until a retry of a refused request is worthwhile; undefined in the state ready, and if waiting does not help. */
  readonly retryAfterSec: number | undefined;
  readonly info: RunnerInfo | undefined;
  /** Free blocks of the KV cache by the last heartbeat, about a second old at most; undefined while no runner serves. */
  readonly numFreeBlocks: number | undefined;
  /** The last Stats of the runners that serve; undefined while none serves, and until the first Stats. */
  readonly stats: SchedulerStats | undefined;
  /** Sums over all runner processes so far. */
  readonly counters: SchedulerCounters;
  /** The status of each runner, by index; absent if there is only one. */
  readonly runners?: readonly SingleRunnerStatus[];
}

/** When the parts of one answer came. All times are of one clock, in milliseconds. */
export class AnswerTimes {
  readonly admittedMs: number;
  first: FirstOutput | undefined;
  /** When the first tokens came, and how many these were. */
  firstMs: number | undefined;
  numFirstTokens = 0;
  /** When the last tokens came, and the time between them and those before. */
  lastMs = 0;
  gapMs: number | undefined;
  /** The time in which the answer waited for another runner to continue it. */
  resumePauseMs = 0;
  endMs: number | undefined;

  constructor(admittedMs: number) {
    this.admittedMs = admittedMs;
  }

  onTokens(
    { first, tokenIds, isResumed }: Pick<TokenBatch, 'first' | 'tokenIds' | 'isResumed'>,
    nowMs: number,
  ): void {
    if (first !== undefined) this.first ??= first;
    if (tokenIds.length === 0) return;
    if (this.firstMs === undefined) {
      this.firstMs = nowMs;
      this.numFirstTokens = tokenIds.length;
    } else {
      this.gapMs = nowMs - this.lastMs;
      if (isResumed) this.resumePauseMs += this.gapMs;
    }
    this.lastMs = nowMs;
  }
}

/** Gets the answer to a request, in the turn of the event loop in which it arrives, and never before generate() has returned. */
export interface TokenSink {
  /** The last batch has `finish`; nothing comes after it. */
  onTokens(batch: TokenBatch): void;
  /** Comes in place of a batch with `finish`; nothing comes after it. */
  onError(error: GenerationError): void;
  /** A runner has taken the request, for the first time or again. It may come within generate(). */
  onTaken?(): void;
  /** The runner with the request has died or is being replaced, and another one will get it. */
  onLost?(): void;
}

/**
 * Why a consumer wants no more. enough: the consumer needs no further tokens, for example because a stop string has come. parked:
 * another request asks for the rest.
 */
export type CancelReason = 'cancelled' | 'enough' | 'parked';

/** The consumer's control over an open request. After the end of the request these calls do nothing. */
export interface GenerationHandle {
  /** The sink gets nothing more. */
  cancel(reason?: CancelReason): void;
  /** Tokens are buffered until resume(). Above the bounds of token-stream.ts the runner is asked to pause the request. */
  pause(): void;
  /** The sink gets all buffered tokens as one batch before this returns. */
  resume(): void;
  /** Undefined for a request that is not observed. */
  readonly times?: AnswerTimes;
}

export interface Runner {
  /**
   * Takes the request, or throws GenerationError at once. The sink gets the tokens as they come. A paused sink pauses only
   * its own request.
   */
  generate(request: GenerateRequest, sink: TokenSink): GenerationHandle;
  /**
   * Throws the GenerationError that one of these requests would get if all came now; takes none of them. It serves several
   * requests that shall begin together or not at all. The result holds until the end of this turn of the event loop.
   */
  assertCapacity(requests: readonly GenerateRequest[]): void;
  /**
   * Throws the GenerationError that any request of the caller would get now. Routes can call it before they read a body.
   * caller: ANONYMOUS by default.
   */
  assertAcceptsRequests(caller?: Caller): void;
  status(): RunnerStatus;
}
