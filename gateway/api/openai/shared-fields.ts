import * as z from 'zod';
import type { Call } from '../../calls/call.ts';
import { ignoredIn } from '../body.ts';
import { durable } from '../durable-field.ts';
import * as fields from '../fields.ts';
import { inert } from '../fields.ts';
import {
  checkWindow,
  ignoredWindow,
  logitBias,
  MAX_TOP_K,
  penaltyFields,
  samplingFields,
  samplingOf,
  tokenConstraints,
} from '../sampling-fields.ts';
import type { Completion } from './completion.ts';
import { grammarFields, grammarNames, grammarOf } from './grammar-fields.ts';
import { streamOptionsInert } from './inert-fields.ts';

/** Fields that chat completions and completions share. */

const MAX_CHOICES_PER_PROMPT = 8;

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

/** The members of a call that both routes make alike. */
export function sharedCall(
  request: SharedFields,
): Pick<
  Call,
  | 'model'
  | 'isStreamed'
  | 'format'
  | 'sampling'
  | 'seed'
  | 'tokens'
  | 'stop'
  | 'numChoices'
  | 'durable'
  | 'priority'
> {
  const [field] = grammarNames(request);
  const grammar = grammarOf(request);
  return {
    model: request.model,
    isStreamed: request.stream,
    format: field === undefined || grammar === undefined ? undefined : { field, grammar },
    sampling: samplingOf(request),
    seed: request.seed,
    tokens: request,
    stop: request.stop,
    numChoices: request.n,
    priority: request.priority,
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
