/**
 * A runner's messages (proto/runner.proto) as the gateway's own types, decoded from protobuf. Every limit that one message alone
 * can break is checked here; client.ts checks the rest, which depends on earlier messages.
 */
import type Long from 'long';
import { Reader } from 'protobufjs/minimal.js';
import { escapeControls } from '../../system/printable.ts';
import type { FirstOutput } from '../answer-times.ts';
import type { RunnerInfo, TokenLogprobs } from '../runner.ts';
import { ProtocolError } from './frame.ts';
import { runner } from './proto/runner.js';
import { countersOf, type SchedulerStats } from './scheduler-stats.ts';

const { v1 } = runner;

export const protocolVersion = 3;

/** Protobuf's wire type of embedded messages. */
const lengthDelimited = 2;

const maxOutputTokens = 64;
const maxTopLogprobs = 20;
const maxPromptLogprobs = 256;
const maxVocabSize = 2 ** 24;
const maxEmbeddingSize = 2 ** 16;
const maxDescriptor = 2 ** 20;
const maxSentenceBytes = 4096;

const finishReasons: ReadonlyMap<number, Output['finish']> = new Map([
  [v1.FinishReason.FINISH_REASON_UNSPECIFIED, undefined],
  [v1.FinishReason.FINISH_REASON_STOP_ID, 'stop_id'],
  [v1.FinishReason.FINISH_REASON_MAX_TOKENS, 'max_tokens'],
]);

/** What a runner's stepping thread was last seen to begin. */
export type Phase = 'loading' | 'idle' | 'prefill' | 'decode' | 'mixed' | 'compiling';

/** Maps every member of the schema's enumeration: a member that is added there and not here does not compile. */
const phases: Readonly<Record<Exclude<runner.v1.Phase, 0>, Phase>> = {
  [v1.Phase.PHASE_LOADING]: 'loading',
  [v1.Phase.PHASE_IDLE]: 'idle',
  [v1.Phase.PHASE_PREFILL]: 'prefill',
  [v1.Phase.PHASE_DECODE]: 'decode',
  [v1.Phase.PHASE_MIXED]: 'mixed',
  [v1.Phase.PHASE_COMPILING]: 'compiling',
};

/** Maps every member of the schema's enumeration, as `phases` does. */
const errorCodes = {
  [v1.ErrorCode.ERROR_CODE_INVALID_REQUEST]: 'INVALID_REQUEST',
  [v1.ErrorCode.ERROR_CODE_CANCELLED]: 'CANCELLED',
  [v1.ErrorCode.ERROR_CODE_OUT_OF_MEMORY]: 'OUT_OF_MEMORY',
  [v1.ErrorCode.ERROR_CODE_QUEUE_FULL]: 'QUEUE_FULL',
  [v1.ErrorCode.ERROR_CODE_DRAINING]: 'DRAINING',
  [v1.ErrorCode.ERROR_CODE_INFERENCE_FAILED]: 'INFERENCE_FAILED',
  [v1.ErrorCode.ERROR_CODE_GRAMMAR_FAILED]: 'GRAMMAR_FAILED',
} as const satisfies Record<Exclude<runner.v1.ErrorCode, 0>, string>;

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

/** Throws ProtocolError if the bytes are not protobuf, do not hold exactly one known member, or break a limit. */
export function decodeFromRunner(bytes: Uint8Array): FromRunner {
  if (bytes.length > 0) requireOneMember(bytes);
  const message = decodeWire(bytes);
  if (message.hello) return readHello(message.hello);
  if (message.loadProgress) return readLoadProgress(message.loadProgress);
  if (message.ready) return readReady(message.ready);
  if (message.step) return readStep(message.step);
  if (message.promptLogprobs) return readPromptLogprobs(message.promptLogprobs);
  if (message.embedding) return readEmbedding(message.embedding);
  if (message.stats) return readStats(message.stats);
  if (message.heartbeat) return readHeartbeat(message.heartbeat);
  if (message.requestError) return readRequestError(message.requestError);
  if (message.failure) return readFailure(message.failure);
  throw new ProtocolError('empty', 'A frame holds no message that this version of the protocol knows.');
}

/**
 * Refuses a frame with more than one member. protobuf accepts any number, decodes them all and keeps the last one. The length
 * of the first member shows whether it reaches to the end of the frame.
 */
