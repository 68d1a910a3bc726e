import * as z from 'zod';
import type { Call } from '../../calls/call.ts';
import { shown } from '../../errors/api-error.ts';
import { durable } from '../durable-field.ts';
import * as fields from '../fields.ts';
import { MAX_TOKENS, UNLIMITED, violated } from '../fields.ts';
import { ignoredIn, inert } from '../inert.ts';
import { checkWindow, ignoredWindow, penaltyFields } from '../penalties.ts';
import { tokenConstraints } from '../token-constraints.ts';
import type { Completion } from './completion.ts';
import { grammarFields, grammarNames, grammarOf } from './grammar-fields.ts';
import { streamOptionsInert } from './inert-fields.ts';

/** Fields that chat completions and completions share. */

const MAX_CHOICES_PER_PROMPT = 8;

/** vLLM's value of top_k for "all tokens". */
const ALL_TOKENS = -1;

export const sharedFields = {
  model: fields.nonEmpty('model'),
  stream: z.boolean().default(false),
  /** Whether each choice says how long its parts took. */
  timings: z.boolean().default(false),
  durable,
  stream_options: z
    .object({ include_usage: z.boolean().default(false), ...inert(streamOptionsInert) })
    .optional(),
  n: fields.integer('n', 1, MAX_CHOICES_PER_PROMPT).default(1),
  temperature: fields.float('temperature', 0, 2).default(1),
  top_p: fields.float('top_p', 0, 1).default(1),
  top_k: z
    .preprocess((value) => (value === ALL_TOKENS ? 0 : value), fields.integer('top_k', 0, 2 ** 32 - 1))
    .meta({ minimum: ALL_TOKENS })
    .default(0),
  min_p: fields.float('min_p', 0, 1).default(0),
  repetition_penalty: fields.floatAbove('repetition_penalty', 0, 2).default(1),
  ...penaltyFields,
  logit_bias: logitBias('logit_bias').default(new Map()),
  seed: fields.seed('seed').optional(),
  ...tokenConstraints,
  ...grammarFields,
  stop: z
    .preprocess(
      (value) => (typeof value === 'string' ? (value === '' ? [] : [value]) : value),
      fields.stopSequences('stop'),
    )
    .meta({ type: ['string', 'array'] })
    .default([]),
};

export type SharedFields = z.output<z.ZodObject<typeof sharedFields>>;

export function maxTokens(name: string) {
  return z
    .preprocess(
      (value) => (value === UNLIMITED ? undefined : value),
      fields.integer(name, 1, MAX_TOKENS).optional(),
    )
    .meta({ minimum: UNLIMITED });
}

/** The members of a call that both routes make alike. */
export function sharedCall(
  request: SharedFields,
): Pick<
  Call,
  'model' | 'isStreamed' | 'format' | 'sampling' | 'seed' | 'tokens' | 'stop' | 'numChoices' | 'durable'
> {
  const { repetition_penalty, repeat_penalty } = request;
  const [field] = grammarNames(request);
  const grammar = grammarOf(request);
  return {
    model: request.model,
    isStreamed: request.stream,
    format: field === undefined || grammar === undefined ? undefined : { field, grammar },
    sampling: {
      temperature: request.temperature,
      topK: request.top_k,
      topP: request.top_p,
      minP: request.min_p,
      // Either of its names may be sent.
      repetitionPenalty: repetition_penalty === 1 ? repeat_penalty : repetition_penalty,
      presencePenalty: request.presence_penalty,
      frequencyPenalty: request.frequency_penalty,
      logitBias: request.logit_bias,
    },
    seed: request.seed,
    tokens: request,
    stop: request.stop,
    numChoices: request.n,
    durable: request.durable ? 'durable' : undefined,
  };
}

/** What the answers of both routes repeat or obey of the request. */
export function completionOf({ model, stream_options }: SharedFields): Omit<Completion, 'facts'> {
  return { model, includesUsage: stream_options?.include_usage ?? false };
}

/** Checks the rules that concern several penalties. */
export function checkPenalties(ctx: Pick<z.RefinementCtx, 'addIssue'>, request: SharedFields): void {
  const { repetition_penalty, repeat_penalty } = request;
  const isSecond = repeat_penalty !== 1 && repetition_penalty !== 1 && repeat_penalty !== repetition_penalty;
  const sentence = 'repeat_penalty and repetition_penalty mean the same; send one of them';
  if (isSecond) fields.violated(ctx, { constraint: 'exclusive' }, sentence, ['repeat_penalty']);
  checkWindow(ctx, request, repetition_penalty !== 1);
}

/**
 * Names the fields that were sent and ignored. stream_options is ignored without a stream: whole answers always have what
 * it asks for.
 */
export function ignoredByBoth(schema: z.ZodType, body: unknown, request: SharedFields): string[] {
  const { stream, stream_options } = request;
  const ofStream = !stream && stream_options !== undefined ? ['stream_options'] : [];
  return [...ignoredIn(schema, body), ...ignoredWindow(request), ...ofStream];
}

const MAX_BIASES = 1024;
const MAX_BIAS = 100;

/** Parses `{"50256": -100}`: numbers that are added to the logits of tokens. Ids are checked against the model later. */
export function logitBias(name: string) {
  return z.record(z.string(), z.number()).transform((biases, ctx): ReadonlyMap<number, number> => {
    const entries = Object.entries(biases);
    if (entries.length > MAX_BIASES) {
      const rule = { constraint: `max_count(${MAX_BIASES})`, value: String(entries.length) };
      violated(ctx, rule, `${name} must have at most ${MAX_BIASES} tokens (got ${entries.length})`);
      return z.NEVER;
    }
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
