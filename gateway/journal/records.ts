import { Packr, Unpackr } from 'msgpackr/pack';
import * as z from 'zod';
import { receiptTerms } from '../generation/receipt.ts';
import type { ThinkingLimitFacts } from '../generation/thinking-families.ts';
import {
  type GenerateRequest,
  GenerationError,
  generationErrorCodes,
  grammarKinds,
  type TokenLogprobs,
} from '../runner/runner.ts';
import { DamagedJob } from './journal-error.ts';
import type { LogEnd, TokenLogContent } from './token-log.ts';

/**
 * What the journal keeps of a job, in MessagePack: the record of the request, pieces of its tokens, whether it is parked, and its
 * end.
 */

export interface EndRecord {
  readonly end: LogEnd;
  /** Milliseconds since 1970. */
  readonly endedMs: number;
}

/**
 * That a process began to compute the job. The job is suspected of killing gateways if the next process finds no token after
 * those that this record counts.
 */
export interface StartRecord {
  /** The tokens that the answer had. */
  readonly numTokens: number;
  /** How many processes in a row began to compute the job after as many tokens, this one included, and did not end it. */
  readonly numStarts: number;
}

/** That the job was parked, or resumed. Absent for a job that never was. */
export interface ParkingRecord {
  readonly isParked: boolean;
  /** Milliseconds since 1970. */
  readonly sinceMs: number;
}

const packr = new Packr({ useRecords: false, variableMapSize: true });
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true });

const uint = z.number().int().nonnegative();
const ids = z.array(uint);
const idAndBias = z.tuple([uint, z.number()]);

const sampling = z.strictObject({
  temperature: z.number(),
  topK: uint,
  topP: z.number(),
  minP: z.number(),
  repetitionPenalty: z.number(),
  presencePenalty: z.number(),
  frequencyPenalty: z.number(),
  logitBias: z.array(idAndBias).transform((pairs) => new Map(pairs)),
  allowedTokenIds: ids,
  bannedTokenIds: ids,
  seed: z
    .string()
    .regex(/^\d{1,20}$/)
    .transform(BigInt),
});

const grammar = z.strictObject({
  kind: z.enum(grammarKinds),
  source: z.string(),
  strict: z.boolean(),
});

/** A Caller on the disk. */
export const callerSchema = z.strictObject({
  name: z.string(),
  shares: z.number().positive(),
  quotas: z
    .strictObject({
      openRequests: uint.exactOptional(),
      queuedTokens: uint.exactOptional(),
      bodyBytes: uint.exactOptional(),
      journalJobs: uint.exactOptional(),
      journalBytes: uint.exactOptional(),
    })
    .exactOptional(),
});

const request = z.strictObject({
  promptIds: ids,
  modelIdentity: z.string(),
  maxTokens: uint,
  minTokens: uint,
  stopIds: ids,
  sampling,
  topLogprobs: uint.exactOptional(),
  promptLogprobs: uint.exactOptional(),
  cacheSalt: z.instanceof(Uint8Array).transform((bytes) => Uint8Array.from(bytes)),
  grammar: grammar.exactOptional(),
  deadlineMs: z.number().exactOptional(),
  api: z.string().exactOptional(),
  caller: callerSchema.exactOptional(),
  priority: z.int().exactOptional(),
  trace: z.strictObject({ traceId: z.string(), spanId: z.string() }).exactOptional(),
});

const thinking = z.strictObject({
  format: z.strictObject({ begin: z.string(), end: z.string() }),
  isOpen: z.boolean(),
});
const thinkingLimit = z.strictObject({ maxTokens: uint, endIds: ids, thinking });
const readThinking = thinking.extend({
  isClosed: z.boolean().exactOptional(),
  isInText: z.boolean().exactOptional(),
  readsCalls: z.boolean().exactOptional(),
});