function requireOneMember(bytes: Uint8Array): void {
  let end: number;
  try {
    const reader = Reader.create(bytes);
    const wireType = reader.uint32() & 7;
    if (wireType !== lengthDelimited) throw new RangeError(`wire type ${wireType}`);
    const length = reader.uint32();
    end = reader.pos + length;
  } catch (error) {
    throw new ProtocolError('garbage', 'A frame is not a protobuf message.', { cause: error });
  }
  if (end < bytes.length) throw new ProtocolError('garbage', 'A frame holds more than one message.');
}

function decodeWire(bytes: Uint8Array): runner.v1.FromRunner {
  try {
    return v1.FromRunner.decode(bytes);
  } catch (error) {
    throw new ProtocolError('garbage', 'A frame is not a protobuf message.', { cause: error });
  }
}

export type Hello = Readonly<ReturnType<typeof readHello>>;

function readHello(hello: runner.v1.Hello.$Properties) {
  const version = atLeast(1, 'Hello.protocol_version', hello.protocolVersion);
  // In another protocol version only the version number is sure to have the same meaning, and it must reach the comparison in
  // client.ts.
  const required = version === protocolVersion;
  return {
    type: 'hello' as const,
    protocolVersion: version,
    kind: text('Hello.kind', hello.kind, 64, { required }),
    build: text('Hello.build', hello.build, 256),
    numericsId: text('Hello.numerics_id', hello.numericsId, 256, { required }),
    /** For people; empty: the runner did not say. */
    sandbox: text('Hello.sandbox', hello.sandbox, 512),
  };
}

export type LoadProgress = Readonly<ReturnType<typeof readLoadProgress>>;

function readLoadProgress(progress: runner.v1.LoadProgress.$Properties) {
  return {
    type: 'load_progress' as const,
    loadedBytes: counter(progress.loadedBytes),
    /** 0: not known yet. */
    totalBytes: counter(progress.totalBytes),
  };
}

/** What a runner reports about itself and its model once it is ready. Hello has the fields left out here. */
export type Ready = {
  readonly type: 'ready';
  /** The runner's descriptor of the weights that it has packed for others; undefined: it offers none. */
  readonly weightsDescriptor?: number;
} & Omit<RunnerInfo, 'kind' | 'build' | 'numericsId' | 'sandbox'>;

function readReady(ready: runner.v1.Ready.$Properties): Ready {
  const vocabSize = atLeast(1, 'Ready.vocab_size', ready.vocabSize);
  check(vocabSize <= maxVocabSize, 'Ready.vocab_size', vocabSize, `at most ${maxVocabSize}`);
  const embeddingSize = ready.embeddingSize ?? 0;
  check(
    embeddingSize <= maxEmbeddingSize,
    'Ready.embedding_size',
    embeddingSize,
    `at most ${maxEmbeddingSize}`,
  );
  const blockSize = ready.blockSize ?? 0;
  const isBlockSize = blockSize >= 8 && blockSize <= 256 && (blockSize & (blockSize - 1)) === 0;
  check(isBlockSize, 'Ready.block_size', blockSize, 'a power of two from 8 to 256');
  const weightsBytes = counter(ready.weightsBytes);
  const sharedWeightsBytes = counter(ready.sharedWeightsBytes);
  const arePart = sharedWeightsBytes <= weightsBytes;
  check(arePart, 'Ready.shared_weights_bytes', sharedWeightsBytes, `at most ${weightsBytes}`);
  const weightsDescriptor = ready.weightsDescriptor ?? 0;
  const isDescriptor =
    weightsDescriptor === 0 || (weightsDescriptor >= 3 && weightsDescriptor <= maxDescriptor);
  check(isDescriptor, 'Ready.weights_descriptor', weightsDescriptor, `3 to ${maxDescriptor}`);
  return {
    type: 'ready',
    modelIdentity: text('Ready.model_identity', ready.modelIdentity, 256, { required: true }),
    architecture: text('Ready.architecture', ready.architecture, 64, { required: true }),
    device: text('Ready.device', ready.device, 256),
    vocabSize,
    maxModelLen: atLeast(2, 'Ready.max_model_len', ready.maxModelLen),
    maxNumSeqs: atLeast(1, 'Ready.max_num_seqs', ready.maxNumSeqs),
    maxNumBatchedTokens: atLeast(1, 'Ready.max_num_batched_tokens', ready.maxNumBatchedTokens),
    blockSize,
    numBlocks: atLeast(1, 'Ready.num_blocks', ready.numBlocks),
    weightsBytes,
    sharedWeightsBytes,
    ...(weightsDescriptor === 0 ? {} : { weightsDescriptor }),
    kvCacheBytes: counter(ready.kvCacheBytes),
    kvCacheType: text('Ready.kv_cache_type', ready.kvCacheType, 64, { required: true }),
    embeddingSize,
  };
}

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

