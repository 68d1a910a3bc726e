import { marksOfIds } from '../../generation/control-marks.ts';
import type { CanonicalCall, CanonicalThinking } from '../../generation/receipt.ts';
import { type AnswerEnd, type AnswerOptions, TextStream } from '../../generation/text-stream.ts';
import { thinkingLimit } from '../../generation/thinking-families.ts';
import type { Thinking } from '../../generation/thinking-parser.ts';
import { tokenBytesOf } from '../../generation/token-bytes.ts';
import type { GenerateRequest } from '../../runner/runner.ts';
import type { OfflineModel } from '../offline-model.ts';
import type { SaidChoice } from './saved-answer.ts';

/** Computes the call of a receipt again. */

export interface Recomputed {
  readonly request: GenerateRequest;
  readonly tokenIds: readonly number[];
  readonly reason: AnswerEnd['reason'];
}

/** mostTokens: as many as an answer has that a time limit has ended. Throws GenerationError. */
export async function recompute(
  offline: OfflineModel,
  call: CanonicalCall,
  mostTokens = call.max_tokens,
): Promise<Recomputed> {
  const request = await requestOf(offline, call, Math.max(1, mostTokens));
  const options = answerOptionsOf(offline, call, request.minTokens);
  const tokenIds: number[] = [];
  const reason = await new Promise<AnswerEnd['reason']>((resolve, reject) => {
    new TextStream(offline.runner, request, options, {
      onPart: (part) => {
        for (const id of part.tokenIds) tokenIds.push(id);
        if (part.end !== undefined) resolve(part.end.reason);
      },
      onError: reject,
    });
  });
  return { request, tokenIds: tokenIds.slice(0, mostTokens), reason };
}

function answerOptionsOf(
  { model: { tokenizer } }: OfflineModel,
  { stop, reading }: CanonicalCall,
  minTokens: number,
): AnswerOptions {
  const options = { tokenizer, stop, minTokens };
  if (reading === null) return options;
  const { thinking: read, mark_ids } = reading;
  const thinking = read === null ? undefined : thinkingOf(read);
  return { ...options, thinking, marks: marksOfIds(mark_ids, tokenizer) };
}

function thinkingOf(read: CanonicalThinking): Thinking {
  const { begin, end, is_open: isOpen, is_closed: isClosed } = read;
  const { is_in_text: isInText, reads_calls: readsCalls } = read;
  return { format: { begin, end }, isOpen, isClosed, isInText, readsCalls };
}

async function requestOf(
  { model: { tokenizer }, info }: OfflineModel,
  call: CanonicalCall,
  maxTokens: number,
): Promise<GenerateRequest> {
  const { grammar, thinking_limit: limit } = call;
  const request: GenerateRequest = {
    promptIds: call.prompt_ids,
    modelIdentity: info.modelIdentity,
    maxTokens,
    minTokens: Math.min(call.min_tokens, maxTokens),
    stopIds: call.stop_ids,
    sampling: {
      seed: BigInt(call.seed),
      temperature: call.temperature,
      topK: call.top_k,
      topP: call.top_p,
      minP: call.min_p,
      repetitionPenalty: call.repetition_penalty,
      presencePenalty: call.presence_penalty,
      frequencyPenalty: call.frequency_penalty,
      logitBias: new Map(call.logit_bias),
      allowedTokenIds: call.allowed_token_ids,
      bannedTokenIds: call.banned_token_ids,
    },
    cacheSalt: new Uint8Array(),
    ...(grammar === null ? {} : { grammar, vocabulary: await tokenBytesOf(tokenizer) }),
  };
  if (limit === null) return request;
  const thinking = { format: { begin: limit.begin, end: limit.end }, isOpen: limit.is_open };
  const facts = { maxTokens: limit.max_tokens, endIds: limit.end_ids, thinking };
  return { ...request, thinkingLimit: thinkingLimit(facts, tokenizer) };
}

const FINISH = {
  eos: 'stop_id',
  stop_sequence: undefined,
  max_tokens: 'max_tokens',
  time_limit: 'time_limit',
} as const;

/** The position of the first token from which on the text of the tokens is not what the answer says; undefined if all is. */
export function textDiffersAt(
  { request, tokenIds, reason }: Recomputed,
  options: AnswerOptions,
  said: SaidChoice,
): number | undefined {
  const made = { thought: '', text: '' };
  const nobody = { generate: () => ({ cancel: () => {}, pause: () => {}, resume: () => {} }) };
  let error: unknown;
  const stream = new TextStream(nobody, request, options, {
    onPart: ({ thought = '', text }) => {
      made.thought += thought;
      made.text += text;
    },
    onError: (thrown) => {
      error = thrown;
    },
  });
  for (const [index, id] of tokenIds.entries()) {
    const finish = index === tokenIds.length - 1 ? FINISH[reason] : undefined;
    stream.onTokens({ firstIndex: index, tokenIds: [id], ...(finish && { finish }) });
    if (error !== undefined) throw error;
    if (!said.thought.startsWith(made.thought) || !said.text.startsWith(made.text)) return index;
  }
  return made.thought === said.thought && made.text === said.text ? undefined : tokenIds.length;
}