/** What a job keeps of the header Idempotency-Key and the body of the request that began it. */
const idempotency = z.strictObject({
  /** A digest of the key and its caller: the same key of another caller is another one. */
  key: z.string(),
  body: z.string(),
});
export type Idempotency = Readonly<z.output<typeof idempotency>>;

const jobRecord = z.strictObject({
  /** As in callersOf(). A caller cannot find the jobs of others. */
  caller: z.string(),
  id: z.string(),
  /** Milliseconds since 1970. */
  createdMs: z.number(),
  /** The model's name in the request; undefined for the default model. */
  model: z
    .string()
    .nullable()
    .transform((name) => name ?? undefined),
  /** Model.file. With another file the token ids mean other text. */
  modelFile: z.string(),
  /** The numerics id of the runner that the job was begun for. */
  numericsId: z.string(),
  request,
  /** Absent: what is thought may be as long as the answer. */
  thinkingLimit: thinkingLimit.exactOptional(),
  /** How the answer is read where its stop strings are looked for; absent: all is text. */
  thinking: readThinking.exactOptional(),
  /** The control tokens that are in the text where they are looked for; absent: those of the thinking. */
  markIds: ids.exactOptional(),
  stop: z.array(z.string()),
  /** Whether a time limit ends the job with the tokens it has, as a length limit would. */
  endsAtTimeLimit: z.boolean(),
  /** Absent without an Idempotency-Key. */
  idempotency: idempotency.exactOptional(),
  /** The route that the request came by: its API writes the events. */
  route: z.string(),
  /** The request's body as JSON, with a placeholder for its prompt, which no answer repeats. */
  body: z.string(),
  /** What was said up to the answer, as JSON in its API's words; absent if nobody can continue the answer. */
  history: z.string().exactOptional(),
  /** Of the answer alone: its ids are made from it. */
  uuid: z.string(),
  /** The id of the request; absent where an API has none. */
  requestId: z.string().exactOptional(),
  modelId: z.string(),
  /** Absent: its answer has no receipt. */
  receipt: receiptTerms.exactOptional(),
});

/** All that another process needs to continue a job and to write its events again. */
export interface JobRecord
  extends Readonly<Omit<z.output<typeof jobRecord>, 'request' | 'thinkingLimit' | 'stop'>> {
  /** The request without the fields that another process makes again. */
  readonly request: Omit<GenerateRequest, 'vocabulary' | 'resumeFrom' | 'thinkingLimit'>;
  readonly thinkingLimit?: ThinkingLimitFacts;
  readonly stop: readonly string[];
}

export function packRecord(record: JobRecord): Uint8Array {
  const { model = null, request: asked } = record;
  const { logitBias, seed, ...numbers } = asked.sampling;
  return packr.pack({
    ...record,
    model,
    request: { ...asked, sampling: { ...numbers, logitBias: [...logitBias], seed: String(seed) } },
  });
}

/** Throws if the bytes are not a job record. */
export function unpackRecord(bytes: Uint8Array): JobRecord {
  return jobRecord.parse(unpackr.unpack(bytes));
}

const startRecord = z.strictObject({ n: uint, k: uint });

export function packStart({ numTokens, numStarts }: StartRecord): Uint8Array {
  return packr.pack({ n: numTokens, k: numStarts });
}

/** Throws if the bytes are not a start record. */
export function unpackStart(bytes: Uint8Array): StartRecord {
  const { n, k } = startRecord.parse(unpackr.unpack(bytes));
  return { numTokens: n, numStarts: k };
}

const parkingRecord = z.strictObject({ isParked: z.boolean(), sinceMs: z.number() });

export function packParking({ isParked, sinceMs }: ParkingRecord): Uint8Array {
  return packr.pack({ isParked, sinceMs });
}

/** Throws if the bytes are not a parking record. */
export function unpackParking(bytes: Uint8Array): ParkingRecord {
  return parkingRecord.parse(unpackr.unpack(bytes));
}