function readStep(step: runner.v1.Step.$Properties): Step {
  const number = counter(step.step);
  check(number >= 1, 'Step.step', number, 'at least 1');
  const firsts = readFirstOutputs(step.firstOutputs ?? []);
  const outputs = (step.outputs ?? []).map((output) => readOutput(output, firsts));
  const [requestId] = firsts.keys();
  check(
    requestId === undefined,
    'FirstOutput.request_id',
    requestId ?? 0,
    'the id of an output in the same step',
  );
  return { type: 'step', step: number, outputs };
}

function readFirstOutputs(entries: readonly runner.v1.FirstOutput.$Properties[]): Map<number, FirstOutput> {
  const firsts = new Map<number, FirstOutput>();
  for (const entry of entries) {
    const requestId = atLeast(1, 'FirstOutput.request_id', entry.requestId);
    check(!firsts.has(requestId), 'FirstOutput.request_id', requestId, 'sent at most once in a step');
    firsts.set(requestId, {
      numCachedTokens: entry.numCachedTokens ?? 0,
      queuedUs: counter(entry.queuedUs),
      prefillUs: counter(entry.prefillUs),
    });
  }
  return firsts;
}

/** Removes the entry that it uses from firsts. */
function readOutput(output: runner.v1.Output.$Properties, firsts: Map<number, FirstOutput>): Output {
  const requestId = atLeast(1, 'Output.request_id', output.requestId);
  const first = firsts.get(requestId);
  firsts.delete(requestId);
  const tokenIds = output.tokenIds ?? [];
  const logprobs = output.logprobs ?? [];
  const reason = output.finishReason ?? 0;
  const isGood = tokenIds.length >= 1 && tokenIds.length <= maxOutputTokens;
  check(isGood, 'the number of Output.token_ids', tokenIds.length, `1 to ${maxOutputTokens}`);
  check(finishReasons.has(reason), 'Output.finish_reason', reason, 'a known reason');
  const finish = finishReasons.get(reason);
  const plain = { requestId, firstIndex: output.firstIndex ?? 0, tokenIds };
  if (first === undefined && finish === undefined && logprobs.length === 0) return plain;
  return {
    ...plain,
    ...(first === undefined ? {} : { first }),
    ...(finish === undefined ? {} : { finish }),
    ...(logprobs.length === 0 ? {} : { logprobs: logprobs.map(readLogprobs) }),
  };
}

function readLogprobs(entry: runner.v1.TokenLogprobs.$Properties): TokenLogprobs {
  const logprob = entry.logprob ?? 0;
  const topIds = entry.topIds ?? [];
  const topLogprobs = entry.topLogprobs ?? [];
  check(
    topIds.length <= maxTopLogprobs,
    'the number of TokenLogprobs.top_ids',
    topIds.length,
    `at most ${maxTopLogprobs}`,
  );
  check(
    topLogprobs.length === topIds.length,
    'the number of top_logprobs',
    topLogprobs.length,
    'that of top_ids',
  );
  const values = [logprob, ...topLogprobs];
  check(!values.some(Number.isNaN), 'a log-probability', Number.NaN, 'a number');
  return { logprob, topIds, topLogprobs };
}

export type PromptLogprobs = Readonly<ReturnType<typeof readPromptLogprobs>>;

function readPromptLogprobs(frame: runner.v1.PromptLogprobs.$Properties) {
  const logprobs = frame.logprobs ?? [];
  const isGood = logprobs.length >= 1 && logprobs.length <= maxPromptLogprobs;
  check(isGood, 'the number of PromptLogprobs.logprobs', logprobs.length, `1 to ${maxPromptLogprobs}`);
  return {
    type: 'prompt_logprobs' as const,
    requestId: atLeast(1, 'PromptLogprobs.request_id', frame.requestId),
    /** Index in the prompt of the first token in this frame. */
    firstIndex: atLeast(1, 'PromptLogprobs.first_index', frame.firstIndex),
    logprobs: logprobs.map(readLogprobs),
  };
}

export type Embedding = Readonly<ReturnType<typeof readEmbedding>>;

