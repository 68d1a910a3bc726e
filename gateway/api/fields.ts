import * as z from 'zod';
import { ApiError } from '../errors/api-error.ts';
import { memberOf } from '../json/json-values.ts';
import { fieldErrors, got, type Rule } from './field-errors.ts';
import { withoutNulls } from './members.ts';

/**
 * Building blocks of request schemas. Each wrong field gives one FieldError with the field, the rule and the value, and
 * all are reported at once. meta() describes the checks that are code, for /openapi.json.
 */

type Refinement = Pick<z.RefinementCtx, 'addIssue'>;

/** The most errors that one answer lists, which bounds its size. */
const MAX_LISTED_ERRORS = 16;

/** The largest number of tokens that a field can ask for. */
export const MAX_TOKENS = 2 ** 31 - 1;
/** llama-server's value of such a field for "limited by the context alone". */
export const UNLIMITED = -1;

/** Reports a broken rule. path: from the value that is checked to the value at fault. */
export function violated(ctx: Refinement, rule: Rule, message: string, path: (string | number)[] = []): void {
  ctx.addIssue({ code: 'custom', message, path, params: { ...rule } });
}

/** Refuses a field that would have no effect, because it needs another field that is missing. */
export function refuseIgnored(ctx: Refinement, isIgnored: boolean, name: string, remedy: string): void {
  if (isIgnored) violated(ctx, { constraint: 'unsupported' }, `${name} ${remedy}`, [name]);
}

/** Writes a float field's value so that it reads as a float: 3 becomes "3.0". */
function decimal(value: number): string {
  return Number.isInteger(value) ? value.toFixed(1) : String(value);
}

/** Any number, also one that was parsed as a bigint because it is too large. */
function number() {
  return z.preprocess((value) => (typeof value === 'bigint' ? Number(value) : value), z.number());
}

export function float(name: string, min: number, max: number) {
  const constraint = `range(${decimal(min)}..=${decimal(max)})`;
  return number()
    .superRefine((value, ctx) => {
      const rule = { constraint, value: decimal(value) };
      if (value < min)
        violated(ctx, rule, `${name} must be at least ${decimal(min)} (got ${decimal(value)})`);
      if (value > max) violated(ctx, rule, `${name} must be at most ${decimal(max)} (got ${decimal(value)})`);
    })
    .meta({ type: 'number', minimum: min, maximum: max });
}

/** A float that must be greater than `above`. */
export function floatAbove(name: string, above: number, max: number) {
  const constraint = `range(${decimal(above)}<..=${decimal(max)})`;
  return number()
    .superRefine((value, ctx) => {
      const rule = { constraint, value: decimal(value) };
      if (value <= above)
        violated(ctx, rule, `${name} must be above ${decimal(above)} (got ${decimal(value)})`);
      if (value > max) violated(ctx, rule, `${name} must be at most ${decimal(max)} (got ${decimal(value)})`);
    })
    .meta({ type: 'number', exclusiveMinimum: above, maximum: max });
}

export function integer(name: string, min: number, max: number) {
  const constraint = `range(${min}..=${max})`;
  return number()
    .superRefine((value, ctx) => {
      const rule = { constraint, value: String(value) };
      if (!Number.isInteger(value))
        violated(
          ctx,
          { constraint: 'type', value: rule.value },
          `${name} must be a whole number (got ${value})`,
        );
      else if (value < min) violated(ctx, rule, `${name} must be at least ${min} (got ${value})`);
      else if (value > max) violated(ctx, rule, `${name} must be at most ${max} (got ${value})`);
    })
    .meta({ type: 'integer', minimum: min, maximum: max });
}

const U64_MAX = 2n ** 64n - 1n;
const I64_MIN = -(2n ** 63n);

/** Any unsigned 64-bit integer. Negative 64-bit integers are taken as two's complement. */
export function seed(name: string) {
  return z
    .union([z.number(), z.bigint()], {
      error: ({ input }) => `must be a whole number (got ${got(input, 'number')})`,
    })
    .superRefine((value, ctx) => {
      const whole = typeof value === 'bigint' || Number.isInteger(value);
      if (!whole)
        violated(
          ctx,
          { constraint: 'type', value: String(value) },
          `${name} must be a whole number (got ${value})`,
        );
      else if (BigInt(value) < I64_MIN || BigInt(value) > U64_MAX) {
        violated(
          ctx,
          { constraint: 'range(u64)', value: String(value) },
          `${name} must be a 64-bit integer (got ${value})`,
        );
      }
    })
    .transform((value) =>
      BigInt.asUintN(64, BigInt(Number.isInteger(value) || typeof value === 'bigint' ? value : 0)),
    )
    .meta({ type: 'integer', anyOf: undefined });
}

/** How many stop strings a request may have, and how many characters each. */
export interface StopLimits {
  readonly maxCount: number;
  readonly maxCharacters: number;
}

const STOP_LIMITS: StopLimits = { maxCount: 64, maxCharacters: 1024 };

