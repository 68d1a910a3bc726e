/**
 * Encodes the gateway's messages to a runner as protobuf. Only this file, from-runner.ts and recording.ts use protobufjs.
 */

import { setImmediate as nextTurn } from 'node:timers/promises';
import Long from 'long';
import { isWellFormed } from '../../system/printable.ts';
import {
  type GenerateRequest,
  type Grammar,
  type GrammarKind,
  maxGrammarBytes,
  type RequestPooling,
  type VocabularyFrames,
} from '../runner.ts';
import { encodeFrame, maxBytesToRunner } from './frame.ts';
import { runner } from './proto/runner.js';

const { v1 } = runner;

const maxSaltBytes = 32;

/** A request as a runner gets it: prompt and emitted tokens together. */
export interface Generate
  extends Pick<
    GenerateRequest,
    | 'maxTokens'
    | 'minTokens'
    | 'stopIds'
    | 'sampling'
    | 'topLogprobs'
    | 'promptLogprobs'
    | 'cacheSalt'
    | 'grammar'
  > {
  readonly requestId: number;
  readonly tokenIds: readonly number[];
  readonly numEmitted: number;
  /** Descriptors of the runner: KV caches of others that may have blocks of tokenIds. */
  readonly kvFrom?: readonly number[];
}

export interface Embed extends Pick<Generate, 'requestId' | 'tokenIds' | 'cacheSalt'> {
  readonly pooling: RequestPooling;
  readonly secondTypeFrom?: number;
}

/** A part of the spellings of the model's tokens: those from firstId on. numTokens and numBytes count all parts together. */
interface Vocabulary {
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
  | { readonly type: 'release_kv'; readonly descriptor: number }
  | ({ readonly type: 'vocabulary' } & Vocabulary);

const kinds: Readonly<Record<GrammarKind, runner.v1.GrammarKind>> = {
  json_schema: v1.GrammarKind.GRAMMAR_KIND_JSON_SCHEMA,
  json_object: v1.GrammarKind.GRAMMAR_KIND_JSON_OBJECT,
  regex: v1.GrammarKind.GRAMMAR_KIND_REGEX,
  ebnf: v1.GrammarKind.GRAMMAR_KIND_EBNF,
  structural_tag: v1.GrammarKind.GRAMMAR_KIND_STRUCTURAL_TAG,
};

const poolings: Readonly<Record<RequestPooling, runner.v1.Pooling>> = {
  last: v1.Pooling.POOLING_LAST,
  mean: v1.Pooling.POOLING_MEAN,
  cls: v1.Pooling.POOLING_CLS,
  rank: v1.Pooling.POOLING_RANK,
};

/** Throws RangeError for a number that its field cannot hold: protobufjs would wrap it silently. */
export function encodeToRunner(message: ToRunner): Uint8Array {
  return v1.ToRunner.encode(toRunnerFields(message)).finish();
}

function toRunnerFields(message: ToRunner): runner.v1.ToRunner.$Properties {
  if (message.type === 'drain') return { drain: {} };
  if (message.type === 'release_kv')
    return { releaseKv: { descriptor: u32('descriptor', message.descriptor) } };
  if (message.type === 'vocabulary') return { vocabulary: vocabularyFields(message) };
  const requestId = u32('request_id', message.requestId);
  if (message.type === 'embed') return { embed: embedFields(message) };
  if (message.type === 'cancel')
    return { cancel: { requestId, ...(message.isComplete === true ? { isComplete: true } : {}) } };
  if (message.type !== 'generate') return { [message.type]: { requestId } };
  const { sampling, topLogprobs, promptLogprobs, grammar, kvFrom = [] } = message;
  return {
    generate: {
      requestId,
      tokenIds: ids('token_ids', message.tokenIds),
      numEmitted: u32('num_emitted', message.numEmitted),
      maxTokens: u32('max_tokens', message.maxTokens),
      stopIds: ids('stop_ids', message.stopIds),
      sampling: {
        temperature: sampling.temperature,
        topK: u32('top_k', sampling.topK),
        topP: sampling.topP,
        minP: sampling.minP,
        repetitionPenalty: sampling.repetitionPenalty,
        seed: u64('seed', sampling.seed),
        presencePenalty: sampling.presencePenalty,
        frequencyPenalty: sampling.frequencyPenalty,
        logitBias: Array.from(sampling.logitBias, ([tokenId, bias]) => ({
          tokenId: u32('logit_bias', tokenId),
          bias,
        })),
        allowedTokenIds: ids('allowed_token_ids', sampling.allowedTokenIds),
        bannedTokenIds: ids('banned_token_ids', sampling.bannedTokenIds),
      },
      ...(topLogprobs === undefined ? {} : { topLogprobs: u32('top_logprobs', topLogprobs) }),
      ...(promptLogprobs === undefined ? {} : { promptLogprobs: u32('prompt_logprobs', promptLogprobs) }),
      minTokens: u32('min_tokens', message.minTokens),
      cacheSalt: salt(message.cacheSalt),
      ...(grammar === undefined ? {} : { grammar: grammarFields(grammar) }),
      kvFrom: ids('kv_from', kvFrom),
    },
  };
}

function embedFields(embed: Embed): runner.v1.Embed.$Properties {
  const { requestId, tokenIds, pooling, cacheSalt, secondTypeFrom } = embed;
  return {
    requestId,
    tokenIds: ids('token_ids', tokenIds),
    pooling: poolings[pooling],
    cacheSalt: salt(cacheSalt),
    ...(secondTypeFrom === undefined ? {} : { secondTypeFrom: u32('second_type_from', secondTypeFrom) }),
  };
}

function salt(cacheSalt: Uint8Array): Uint8Array {
  if (cacheSalt.length <= maxSaltBytes) return cacheSalt;
  throw new RangeError(`cache_salt must have at most ${maxSaltBytes} bytes, not ${cacheSalt.length}.`);
}

function grammarFields({ kind, source, strict }: Grammar): runner.v1.Grammar.$Properties {
  // protobufjs would write unpaired surrogates, which a runner's parser rejects with the whole message.
  if (!isWellFormed(source))
    throw new RangeError('The grammar is not valid Unicode: it has an unpaired surrogate.');
  const numBytes = Buffer.byteLength(source);
  if (numBytes > maxGrammarBytes)
    throw new RangeError(`The grammar must have at most ${maxGrammarBytes} bytes, not ${numBytes}.`);
  return { kind: kinds[kind], source, strict };
}

function vocabularyFields(part: Vocabulary): runner.v1.Vocabulary.$Properties {
  return {
    numTokens: u32('num_tokens', part.numTokens),
    numBytes: u32('num_bytes', part.numBytes),
    firstId: u32('first_id', part.firstId),
    lengths: ids('lengths', part.lengths),
    spellings: part.spellings,
  };
}

function ids(name: string, values: readonly number[]): number[] {
  for (const id of values) u32(name, id);
  // protobufjs only reads the ids, but its types want mutable arrays.
  return values as number[];
}

const maxU32 = 2 ** 32 - 1;
const maxU64 = 2n ** 64n - 1n;

function u32(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 0 && value <= maxU32) return value;
  throw new RangeError(`${name} must be an integer from 0 to ${maxU32}, not ${value}.`);
}