function readEmbedding(embedding: runner.v1.Embedding.$Properties) {
  const values = Float32Array.from(embedding.values ?? []);
  const at = values.findIndex((value) => !Number.isFinite(value));
  if (at >= 0) check(false, `Embedding.values[${at}]`, values[at] as number, 'a finite number');
  return {
    type: 'embedding' as const,
    requestId: atLeast(1, 'Embedding.request_id', embedding.requestId),
    values,
    /** As for tokens; prefillUs ends when the vector is computed. */
    first: {
      numCachedTokens: embedding.numCachedTokens ?? 0,
      queuedUs: counter(embedding.queuedUs),
      prefillUs: counter(embedding.prefillUs),
    },
  };
}

export type Stats = { readonly type: 'stats' } & SchedulerStats;

function readStats(stats: runner.v1.Stats.$Properties): Stats {
  return {
    type: 'stats',
    numWaiting: stats.numWaiting ?? 0,
    numRunning: stats.numRunning ?? 0,
    numPaused: stats.numPaused ?? 0,
    ...countersOf((name) => counter(stats[name])),
    numFreeBlocks: stats.numFreeBlocks ?? 0,
    numReusableBlocks: stats.numReusableBlocks ?? 0,
    memoryBytes: counter(stats.memoryBytes),
  };
}

export type Heartbeat = Readonly<ReturnType<typeof readHeartbeat>>;

function readHeartbeat(heartbeat: runner.v1.Heartbeat.$Properties) {
  return {
    type: 'heartbeat' as const,
    phase: known(phases, 'Heartbeat.phase', heartbeat.phase),
    step: counter(heartbeat.step),
    numRequests: heartbeat.numRequests ?? 0,
    numFreeBlocks: heartbeat.numFreeBlocks ?? 0,
  };
}

export type RequestError = Readonly<ReturnType<typeof readRequestError>>;

function readRequestError(error: runner.v1.RequestError.$Properties) {
  return {
    type: 'request_error' as const,
    requestId: atLeast(1, 'RequestError.request_id', error.requestId),
    code: known(errorCodes, 'RequestError.code', error.code),
    message: text('RequestError.message', error.message, maxSentenceBytes),
  };
}

export type Failure = Readonly<ReturnType<typeof readFailure>>;

function readFailure(failure: runner.v1.Failure.$Properties) {
  return {
    type: 'failure' as const,
    exitCode: atLeast(1, 'Failure.exit_code', failure.exitCode),
    message: text('Failure.message', failure.message, maxSentenceBytes),
    /** The device that the model could not be loaded for; empty: the runner did not say. */
    device: text('Failure.device', failure.device, 256),
    // Set only where memory was missing; availableBytes may be unknown even then.
    ...(failure.requiredBytes == null ? {} : { requiredBytes: counter(failure.requiredBytes) }),
    ...(failure.availableBytes == null ? {} : { availableBytes: counter(failure.availableBytes) }),
  };
}

/** A count of bytes or steps. Inexact from 2^53 on, which no honest counter reaches. */
function counter(value: Long | number | null | undefined): number {
  return typeof value === 'object' && value !== null ? value.toNumber() : (value ?? 0);
}

function check(isGood: boolean, name: string, value: string | number, limit: string): void {
  if (!isGood) throw new ProtocolError('field', `The runner sent ${value} as ${name}; it must be ${limit}.`);
}

/** A number with a least value above 0. The field is therefore required. */
function atLeast(least: number, name: string, value: number | null | undefined): number {
  const number = value ?? 0;
  check(number >= least, name, number, `at least ${least}`);
  return number;
}

/** A string for people or for comparison. Control characters are escaped, so it can be shown as it is. */
function text(
  name: string,
  value: string | null | undefined,
  maxBytes: number,
  options: { required: boolean } = { required: false },
): string {
  const string = value ?? '';
  const numBytes = Buffer.byteLength(string);
  check(numBytes <= maxBytes, `the length of ${name}`, numBytes, `at most ${maxBytes} bytes`);
  check(numBytes > 0 || !options.required, name, 'nothing', 'set');
  return escapeControls(string);
}

/** A member of an enumeration whose members, except zero, are all known to the gateway. */
function known<Value>(
  values: Readonly<Record<number, Value>>,
  name: string,
  number: number | null | undefined,
): Value {
  const value = values[number ?? 0];
  if (value === undefined) {
    throw new ProtocolError('field', `The runner sent ${number ?? 0} as ${name}, which has no such value.`);
  }
  return value;
}