/** Stop strings. Their values may be private and are not repeated in errors. */
export function stopSequences(name: string, { maxCount, maxCharacters } = STOP_LIMITS) {
  return z
    .array(z.string())
    .superRefine((stops, ctx) => {
      if (stops.length > maxCount) {
        const rule = { constraint: `max_count(${maxCount})`, value: String(stops.length) };
        violated(ctx, rule, `${name} must have at most ${maxCount} sequences (got ${stops.length})`);
        return;
      }
      for (const [i, stop] of stops.entries()) {
        const characters = countCodePoints(stop);
        if (characters === 0)
          violated(ctx, { constraint: 'non_empty' }, `stop sequence ${i} must not be empty`);
        if (characters > maxCharacters) {
          const rule = { constraint: `max_length(${maxCharacters})` };
          const sentence = `stop sequence ${i} must be at most ${maxCharacters} characters (got ${characters})`;
          violated(ctx, rule, sentence);
        }
      }
    })
    .meta({ maxItems: maxCount });
}

export function nonEmpty(name: string) {
  return z
    .string()
    .superRefine((value, ctx) => {
      if (value === '') violated(ctx, { constraint: 'non_empty', value }, `${name} must not be empty`);
    })
    .meta({ minLength: 1 });
}

/** A text of 1 to maxCharacters Unicode code points. It may be private and is not repeated in errors. */
export function text(name: string, maxCharacters: number) {
  const constraint = `length(1..=${maxCharacters})`;
  return z
    .string()
    .superRefine((value, ctx) => {
      const characters = countCodePoints(value);
      if (characters === 0) violated(ctx, { constraint }, `${name} must not be empty`);
      if (characters > maxCharacters) {
        violated(
          ctx,
          { constraint },
          `${name} must be at most ${maxCharacters} characters (got ${characters})`,
        );
      }
    })
    .meta({ minLength: 1, maxLength: maxCharacters });
}

/**
 * Token ids. They are text in another form and are not repeated in errors. The upper bound of ids is checked later, with
 * the vocabulary.
 */
export function tokenIds(name: string, minCount: 0 | 1, maxCount: number) {
  // Not z.array(), which takes too long for half a million ids.
  return z
    .unknown()
    .transform((ids, ctx): readonly number[] => {
      if (!Array.isArray(ids)) {
        const constraint = ids === undefined ? 'required' : 'type';
        violated(
          ctx,
          { constraint },
          ids === undefined ? `${name} is required` : `${name} must be an array (got ${got(ids, 'array')})`,
        );
        return z.NEVER;
      }
      if (ids.length < minCount) violated(ctx, { constraint: 'non_empty' }, `${name} must not be empty`);
      if (ids.length > maxCount) {
        const rule = { constraint: `max_count(${maxCount})`, value: String(ids.length) };
        violated(ctx, rule, `${name} must have at most ${maxCount} tokens (got ${ids.length})`);
      }
      // One fault is enough for a list that may have a hundred thousand.
      const index = ids.findIndex((id) => !Number.isSafeInteger(id) || id < 0);
      if (index >= 0)
        violated(ctx, { constraint: 'token_id' }, `${name}[${index}] must be a whole number from 0 on`);
      return ids;
    })
    .meta({
      type: 'array',
      items: { type: 'integer', minimum: 0 },
      minItems: minCount,
      ...(Number.isFinite(maxCount) ? { maxItems: maxCount } : {}),
    });
}

/**
 * An object with a member `type`. One of another type is refused for its type, not for the members that it lacks. onMissing
 * reports an object without a type.
 */
export function typed<Schema extends z.ZodType>(
  types: readonly unknown[],
  sentenceOf: (type: unknown) => string,
  schema: Schema,
  onMissing: (ctx: Refinement) => void = () => {},
) {
  return z
    .unknown()
    .superRefine((sent, ctx) => {
      const type = memberOf(sent, 'type');
      if (type === undefined) onMissing(ctx);
      else if (!types.includes(type))
        violated(ctx, { constraint: 'unsupported' }, sentenceOf(type), ['type']);
    })
    .pipe(schema);
}

/** A field that must not come together with another one. */
export function excludedBy(name: string, other: string) {
  return z
    .unknown()
    .superRefine((_, ctx) => {
      violated(ctx, { constraint: 'exclusive' }, `${name} and ${other} exclude each other; send one of them`);
    })
    .optional();
}

function countCodePoints(value: string): number {
  let count = 0;
  for (const _ of value) count++;
  return count;
}

/** Parses the body by the schema. Throws a 400 that lists every field at fault. */
export function parseBody<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  const parsed = schema.safeParse(withoutNulls(schema, body), { reportInput: true });
  if (parsed.success) return parsed.data;
  const all = fieldErrors(parsed.error, MAX_LISTED_ERRORS + 1);
  const errors = all.slice(0, MAX_LISTED_ERRORS);
  const more = all.length > errors.length ? '; and more' : '';
  throw new ApiError({
    status: 400,
    code: errors[0]?.constraint === 'unsupported' ? 'unsupported_parameter' : 'invalid_request',
    message: errors.map((error) => error.message).join('; ') + more,
    fieldErrors: errors,
  });
}
