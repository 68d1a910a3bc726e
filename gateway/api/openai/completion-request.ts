import * as z from 'zod';
import { codec } from '../body.ts';
import { checkMinTokens } from '../call-fields.ts';
import * as fields from '../fields.ts';
import { got, ignoredFields, MAX_TOKENS, refuseIgnored, violated } from '../fields.ts';
import { completionFormat } from './choices.ts';
import { completionEncoding } from './completion.ts';
import { checkShared, completionIgnored, ignoredOptions, sharedCall, sharedFields } from './fields.ts';

const FORMS = 'a string, a list of strings, a list of token ids, or a list of lists of token ids';

const TEXT = { type: 'string' };
const IDS = { type: 'array', items: { type: 'integer', minimum: 0 } };
const SHAPES = [
  TEXT,
  { type: 'array', items: TEXT, minItems: 1 },
  IDS,
  { type: 'array', items: IDS, minItems: 1 },
];

/** Parses OpenAI's four forms of `prompt` into a list of prompts. Ids are checked against the model later. */
export function prompts(name: string) {
  return z
    .unknown()
    .transform((value, ctx): readonly (string | readonly number[])[] => {
      if (typeof value === 'string') return [value];
      if (isListOf(value, isString)) return value;
      if (isListOf(value, isNumber)) return isIds(name, value, [], ctx) ? [value] : z.NEVER;
      if (isListOf(value, isNumbers))
        return value.every((ids, index) => isIds(name, ids, [index], ctx)) ? value : z.NEVER;
      fields.mistyped(ctx, name, value, `must be ${FORMS} (got ${got(value, 'array')})`);
      return z.NEVER;
    })
    .meta({ anyOf: SHAPES });
}

/** Reports the first number that cannot be an id, with its place. */
function isIds(name: string, numbers: readonly number[], path: number[], ctx: fields.Context): boolean {
  const index = numbers.findIndex((number) => !Number.isInteger(number) || number < 0);
  if (index < 0) return true;
  const place = [...path, index];
  const message = `${[name, ...place].join('.')} must be a token id, a whole number from 0 (got ${numbers[index]})`;
  violated(ctx, { constraint: 'token_id', value: String(numbers[index]) }, message, place);
  return false;
}

function isListOf<Item>(value: unknown, isItem: (item: unknown) => item is Item): value is readonly Item[] {
  return Array.isArray(value) && value.length > 0 && value.every(isItem);
}

const isString = (value: unknown) => typeof value === 'string';
const isNumber = (value: unknown) => typeof value === 'number';

/** An empty list passes here and is refused later, as a prompt without tokens. */
function isNumbers(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every(isNumber);
}

/** The most choices of one request, over all its prompts. */
const MAX_CHOICES = 64;
const DEFAULT_MAX_TOKENS = 16;
const MAX_LOGPROBS = 20;

const body = z
  .strictObject({
    ...sharedFields,
    prompt: prompts('prompt'),
    suffix: z.string().default(''),
    max_tokens: fields
      .orUnlimited(fields.integer('max_tokens', 0, MAX_TOKENS), MAX_TOKENS)
      .default(DEFAULT_MAX_TOKENS),
    logprobs: fields.integer('logprobs', 0, MAX_LOGPROBS).optional(),
    echo: z.boolean().default(false),
    ...ignoredFields(completionIgnored),
  })
  .superRefine((request, ctx) => {
    const { prompt, suffix, n, best_of, echo, min_tokens, max_tokens, receipt } = request;
    if (max_tokens === 0 && !echo) {
      const rule = { constraint: `range(1..=${MAX_TOKENS})`, value: '0' };
      violated(ctx, rule, 'max_tokens must be at least 1, unless echo is true (got 0)', ['max_tokens']);
    }
    refuseIgnored(ctx, max_tokens === 0 && !!receipt, 'receipt', 'needs max_tokens to be at least 1');
    if (suffix !== '' && echo) {
      const message = 'suffix cannot be used with echo: an answer in a gap does not begin with its prompt';
      violated(ctx, 'exclusive', message, ['suffix']);
    }
    checkMinTokens(ctx, min_tokens, { name: 'max_tokens', value: max_tokens, fallback: DEFAULT_MAX_TOKENS });
    const numChoices = prompt.length * n;
    checkShared(ctx, request, { n: numChoices, echo });
    const isIgnored = best_of !== undefined && n > 1;
    refuseIgnored(ctx, isIgnored, 'best_of', 'is not supported with an n above 1; leave it out');
    if (numChoices <= MAX_CHOICES) return;
    const rule = { constraint: `max_count(${MAX_CHOICES})`, value: String(numChoices) };
    const sentence = `prompt must ask for at most ${MAX_CHOICES} choices, its prompts times n (got ${numChoices})`;
    violated(ctx, rule, sentence, ['prompt']);
  });

/** POST /v1/completions. */
export const completions = codec(
  body,
  (request) => ({
    call: {
      ...sharedCall(request),
      input: { field: 'prompt', prompts: request.prompt, suffix: request.suffix },
      thinking: {},
      maxTokens: request.max_tokens,
      report: { topLogprobs: request.logprobs, isEchoed: request.echo, timings: request.timings },
    },
    encoding: completionEncoding(request, completionFormat),
  }),
  ignoredOptions,
);
