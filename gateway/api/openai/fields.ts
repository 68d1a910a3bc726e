import * as z from 'zod';
import type { Call } from '../../calls/call.ts';
import {
  checkDurable,
  checkWindow,
  durable,
  ignoredWindow,
  logitBias,
  MAX_TOP_K,
  penaltyFields,
  receipt,
  samplingFields,
  samplingOf,
  tokenConstraints,
} from '../call-fields.ts';
import * as fields from '../fields.ts';
import {
  ANYTHING,
  EITHER,
  type IgnoredFields,
  ignoredFields,
  NO,
  NO_ITEMS,
  NO_MEMBERS,
  NOTHING,
  ONE,
  violated,
  ZERO,
} from '../fields.ts';
import { checkGrammar, formsOf, grammarFields } from './grammar-fields.ts';

/** Fields of OpenAI's API, and of servers like it, that nothing here obeys. */

/** Fields of both generating routes. */
const sharedIgnored = {
  // What clients send along.
  client_metadata: ANYTHING,
  intent: ANYTHING,
  keep_alive: ANYTHING,
  // OpenAI's own fields.
  metadata: ANYTHING,
  prompt_cache_key: ANYTHING,
  prompt_cache_options: ANYTHING,
  prompt_cache_retention: ANYTHING,
  safety_identifier: ANYTHING,
  service_tier: ANYTHING,
  // Only responses are stored.
  store: ANYTHING,
  user: ANYTHING,
  // Fields of llama-server: samplers that must be off, and the parameters that those samplers would have.
  cache_prompt: ANYTHING,
  dry_allowed_length: ANYTHING,
  dry_base: ANYTHING,
  dry_multiplier: ZERO,
  dry_penalty_last_n: ANYTHING,
  dry_sequence_breakers: ANYTHING,
  dynatemp_exponent: ANYTHING,
  dynatemp_range: ZERO,
  grammar: [''],
  id_slot: ANYTHING,
  json_schema: NOTHING,
  lora: NO_ITEMS,
  min_keep: ZERO,
  mirostat: ZERO,
  mirostat_eta: ANYTHING,
  mirostat_tau: ANYTHING,
  n_indent: ZERO,
  n_keep: ZERO,
  n_probs: ZERO,
  post_sampling_probs: NO,
  response_fields: NOTHING,
  return_progress: NO,
  return_tokens: NO,
  samplers: NOTHING,
  t_max_predict_ms: [0, -1],
  tfs_z: ONE,
  timings_per_token: NO,
  top_n_sigma: [-1],
  typical_p: ONE,
  xtc_probability: ZERO,
  xtc_threshold: ANYTHING,
  // Fields of vLLM.
  bad_words: NO_ITEMS,
  cache_salt: NOTHING,
  detokenize: [true],
  early_stopping: NO,
  // All forms are followed by XGrammar.
  guided_decoding_backend: ['auto', 'xgrammar', 'xgrammar:no-fallback'],
  ignore_eos: NO,
  include_stop_str_in_output: NO,
  kv_transfer_params: NOTHING,
  length_penalty: ONE,
  logits_processors: NO_ITEMS,
  prompt_logprobs: NOTHING,
  request_id: ANYTHING,
  return_token_ids: NO,
  return_tokens_as_token_ids: NO,
  skip_special_tokens: [true],
  spaces_between_special_tokens: EITHER,
  structural_tag: NOTHING,
  truncate_prompt_tokens: NOTHING,
  use_beam_search: NO,
} as const satisfies IgnoredFields;

/** Fields of POST /v1/chat/completions. */
export const chatIgnored = {
  ...sharedIgnored,
  audio: NOTHING,
  function_call: ['none', 'auto'],
  functions: NO_ITEMS,
  modalities: [['text']],
  moderation: NOTHING,
  prediction: ANYTHING,
  verbosity: ['medium'],
  web_search_options: NOTHING,
  // Fields of llama-server and vLLM.
  add_special_tokens: NO,
  chat_template: NOTHING,
  documents: NO_ITEMS,
  echo: NO,
  include_reasoning: [true],
  mm_processor_kwargs: NO_MEMBERS,
  n_predict: [-1],
} as const satisfies IgnoredFields;