function u64(name: string, value: bigint): Long {
  if (value >= 0n && value <= maxU64) return Long.fromString(value.toString(), true);
  throw new RangeError(`${name} must be an integer from 0 to ${maxU64}, not ${value}.`);
}

/** A token with a longer spelling is sent without one, so that it is not sampled under a grammar. */
export const maxSpellingBytes = 4096;
/** Limit of all spellings together. */
export const maxVocabularyBytes = 2 ** 25;
/** Limits of one frame. Making a frame takes about a millisecond, and each is made in a turn of the event loop of its own. */
const maxFrameTokens = 8192;
const maxFrameSpellingBytes = 2 ** 18;

/**
 * Encodes the spellings of a model's tokens as frames for a runner (docs/protocol.md, "Grammars"). They are made once for a
 * model and sent to each of its runners that gets a grammar. spelling: the bytes that an id below numTokens adds to a text; empty for a control token. Rejects with RangeError if all
 * spellings together are more than a runner takes.
 */
export async function vocabularyFrames(
  numTokens: number,
  spelling: (id: number) => Uint8Array,
): Promise<VocabularyFrames> {
  const told = (id: number): Uint8Array => {
    const bytes = spelling(id);
    return bytes.length > maxSpellingBytes ? bytes.subarray(0, 0) : bytes;
  };
  let numBytes = 0;
  for (let id = 0; id < numTokens; id++) {
    numBytes += told(id).length;
    if (id % maxFrameTokens === maxFrameTokens - 1) await nextTurn();
  }
  if (numBytes > maxVocabularyBytes) {
    const what = `The tokens of the model are spelled with ${numBytes} bytes`;
    throw new RangeError(`${what}; a runner takes ${maxVocabularyBytes} for grammars.`);
  }
  const frames: Uint8Array[] = [];
  for (let firstId = 0; firstId < numTokens; ) {
    const parts: Uint8Array[] = [];
    let size = 0;
    for (let id = firstId; id < numTokens && parts.length < maxFrameTokens; id++) {
      const bytes = told(id);
      if (size + bytes.length > maxFrameSpellingBytes) break;
      parts.push(bytes);
      size += bytes.length;
    }
    const lengths = parts.map(({ length }) => length);
    const part = { numTokens, numBytes, firstId, lengths, spellings: Buffer.concat(parts, size) };
    frames.push(encodeFrame(encodeToRunner({ type: 'vocabulary', ...part }), maxBytesToRunner));
    firstId += parts.length;
    await nextTurn();
  }
  return { numTokens, frames };
}
