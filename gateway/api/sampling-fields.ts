import * as z from 'zod';
import type { Call } from '../calls/call.ts';
import { shown } from '../errors/api-error.ts';
import * as fields from './fields.ts';

/** Fields about how tokens are drawn, which are the same in all APIs but for their defaults. */

type Context = Pick<z.RefinementCtx, 'addIssue'>;

export const MAX_TOP_K = 2 ** 32 - 1;

interface Defaults {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
}

export function samplingFields({ temperature = 1, top_p = 1, top_k = 0 }: Defaults = {}) {
  return {
    temperature: fields.float('temperature', 0, 2).default(temperature),
    top_p: fields.float('top_p', 0, 1).default(top_p),
    top_k: fields.integer('top_k', 0, MAX_TOP_K).default(top_k),
  };
}

/** The window that asks for what happens anyway: penalties count all tokens of the sequence. */
const ALL_TOKENS = -1;

/** The penalties, by llama-server's names. */
export const penaltyFields = {
  repeat_penalty: fields.floatAbove('repeat_penalty', 0, 2).default(1),
  presence_penalty: fields.float('presence_penalty', -2, 2).default(0),
  frequency_penalty: fields.float('frequency_penalty', -2, 2).default(0),
  /** The number of last tokens that penalties count. */
  repeat_last_n: fields.integer('repeat_last_n', ALL_TOKENS, 2 ** 31 - 1).default(ALL_TOKENS),
};

type Penalties = z.output<z.ZodObject<typeof penaltyFields>>;

/** Refuses a window for penalties that act. hasOther: whether a penalty of another name acts. */
export function checkWindow(ctx: Context, request: Penalties, hasOther = false): void {
  const { repeat_penalty, presence_penalty, frequency_penalty, repeat_last_n } = request;
  const acts = hasOther || repeat_penalty !== 1 || presence_penalty !== 0 || frequency_penalty !== 0;
  if (!acts || repeat_last_n === ALL_TOKENS) return;
  const sentence = `must be ${ALL_TOKENS} beside a penalty: penalties count all tokens (got ${repeat_last_n})`;
  fields.violated(ctx, { constraint: 'unsupported' }, sentence, ['repeat_last_n']);
}

/** Names the window if it was ignored, which is where no penalty acts. */
export function ignoredWindow({ repeat_last_n }: Penalties, prefix = ''): string[] {
  return repeat_last_n === ALL_TOKENS ? [] : [`${prefix}repeat_last_n`];
}

/** What a call has of these fields. Without a value, sampling is neutral. */
export function samplingOf(
  request: z.output<z.ZodObject<ReturnType<typeof samplingFields>>> &
    Partial<Penalties> & {
      readonly min_p?: number;
      readonly repetition_penalty?: number;
      readonly logit_bias?: ReadonlyMap<number, number>;
    },
): Call['sampling'] {
  const { repeat_penalty = 1, repetition_penalty = 1, logit_bias = new Map() } = request;
  return {
    temperature: request.temperature,
    topK: request.top_k,
    topP: request.top_p,
    minP: request.min_p ?? 0,
    // Either of its names may be sent.
    repetitionPenalty: repetition_penalty === 1 ? repeat_penalty : repetition_penalty,
    presencePenalty: request.presence_penalty ?? 0,
    frequencyPenalty: request.frequency_penalty ?? 0,
    logitBias: logit_bias,
  };
}

const MAX_BIASES = 1024;
const MAX_BIAS = 100;

/** Parses `{"50256": -100}`: numbers that are added to the logits of tokens. Ids are checked against the model later. */
export function logitBias(name: string) {
  return z.record(z.string(), z.number()).transform((biases, ctx): ReadonlyMap<number, number> => {
    const entries = Object.entries(biases);
    if (fields.refuseMany(ctx, name, [entries.length, MAX_BIASES], 'tokens')) return z.NEVER;
    for (const [key, bias] of entries) {
      if (!/^(0|[1-9]\d{0,9})$/.test(key)) {
        const value = shown(key);
        const message = `${name} must have token ids as keys, such as "50256" (got ${JSON.stringify(value)})`;
        fields.violated(ctx, { constraint: 'token_id', value }, message, [value]);
      } else if (Math.abs(bias) > MAX_BIAS) {
        const rule = { constraint: `range(-${MAX_BIAS}..=${MAX_BIAS})`, value: String(bias) };
        fields.violated(ctx, rule, `${name}.${key} must be from -${MAX_BIAS} to ${MAX_BIAS} (got ${bias})`, [
          key,
        ]);
      }
    }
    return new Map(entries.map(([key, bias]) => [Number(key), bias]));
  });
}

/** The runner takes 64, and some of these are the model's own. */
const MAX_STOP_TOKEN_IDS = 32;
const MAX_MASKED_TOKEN_IDS = 1024;

// Ids are checked against the model later.
export const tokenConstraints = {
  min_tokens: fields.integer('min_tokens', 0, 2 ** 31 - 1).default(0),
  stop_token_ids: fields.tokenIds('stop_token_ids', 0, MAX_STOP_TOKEN_IDS).default([]),
  allowed_token_ids: fields.tokenIds('allowed_token_ids', 1, MAX_MASKED_TOKEN_IDS).default([]),
  banned_token_ids: fields.tokenIds('banned_token_ids', 0, MAX_MASKED_TOKEN_IDS).default([]),
};

/** The bound of an answer's length, as the request has it. Without a value, the context decides. */
interface MaxTokens {
  readonly name: string;
  readonly value: number | undefined;
  /** The value if the request has none. */
  readonly fallback?: number;
}

/** Checks min_tokens against max_tokens. */
export function checkMinTokens(ctx: Context, minTokens: number, { name, value, fallback }: MaxTokens): void {
  if (value === undefined || minTokens <= value) return;
  const rule = { constraint: `range(0..=${value})`, value: String(minTokens) };
  const bound = value === fallback ? `${value}, the default of ${name}` : `${name}, which is ${value}`;
  fields.violated(ctx, rule, `min_tokens must be at most ${bound} (got ${minTokens})`, ['min_tokens']);
}