/** Fields of stream_options. */
export const streamOptionsIgnored = {
  continuous_usage_stats: NO,
  include_obfuscation: NO,
} as const satisfies IgnoredFields;

/** Fields of POST /v1/completions. */
export const completionIgnored = {
  ...sharedIgnored,
  add_special_tokens: [true],
  best_of: ONE,
  // A plain prompt has no thinking.
  enable_thinking: NO,
  // -1 (no limit) would differ from the default of max_tokens, so no value is accepted.
  n_predict: NOTHING,
} as const satisfies IgnoredFields;

/** Fields of POST /v1/embeddings. */
export const embeddingIgnored = {
  user: ANYTHING,
  // Fields of vLLM and llama-server.
  add_special_tokens: [true],
  embd_normalize: [2],
  normalize: [true],
  request_id: ANYTHING,
} as const satisfies IgnoredFields;

const MAX_CHOICES_PER_PROMPT = 8;

/** Fields that chat completions and completions share. */
export const sharedFields = {
  model: fields.nonEmpty('model'),
  stream: z.boolean().default(false),
  timings: z.boolean().default(false),
  durable,
  receipt,
  stream_options: z
    .object({ include_usage: z.boolean().default(false), ...ignoredFields(streamOptionsIgnored) })
    .optional(),
  n: fields.integer('n', 1, MAX_CHOICES_PER_PROMPT).default(1),
  ...samplingFields(),
  /** −1 is vLLM's value for all tokens. */
  top_k: fields.orUnlimited(fields.integer('top_k', 0, MAX_TOP_K), 0).default(0),
  min_p: fields.float('min_p', 0, 1).default(0),
  repetition_penalty: fields.floatAbove('repetition_penalty', 0, 2).default(1),
  ...penaltyFields,
  logit_bias: logitBias('logit_bias').default(new Map()),
  seed: fields.seed('seed').optional(),
  ...tokenConstraints,
  ...grammarFields,
  stop: fields.oneOrMany(fields.stopSequences('stop')).default([]),
  priority: fields.priority,
};

type SharedFields = z.output<z.ZodObject<typeof sharedFields>>;

/** Checks the rules that concern several of these fields. asked: what the route's own fields add to what is asked. */
export function checkShared(
  ctx: fields.Context,
  request: SharedFields,
  asked: { readonly n?: number; readonly echo?: boolean } = {},
): void {
  checkGrammar(ctx, request);
  const { repetition_penalty, repeat_penalty, durable, timings, n } = request;
  const isSecond = repeat_penalty !== 1 && repetition_penalty !== 1 && repeat_penalty !== repetition_penalty;
  const sentence = 'repeat_penalty and repetition_penalty mean the same; send one of them';
  if (isSecond) violated(ctx, 'exclusive', sentence, ['repeat_penalty']);
  checkWindow(ctx, request, repetition_penalty !== 1);
  checkDurable(ctx, { durable, timings, n, ...asked });
}

/** The members of a call that both routes make alike. */
export function sharedCall(request: SharedFields): Omit<Call, 'input' | 'thinking'> {
  return {
    model: request.model,
    isStreamed: request.stream,
    format: formsOf(request)[0],
    sampling: samplingOf(request),
    seed: request.seed,
    tokens: request,
    stop: request.stop,
    numChoices: request.n,
    priority: request.priority,
    durable: request.durable ? 'durable' : undefined,
    receipt: request.receipt,
  };
}

/** Names what is ignored: stream_options without a stream, since whole answers always have what it asks for. */
export function ignoredOptions(request: SharedFields): string[] {
  const { stream, stream_options } = request;
  return [...ignoredWindow(request), ...(!stream && stream_options !== undefined ? ['stream_options'] : [])];
}
