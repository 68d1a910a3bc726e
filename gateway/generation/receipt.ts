import { createHash } from 'node:crypto';
import * as z from 'zod';
import { type GenerateRequest, grammarKinds } from '../runner/runner.ts';
import { marksIn, type Reading } from './thinking-families.ts';
import type { Thinking } from './thinking-parser.ts';

/**
 * Receipts: what an answer was computed from, and its tokens, as hashes. Whoever has the same weights computes the answer again, and
 * compares. docs/receipts.md describes the format.
 */

/** The version of the format. */
export const RECEIPT_VERSION = 2;

const uint = z.int().nonnegative();
const ids = z.array(uint);
const hash = z.string().regex(/^sha256:[0-9a-f]{64}$/, 'must be "sha256:" and 64 hexadecimal digits');
/** 64 bits, which JSON's readers would round. */
const seed = z.string().regex(/^(0|[1-9]\d{0,19})$/, 'must be the decimal digits of a 64-bit number');

/** What of an answer is thinking, which stop strings are not looked for in. */
const canonicalThinking = z.strictObject({
  begin: z.string(),
  end: z.string(),
  is_open: z.boolean(),
  is_closed: z.boolean(),
  is_in_text: z.boolean(),
  reads_calls: z.boolean(),
});
export type CanonicalThinking = Readonly<z.infer<typeof canonicalThinking>>;

/** All that determines the tokens of an answer, besides weights and arithmetic. Its JSON has the members in this order. */
const canonicalCall = z.strictObject({
  prompt_ids: ids,
  max_tokens: uint,
  min_tokens: uint,
  stop: z.array(z.string()),
  /** In which text the stop strings are looked for; null: in that of all tokens, or there are none. */
  reading: z.strictObject({ thinking: canonicalThinking.nullable(), mark_ids: ids }).nullable(),
  stop_ids: ids,
  seed,
  temperature: z.number(),
  top_k: uint,
  top_p: z.number(),
  min_p: z.number(),
  repetition_penalty: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  logit_bias: z.array(z.tuple([uint, z.number()])),
  allowed_token_ids: ids,
  banned_token_ids: ids,
  grammar: z.strictObject({ kind: z.enum(grammarKinds), source: z.string(), strict: z.boolean() }).nullable(),
  thinking_limit: z
    .strictObject({
      max_tokens: uint,
      end_ids: ids,
      begin: z.string(),
      end: z.string(),
      is_open: z.boolean(),
    })
    .nullable(),
});
export type CanonicalCall = Readonly<z.infer<typeof canonicalCall>>;

/** Of the programs that computed the answer. */
const versions = z.strictObject({ gateway: z.string(), runner: z.string() });

export const receiptSchema = z.strictObject({
  version: z.literal(RECEIPT_VERSION),
  weights: hash,
  quantize: z.string().optional(),
  numerics: z.string(),
  continued_by: z.string().optional(),
  call: hash,
  seed,
  tokens: hash,
  num_tokens: uint,
  stop_reason: z.enum(['eos', 'stop_sequence', 'max_tokens', 'time_limit']),
  versions,
  full: z.strictObject({ call: canonicalCall, token_ids: ids }).optional(),
});
export type Receipt = Readonly<z.infer<typeof receiptSchema>>;

/** hashes: without what was hashed. full: with the call and the token ids. */
const form = z.enum(['hashes', 'full']);
export type ReceiptForm = z.infer<typeof form>;

/** What decides a receipt besides the call and its tokens. */
export const receiptTerms = z.strictObject({ form, versions });
export type ReceiptTerms = Readonly<z.infer<typeof receiptTerms>>;

/** What decides where stop strings end an answer. */
export interface StopSearch extends Reading {
  readonly stop: readonly string[];
}

export function canonicalCallOf(request: GenerateRequest, search: StopSearch): CanonicalCall {
  const { promptIds, maxTokens, minTokens, stopIds, sampling, grammar, thinkingLimit: limit } = request;
  return {
    prompt_ids: [...promptIds],
    max_tokens: maxTokens,
    min_tokens: minTokens,
    stop: [...search.stop],
    reading: readingOf(search),
    stop_ids: [...stopIds],
    seed: String(sampling.seed),
    temperature: sampling.temperature,
    top_k: sampling.topK,
    top_p: sampling.topP,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    logit_bias: [...sampling.logitBias].sort(([a], [b]) => a - b),
    allowed_token_ids: [...sampling.allowedTokenIds],
    banned_token_ids: [...sampling.bannedTokenIds],
    grammar:
      grammar === undefined ? null : { kind: grammar.kind, source: grammar.source, strict: grammar.strict },
    thinking_limit:
      limit === undefined
        ? null
        : {
            max_tokens: limit.maxTokens,
            end_ids: [...limit.endIds],
            begin: limit.thinking.format.begin,
            end: limit.thinking.format.end,
            is_open: limit.thinking.isOpen,
          },
  };
}

function readingOf(search: StopSearch): CanonicalCall['reading'] {
  const { stop, thinking } = search;
  const markIds = [...(marksIn(search)?.keys() ?? [])].sort((a, b) => a - b);
  if (stop.length === 0 || (thinking === undefined && markIds.length === 0)) return null;
  return { thinking: thinking === undefined ? null : readThinking(thinking), mark_ids: markIds };
}

function readThinking({ format: { begin, end }, ...read }: Thinking): CanonicalThinking {
  const { isOpen, isClosed = false, isInText = false, readsCalls = false } = read;
  return {
    ...{ begin, end, is_open: isOpen, is_closed: isClosed },
    ...{ is_in_text: isInText, reads_calls: readsCalls },
  };
}

/** The hash of the canonical call's JSON. call: as canonicalCallOf() and receiptSchema make it, which is in the order of its members. */
export function callHash(call: CanonicalCall): string {
  return sha256(JSON.stringify(call));
}

/** The hash of the ids as a JSON array without spaces. */
export function tokensHash(tokenIds: readonly number[]): string {
  return sha256(JSON.stringify(tokenIds));
}

function sha256(text: string): string {
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}

/** The type in which a runner has quantised the weights, by its Ready.model_identity; undefined: as in the file. */
export function quantizedAs(modelIdentity: string): string | undefined {
  return /^(\w+)-xxh3-/.exec(modelIdentity)?.[1];
}
