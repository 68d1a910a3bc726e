/**
 * What the rest of the gateway knows of a runner: ask for tokens, read them in batches, see how it is. The supervisor
 * is the real one; tests pass a fake. Crashes do not show here: a stream pauses and goes on.
 */

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
  /** 0 to 2^64 - 1. */
  readonly seed: bigint;
}

/** Whatever API a request came by, it is turned into one of these. */
export interface GenerateRequest {
  readonly promptIds: readonly number[];
  /** RunnerInfo.modelIdentity of the model whose tokenizer made promptIds; another one would misread them. */
  readonly modelIdentity: string;
  /** Tokens to generate; the context may end it earlier. */
  readonly maxTokens: number;
  readonly stopIds: readonly number[];
  readonly sampling: SamplingParams;
  /** Log-probabilities of each token and of this many most likely ones; absent: none. */
  readonly topLogprobs?: number;
  /** Milliseconds since 1970 after which nobody wants the answer any more; absent: only the server's own limit holds. */
  readonly deadlineMs?: number;
}

export interface TokenLogprobs {
  readonly logprob: number;
  readonly topIds: readonly number[];
  readonly topLogprobs: readonly number[];
}

/** Tokens that arrived since the last batch was taken. */
export interface TokenBatch {
  /** Index of the first of tokenIds in the answer, from 0, without gaps. */
  readonly firstIndex: number;
  readonly tokenIds: readonly number[];
  /** As many as tokenIds if the request asked, else absent. */
  readonly logprobs?: readonly TokenLogprobs[];
  /** Set on the last batch. 'stop_id': its last token is one of stopIds. 'max_tokens': also when the context is full. */
  readonly finish?: 'stop_id' | 'max_tokens';
}

export type GenerationErrorCode =
  | 'INVALID_REQUEST'
  | 'CANCELLED'
  | 'TIMEOUT'
  | 'OUT_OF_MEMORY'
  | 'QUEUE_FULL'
  | 'NOT_READY'
  | 'INFERENCE_FAILED'
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

/**
 * starting: no runner has been ready yet. ready: takes requests. recovering: the runner died and another is coming;
 * requests wait. failed: no runner will come until something changes, or time has passed; `reason` says what. stopping: draining.
 */
export type RunnerState = 'starting' | 'ready' | 'recovering' | 'failed' | 'stopping';

/** Facts of the runner that is ready now, or was last. */
export interface RunnerInfo {
  readonly kind: string;
  readonly build: string;
  readonly numericsId: string;
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
}

export interface RunnerStatus {
  readonly state: RunnerState;
  /** A sentence, when the state is not ready. */
  readonly reason: string | undefined;
  /** Process id of the runner, while there is one. */
  readonly pid: number | undefined;
  /** Runner processes started after the first. */
  readonly restarts: number;
  readonly openRequests: number;
  /** 0 to 1 while a model loads. */
  readonly loadProgress: number | undefined;
  /** Seconds after which a request that is not taken now may be; undefined when it is taken, or waiting cannot help. */
  readonly retryAfterSec: number | undefined;
  readonly info: RunnerInfo | undefined;
  /** Blocks of the KV cache nobody uses, as last heard, at most a second or so ago; undefined while no runner serves. */
  readonly numFreeBlocks: number | undefined;
}

export interface Runner {
  /**
   * Takes the request, or throws GenerationError at once. Gives the tokens of the answer as they come; the iteration
   * ends after the batch with `finish`, and throws GenerationError instead if there is no such batch. Aborting the
   * signal cancels: the iteration then throws CANCELLED. Leaving the loop early cancels too. A consumer that does not
   * read pauses its own request only.
   */
  generate(request: GenerateRequest, signal: AbortSignal): AsyncIterable<TokenBatch>;
  status(): RunnerStatus;
}