/** A piece: the tokens that follow those of the earlier pieces, and what came with them. */
const piece = z.strictObject({
  i: uint,
  t: ids,
  l: z.array(z.tuple([z.number(), ids, z.array(z.number())])).exactOptional(),
  f: z.tuple([uint, uint, uint]).exactOptional(),
  c: z.array(z.tuple([uint, z.string()])).exactOptional(),
});

/** Packs what came from this token on. */
export function packPiece(content: Readonly<TokenLogContent>, from: number): Uint8Array {
  const { tokenIds, logprobs, first, continuations } = content;
  const continued = continuations.filter(({ index }) => index >= from);
  return packr.pack({
    i: from,
    t: tokenIds.slice(from),
    ...(logprobs === undefined
      ? {}
      : { l: logprobs.slice(from).map((each) => [each.logprob, each.topIds, each.topLogprobs]) }),
    ...(first === undefined || from > 0
      ? {}
      : { f: [first.numCachedTokens, first.queuedUs, first.prefillUs] }),
    ...(continued.length === 0 ? {} : { c: continued.map((each) => [each.index, each.numericsId]) }),
  });
}

/** Adds a piece to `content`. Throws DamagedJob for a piece that does not come next, and if the bytes are no piece. */
export function unpackPiece(bytes: Uint8Array, content: TokenLogContent): void {
  const { i, t, l, f, c } = piece.parse(unpackr.unpack(bytes));
  const { tokenIds, logprobs, continuations } = content;
  if (i !== tokenIds.length)
    throw new DamagedJob(
      `a record of tokens begins at token ${i}, but ${tokenIds.length} tokens come before it`,
    );
  const numLogprobs = l?.length ?? 0;
  const numWanted = logprobs === undefined ? 0 : t.length;
  if (numLogprobs !== numWanted)
    throw new DamagedJob(`a record of tokens has ${numLogprobs} log-probabilities, not ${numWanted}`);
  for (const id of t) tokenIds.push(id);
  for (const [logprob, topIds, topLogprobs] of l ?? [])
    logprobs?.push({ logprob, topIds, topLogprobs } satisfies TokenLogprobs);
  if (f !== undefined) content.first = { numCachedTokens: f[0], queuedUs: f[1], prefillUs: f[2] };
  for (const [index, numericsId] of c ?? []) continuations.push({ index, numericsId });
}

const endRecord = z.strictObject({
  endedMs: z.number(),
  finish: z.enum(['stop_id', 'max_tokens', 'time_limit']).exactOptional(),
  isAlone: z.boolean().exactOptional(),
  error: z
    .strictObject({ code: z.enum(generationErrorCodes), message: z.string(), retriable: z.boolean() })
    .exactOptional(),
});

export function packEnd({ end, endedMs }: EndRecord): Uint8Array {
  if (end.kind === 'enough') return packr.pack({ endedMs });
  if (end.kind === 'finish') return packr.pack({ endedMs, finish: end.finish, isAlone: end.isAlone });
  const { code, message, retriable } = end.error;
  return packr.pack({ endedMs, error: { code, message, retriable } });
}

/** Throws if the bytes are not an end record. */
export function unpackEnd(bytes: Uint8Array): EndRecord {
  const { endedMs, finish, isAlone = false, error } = endRecord.parse(unpackr.unpack(bytes));
  if (finish !== undefined) return { endedMs, end: { kind: 'finish', finish, isAlone } };
  if (error === undefined) return { endedMs, end: { kind: 'enough' } };
  const { code, message, retriable } = error;
  return { endedMs, end: { kind: 'error', error: new GenerationError(code, message, { retriable }) } };
}

export function emptyContent({ topLogprobs }: Pick<GenerateRequest, 'topLogprobs'>): TokenLogContent {
  return {
    tokenIds: [],
    logprobs: topLogprobs === undefined ? undefined : [],
    first: undefined,
    continuations: [],
    end: undefined,
  };
}
