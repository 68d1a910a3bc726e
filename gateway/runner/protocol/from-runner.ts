/**
 * A runner's messages (proto/runner.proto) as the gateway's own types, decoded from protobuf. Every limit that one message alone
 * can break is checked here; client.ts checks the rest, which depends on earlier messages.
 */
import type Long from 'long';
import { Reader } from 'protobufjs/minimal.js';
import { escapeControls, snakeCase } from '../../system/printable.ts';
import type { FirstOutput, TokenLogprobs } from '../runner.ts';
import { ProtocolError } from './frame.ts';
import { runner } from './proto/runner.js';
import { countersOf } from './scheduler-stats.ts';

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
const maxRanks = 16;
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

export type FromRunner = Notice | Step | PromptLogprobs | Embedding | RequestError;

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

/** Reads a field from what protobufjs has decoded. name: the field's in the schema, for errors. */
type ReadField<Sent, Value> = (sent: Sent | null | undefined, name: string) => Value;

type Fields = Readonly<Record<string, ReadField<never, unknown>>>;

/** A function that reads a message of these fields. name: the message's in the schema. */
function reader<Type extends string, Of extends Fields>(type: Type, name: string, fields: Of) {
  const readers = Object.entries(fields).map(
    ([key, read]) => [key, `${name}.${snakeCase(key)}`, read as ReadField<unknown, unknown>] as const,
  );
  type Sent = { readonly [Key in keyof Of]?: Parameters<Of[Key]>[0] };
  type Read = { readonly type: Type } & { readonly [Key in keyof Of]: ReturnType<Of[Key]> };
  return (sent: Sent): Read => {
    const values = readers.map(([key, path, read]) => [key, read(sent[key], path)] as const);
    return { type, ...Object.fromEntries(values) } as Read;
  };
}

/** A number of at most 32 bits. With a least value above 0 the field is required. */
function whole(least = 0, most = 2 ** 32 - 1): ReadField<number, number> {
  return (sent, name) => {
    const number = atLeast(least, name, sent);
    check(number <= most, name, number, `at most ${most}`);
    return number;
  };
}

const blockSize: ReadField<number, number> = (sent, name) => {
  const size = sent ?? 0;
  const isGood = size >= 8 && size <= 256 && (size & (size - 1)) === 0;
  check(isGood, name, size, 'a power of two from 8 to 256');
  return size;
};

/** Absent: zero. */
const descriptor: ReadField<number, number | undefined> = (sent, name) => {
  const number = sent ?? 0;
  if (number === 0) return undefined;
  check(number >= 3 && number <= maxDescriptor, name, number, `3 to ${maxDescriptor}`);
  return number;
};

/** Absent: one. */
const ranks: ReadField<number, number> = (sent, name) => Math.max(1, whole(0, maxRanks)(sent, name));

/** A string for people or for comparison. Control characters are escaped, so it can be shown as it is. */
function text(maxBytes: number, isRequired = false): ReadField<string, string> {
  return (sent, name) => {
    const string = sent ?? '';
    const numBytes = Buffer.byteLength(string);
    check(numBytes <= maxBytes, `the length of ${name}`, numBytes, `at most ${maxBytes} bytes`);
    if (isRequired) checkSet(string, name);
    return escapeControls(string);
  };
}

/** A member of an enumeration whose members, except zero, are all known to the gateway. */
function member<Value>(values: Readonly<Record<number, Value>>): ReadField<number, Value> {
  return (sent, name) => {
    const value = values[sent ?? 0];
    if (value !== undefined) return value;
    throw new ProtocolError('field', `The runner sent ${sent ?? 0} as ${name}, which has no such value.`);
  };
}

/** A count of bytes or steps. Inexact from 2^53 on, which no honest counter reaches. */
function counter(sent: Long | number | null | undefined): number {
  return typeof sent === 'object' && sent !== null ? sent.toNumber() : (sent ?? 0);
}

function optionalCounter(sent: Long | number | null | undefined): number | undefined {
  return sent == null ? undefined : counter(sent);
}

function check(isGood: boolean, name: string, value: string | number, limit: string): void {
  if (!isGood) throw new ProtocolError('field', `The runner sent ${value} as ${name}; it must be ${limit}.`);
}

function checkSet(string: string, name: string): void {
  check(string !== '', name, 'nothing', 'set');
}

