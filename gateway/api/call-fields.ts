import * as z from 'zod';
import type { Call } from '../calls/call.ts';
import type { ThinkingParams } from '../calls/thinking.ts';
import { shown } from '../errors/api-error.ts';
import type { ReceiptForm } from '../generation/receipt.ts';
import * as fields from './fields.ts';
import { maxTokens, violated } from './fields.ts';

/** Fields about how tokens are drawn, which are the same in all APIs but for their defaults. */

export const MAX_TOP_K = 2 ** 32 - 1;

/** The arguments are the fields' defaults. */
export function samplingFields({ temperature = 1, top_p = 1, top_k = 0 } = {}) {
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
  repeat_last_n: fields.integer('repeat_last_n', ALL_TOKENS, 2 ** 31 - 1).default(ALL_TOKENS),
};

type Penalties = z.output<z.ZodObject<typeof penaltyFields>>;

/** Refuses a window for penalties that act. hasOther: whether a penalty of another name acts. */
export function checkWindow(ctx: fields.Context, request: Penalties, hasOther = false): void {
  const { repeat_penalty, presence_penalty, frequency_penalty, repeat_last_n } = request;
  const acts = hasOther || repeat_penalty !== 1 || presence_penalty !== 0 || frequency_penalty !== 0;
  if (!acts || repeat_last_n === ALL_TOKENS) return;
  const sentence = `must be ${ALL_TOKENS} beside a penalty: penalties count all tokens (got ${repeat_last_n})`;
  violated(ctx, 'unsupported', sentence, ['repeat_last_n']);
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
        violated(ctx, { constraint: 'token_id', value }, message, [value]);
      } else if (Math.abs(bias) > MAX_BIAS) {
        const rule = { constraint: `range(-${MAX_BIAS}..=${MAX_BIAS})`, value: String(bias) };
        violated(ctx, rule, `${name}.${key} must be from -${MAX_BIAS} to ${MAX_BIAS} (got ${bias})`, [key]);
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

/** Checks min_tokens against the bound of the answer's length. fallback: its value if the request has none. */
export function checkMinTokens(
  ctx: fields.Context,
  minTokens: number,
  { name, value, fallback }: { name: string; value: number | undefined; fallback?: number },
): void {
  if (value === undefined || minTokens <= value) return;
  const rule = { constraint: `range(0..=${value})`, value: String(minTokens) };
  const bound = value === fallback ? `${value}, the default of ${name}` : `${name}, which is ${value}`;
  violated(ctx, rule, `min_tokens must be at most ${bound} (got ${minTokens})`, ['min_tokens']);
}

/** What the fields about thinking have in common in all APIs (docs/thinking.md). */

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;

export const effort = z.enum(EFFORTS);

/** The number of tokens that may be thought; 0: no thinking, −1: no limit. */
export function budget(name: string) {
  return maxTokens(name, 0);
}

/** The budget by the names that vLLM, Qwen's API and llama-server use, in this order. */
export const budgetFields = {
  thinking_token_budget: budget('thinking_token_budget'),
  thinking_budget: budget('thinking_budget'),
  reasoning_budget: budget('reasoning_budget'),
};

type BudgetFields = z.output<z.ZodObject<typeof budgetFields>>;

/** What a request says about thinking, with the names of the fields that say it. */
export interface ReasoningParams {
  /** Fields that turn thinking on or off; undefined: the field does not say. */
  readonly switches: readonly (readonly [field: string, isOn: boolean | undefined])[];
  /** For templates that read an effort. */
  readonly effort?: string | undefined;
  /** The field, other than a budget, that only a model that thinks can obey; undefined if the request has none. */
  readonly needing?: string | undefined;
  /** Fields that a model that does not think ignores. */
  readonly hints?: readonly string[];
  readonly budgets: readonly (readonly [field: string, numTokens: number | undefined])[];
}

/** What a request says by an effort and budgets. field: the name of the effort. */
export function paramsByEffort(
  field: string,
  wanted: z.output<typeof effort> | undefined,
  request: BudgetFields,
  switches: ReasoningParams['switches'] = [],
): ReasoningParams {
  const isOn = wanted === undefined ? undefined : wanted !== 'none';
  return {
    switches: [[field, isOn], ...switches],
    ...(isOn ? { effort: wanted } : {}),
    ...(wanted === undefined ? {} : { hints: [field] }),
    budgets: Object.keys(budgetFields).map((name) => [name, request[name as keyof BudgetFields]]),
  };
}

/** The fields that turn thinking on or off, and which they do. A budget of 0 turns it off. */
function saying({ switches, budgets }: ReasoningParams): (readonly [field: string, isOn: boolean])[] {
  const off = budgets.map(([field, numTokens]) => [field, numTokens === 0 ? false : undefined] as const);
  return [...switches, ...off].flatMap(([field, isOn]) =>
    isOn === undefined ? [] : [[field, isOn] as const],
  );
}

/** Reports two fields that contradict each other. */
export function checkThinking(ctx: fields.Context, said: ReasoningParams): void {
  const [first, ...others] = saying(said);
  const [limit, second] = said.budgets.filter(([, numTokens]) => numTokens !== undefined);
  const other = others.find(([, isOn]) => isOn !== first?.[1]);
  const isContrary = first?.[1] === false && limit !== undefined && limit[1] !== 0;
  const pair = second ? [limit, second] : other ? [first, other] : isContrary ? [first, limit] : undefined;
  const [one, another] = pair?.map((each) => each?.[0] ?? '') ?? [];
  if (one === undefined || another === undefined) return;
  const sentence = `${another} and ${one} contradict each other about thinking; send one of them`;
  violated(ctx, 'exclusive', sentence, another.split('.'));
}

/** said: must have passed checkThinking(). */
export function thinkingParamsOf(said: ReasoningParams): ThinkingParams {
  const [field, maxTokens] = said.budgets.find(([, numTokens = 0]) => numTokens > 0) ?? [];
  const isOn = saying(said)[0]?.[1];
  return { isOn, effort: said.effort, maxTokens, field: field ?? said.needing, hints: said.hints ?? [] };
}

/** Of all generating routes: the job goes on without its client, and the journal keeps it. */
export const durable = z.boolean().default(false);

/** Of all generating routes: whether the answer has a receipt. */
export const receipt = z
  .union([z.boolean(), z.literal('full')], 'must be true, false or "full"')
  .default(false)
  .transform((asked): ReceiptForm | undefined => (asked === true ? 'hashes' : asked || undefined));

interface DurableFields {
  readonly durable: boolean;
  readonly metrics?: boolean;
  readonly timings?: boolean;
  readonly echo?: boolean;
  /** The answers that are asked for. */
  readonly n?: number;
}

/** What a durable answer cannot have, and why. */
const UNKEPT = {
  metrics: 'measurements do not survive a restart of the gateway',
  timings: 'measurements do not survive a restart of the gateway',
  echo: 'the journal keeps what the model writes',
} as const;

/** Refuses what cannot be read again. */
export function checkDurable(ctx: fields.Context, request: DurableFields): void {
  if (!request.durable) return;
  for (const [name, why] of Object.entries(UNKEPT))
    if (request[name as keyof typeof UNKEPT])
      violated(ctx, 'exclusive', `${name} and durable exclude each other: ${why}; send one of them`, [name]);
  const { n = 1 } = request;
  if (n === 1) return;
  const rule = { constraint: 'range(1..=1)', value: String(n) };
  violated(ctx, rule, `durable takes one answer (got n and prompts for ${n}): a job has one`, ['n']);
}