function atLeast(least: number, name: string, sent: number | null | undefined): number {
  const number = sent ?? 0;
  check(number >= least, name, number, `at least ${least}`);
  return number;
}

const helloFields = reader('hello', 'Hello', {
  protocolVersion: whole(1),
  kind: text(64),
  build: text(256),
  numericsId: text(256),
  /** For people; empty: the runner did not say. */
  sandbox: text(512),
});
export type Hello = ReturnType<typeof helloFields>;

function readHello(sent: runner.v1.Hello.$Properties): Hello {
  const hello = helloFields(sent);
  // In another protocol version only the version number is sure to have the same meaning, and it must reach the comparison in
  // client.ts.
  if (hello.protocolVersion !== protocolVersion) return hello;
  checkSet(hello.kind, 'Hello.kind');
  checkSet(hello.numericsId, 'Hello.numerics_id');
  return hello;
}

const readLoadProgress = reader('load_progress', 'LoadProgress', {
  loadedBytes: counter,
  /** 0: not known yet. */
  totalBytes: counter,
});

/** What a runner reports about itself and its model once it is ready: RunnerInfo without what Hello has. */
const readyFields = reader('ready', 'Ready', {
  modelIdentity: text(256, true),
  architecture: text(64, true),
  device: text(256),
  vocabSize: whole(1, maxVocabSize),
  maxModelLen: whole(2),
  maxNumSeqs: whole(1),
  maxNumBatchedTokens: whole(1),
  blockSize,
  numBlocks: whole(1),
  weightsBytes: counter,
  sharedWeightsBytes: counter,
  /** The runner's descriptor of the weights that it has packed for others; undefined: it offers none. */
  weightsDescriptor: descriptor,
  kvCacheBytes: counter,
  kvCacheType: text(64, true),
  embeddingSize: whole(0, maxEmbeddingSize),
  scoresPairs: (sent: boolean | null | undefined) => sent === true,
  /** Of the arithmetic with this model; empty: that of Hello. */
  numericsId: text(256),
  numRanks: ranks,
});
export type Ready = ReturnType<typeof readyFields>;

function readReady(sent: runner.v1.Ready.$Properties): Ready {
  const ready = readyFields(sent);
  const { sharedWeightsBytes, weightsBytes } = ready;
  const arePart = sharedWeightsBytes <= weightsBytes;
  check(arePart, 'Ready.shared_weights_bytes', sharedWeightsBytes, `at most ${weightsBytes}`);
  return ready;
}

const readStats = reader('stats', 'Stats', {
  numWaiting: whole(),
  numRunning: whole(),
  numPaused: whole(),
  ...countersOf(() => counter),
  numFreeBlocks: whole(),
  numReusableBlocks: whole(),
  memoryBytes: counter,
});
export type Stats = ReturnType<typeof readStats>;

const readHeartbeat = reader('heartbeat', 'Heartbeat', {
  phase: member(phases),
  step: counter,
  numRequests: whole(),
  numFreeBlocks: whole(),
});
export type Heartbeat = ReturnType<typeof readHeartbeat>;

const readRequestError = reader('request_error', 'RequestError', {
  requestId: whole(1),
  code: member(errorCodes),
  message: text(maxSentenceBytes),
});
export type RequestError = ReturnType<typeof readRequestError>;

const readFailure = reader('failure', 'Failure', {
  exitCode: whole(1),
  message: text(maxSentenceBytes),
  /** The device that the model could not be loaded for; empty: the runner did not say. */
  device: text(256),
  /** Set only where memory was missing; availableBytes may be unknown even then. */
  requiredBytes: optionalCounter,
  availableBytes: optionalCounter,
});
export type Failure = ReturnType<typeof readFailure>;

/** What a runner says of itself. All its other messages are about requests. */
export type Notice = Hello | ReturnType<typeof readLoadProgress> | Ready | Heartbeat | Stats | Failure;

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
    firsts.set(requestId, readFirst(entry));
  }
  return firsts;
}

function readFirst(sent: Omit<runner.v1.FirstOutput.$Properties, 'requestId'>): FirstOutput {
  return {
    numCachedTokens: sent.numCachedTokens ?? 0,
    queuedUs: counter(sent.queuedUs),
    prefillUs: counter(sent.prefillUs),
  };
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
    first: readFirst(embedding),
  };
}
