import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { shown } from '../errors/api-error.ts';
import { memberOf, withoutAnyNulls } from '../json/json-values.ts';

/**
 * Building blocks of request schemas. Each wrong field gives one FieldError with the field, the rule and the value, and
 * all are reported at once. meta() describes the checks that are code, for /openapi.json.
 */

export type Context = Pick<z.RefinementCtx, 'addIssue'>;

/** The rule that a value broke. constraint is the rule's name. */
export interface Rule {
  readonly constraint: string;
  readonly value?: string;
}

export const MAX_TOKENS = 2 ** 31 - 1;
/** llama-server's value of such a field for "limited by the context alone", and of others for "all". */
const UNLIMITED = -1;

/** Reports a broken rule. path: from the value that is checked to the value at fault. */
export function violated(
  ctx: Context,
  rule: Rule | string,
  message: string,
  path: (string | number)[] = [],
): void {
  const params = typeof rule === 'string' ? { constraint: rule } : { ...rule };
  ctx.addIssue({ code: 'custom', message, path, params });
}

export function refuseMissing(ctx: Context, path: (string | number)[]): void {
  violated(ctx, 'required', 'is required', path);
}

/** Reports a value of the wrong type, or none. */
export function mistyped(ctx: Context, name: string, value: unknown, sentence: string): void {
  if (value === undefined) violated(ctx, 'required', `${name} is required`);
  else violated(ctx, 'type', `${name} ${sentence}`);
}

/** Says what was sent. A text in place of a number or boolean is repeated; other texts, lists and objects may be private. */
export function got(value: unknown, expected: string): string {
  if (typeof value === 'string')
    return expected === 'number' || expected === 'boolean' ? JSON.stringify(shown(value)) : 'a string';
  if (Array.isArray(value)) return 'an array';
  if (ArrayBuffer.isView(value)) return 'binary data';
  return typeof value === 'object' && value !== null ? 'an object' : shown(value);
}

/** Refuses a field that would have no effect, because it needs another field that is missing. */
export function refuseIgnored(ctx: Context, isIgnored: boolean, name: string, remedy: string): void {
  if (isIgnored) violated(ctx, 'unsupported', `${name} ${remedy}`, [name]);
}

/** Reports two fields of which only one may be sent; the fault is that of `name`. */
export function refuseBoth(ctx: Context, name: string, other: string, path: string[] = [name]): void {
  const sentence = `${name} and ${other} exclude each other; send one of them`;
  violated(ctx, 'exclusive', sentence, path);
}

/** Reports a list that is too long, and returns whether it is. items: what it has, as the sentence says. */
export function refuseMany(
  ctx: Context,
  name: string,
  [count, max]: readonly [count: number, max: number],
  items: string,
  path: string[] = [],
): boolean {
  if (count <= max) return false;
  const rule = { constraint: `max_count(${max})`, value: String(count) };
  violated(ctx, rule, `${name} must have at most ${max} ${items} (got ${count})`, path);
  return true;
}

/** Writes a float field's value so that it reads as a float: 3 becomes "3.0". */
function decimal(value: number): string {
  return Number.isInteger(value) ? value.toFixed(1) : String(value);
}

/** Any number, also one that was parsed as a bigint because it is too large. */
function number() {
  return z.preprocess((value) => (typeof value === 'bigint' ? Number(value) : value), z.number());
}

interface Range {
  readonly min: number;
  readonly max: number;
  /** Whether the value must be greater than `min`. */
  readonly isAbove?: boolean;
  readonly isWhole?: boolean;
}

function ranged(name: string, { min, max, isAbove = false, isWhole = false }: Range) {
  const written = isWhole ? String : decimal;
  const constraint = `range(${written(min)}${isAbove ? '<' : ''}..=${written(max)})`;
  return number()
    .superRefine((value, ctx) => {
      const rule = { constraint, value: written(value) };
      const refuse = (bound: string, broken: Rule = rule): void =>
        violated(ctx, broken, `${name} must be ${bound} (got ${rule.value})`);
      if (isWhole && !Number.isInteger(value)) refuse('a whole number', { ...rule, constraint: 'type' });
      else if (value < min || (isAbove && value === min))
        refuse(`${isAbove ? 'above' : 'at least'} ${written(min)}`);
      else if (value > max) refuse(`at most ${written(max)}`);
    })
    .meta({
      type: isWhole ? 'integer' : 'number',
      [isAbove ? 'exclusiveMinimum' : 'minimum']: min,
      maximum: max,
    });
}

export function float(name: string, min: number, max: number) {
  return ranged(name, { min, max });
}

export function floatAbove(name: string, min: number, max: number) {
  return ranged(name, { min, max, isAbove: true });
}

export function integer(name: string, min: number, max: number) {
  return ranged(name, { min, max, isWhole: true });
}

/** A field that may also have one of the values for "unlimited", which is then read as `as`. */
export function orUnlimited<Schema extends z.ZodType>(
  schema: Schema,
  as: number | undefined,
  values: readonly number[] = [UNLIMITED],
) {
  const read = (value: unknown): unknown => (values.some((known) => known === value) ? as : value);
  return z.preprocess(read, schema).meta({ minimum: Math.min(...values) });
}

/** A number of tokens that may be left out or unlimited; both are read as undefined. */
export function maxTokens(name: string, min = 1, values?: readonly number[]) {
  return orUnlimited(integer(name, min, MAX_TOKENS).optional(), undefined, values);
}

/** The tokens that a text keeps; −1 is vLLM's value for all that fit. Undefined: a text that does not fit is refused. */
export const truncatePromptTokens = orUnlimited(
  integer('truncate_prompt_tokens', 1, MAX_TOKENS).optional(),
  MAX_TOKENS,
);

/** Where a request stands among those of its caller. The names are the ends of the range, and its middle. */
const PRIORITIES = new Map<unknown, number>([
  ['high', -100],
  ['normal', 0],
  ['low', 100],
]);
const MAX_PRIORITY = 100;
const PRIORITY_RULE = `must be a whole number from -${MAX_PRIORITY} to ${MAX_PRIORITY}, or "high", "normal" or "low"`;

export const priority = z
  .unknown()
  .transform((sent, ctx): number => {
    const value = PRIORITIES.get(sent) ?? sent;
    if (typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= MAX_PRIORITY) return value;
    const rule = { constraint: `range(-${MAX_PRIORITY}..=${MAX_PRIORITY})` };
    violated(ctx, rule, `${PRIORITY_RULE} (got ${got(sent, 'number')})`);
    return z.NEVER;
  })
  .meta({
    anyOf: [
      { type: 'integer', minimum: -MAX_PRIORITY, maximum: MAX_PRIORITY },
      { enum: [...PRIORITIES.keys()] },
    ],
  })
  .default(0);

/** A list of strings, or one string; an empty one counts as none. */
export function oneOrMany<Schema extends z.ZodType>(schema: Schema) {
  const read = (value: unknown): unknown =>
    typeof value === 'string' ? (value === '' ? [] : [value]) : value;
  return z.preprocess(read, schema).meta({ type: ['string', 'array'] });
}

const U64_MAX = 2n ** 64n - 1n;
const I64_MIN = -(2n ** 63n);

/** Any unsigned 64-bit integer. Negative 64-bit integers are taken as two's complement. */
export function seed(name: string) {
  return z
    .union([z.number(), z.bigint()], {
      error: ({ input }) => `must be a whole number (got ${got(input, 'number')})`,
    })
    .transform((value, ctx): bigint => {
      const refuse = (constraint: string, kind: string): void =>
        violated(ctx, { constraint, value: String(value) }, `${name} must be a ${kind} (got ${value})`);
      if (typeof value === 'number' && !Number.isInteger(value)) {
        refuse('type', 'whole number');
        return z.NEVER;
      }
      const whole = BigInt(value);
      if (whole < I64_MIN || whole > U64_MAX) refuse('range(u64)', '64-bit integer');
      return BigInt.asUintN(64, whole);
    })
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
  const rules = ['non_empty', `max_length(${maxCharacters})`] as const;
  return z
    .array(z.string())
    .superRefine((stops, ctx) => {
      if (refuseMany(ctx, name, [stops.length, maxCount], 'sequences')) return;
      for (const [i, stop] of stops.entries())
        checkLength(ctx, `stop sequence ${i}`, stop, maxCharacters, rules);
    })
    .meta({ maxItems: maxCount });
}

/** Counts Unicode code points. */
function checkLength(
  ctx: Context,
  what: string,
  value: string,
  max: number,
  [ofEmpty, ofLong]: readonly [string, string],
): void {
  let count = 0;
  for (const _ of value) count++;
  if (count === 0) violated(ctx, ofEmpty, `${what} must not be empty`);
  if (count > max) violated(ctx, ofLong, `${what} must be at most ${max} characters (got ${count})`);
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
  const rule = `length(1..=${maxCharacters})`;
  return z
    .string()
    .superRefine((value, ctx) => checkLength(ctx, name, value, maxCharacters, [rule, rule]))
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
        mistyped(ctx, name, ids, `must be an array (got ${got(ids, 'array')})`);
        return z.NEVER;
      }
      if (ids.length < minCount) violated(ctx, 'non_empty', `${name} must not be empty`);
      refuseMany(ctx, name, [ids.length, maxCount], 'tokens');
      // One fault is enough for a list that may have a hundred thousand.
      const index = ids.findIndex((id) => !Number.isSafeInteger(id) || id < 0);
      if (index >= 0) violated(ctx, 'token_id', `${name}[${index}] must be a whole number from 0 on`);
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
  onMissing: (ctx: Context) => void = () => {},
) {
  return z
    .unknown()
    .superRefine((sent, ctx) => {
      const type = memberOf(sent, 'type');
      if (type === undefined) onMissing(ctx);
      else if (!types.includes(type)) violated(ctx, 'unsupported', sentenceOf(type), ['type']);
    })
    .pipe(schema);
}

/**
 * The value in a table of fields that nothing here obeys: no answer could depend on the field, and the client is told that it is
 * ignored. Otherwise such a field accepts only values that ask for what happens anyway. Each API has tables of its own.
 */
export const ANYTHING = 'anything';

/** The accepted values; an empty list accepts none. */
type Accepted = typeof ANYTHING | readonly unknown[];
export type IgnoredFields = Readonly<Record<string, Accepted>>;

export const NOTHING: readonly unknown[] = [];
export const NO: readonly unknown[] = [false];
export const EITHER: readonly unknown[] = [true, false];
export const ZERO: readonly unknown[] = [0];
export const ONE: readonly unknown[] = [1];
export const NO_ITEMS: readonly unknown[] = [[]];
export const NO_MEMBERS: readonly unknown[] = [{}];

type IgnoredField = z.ZodOptional<z.ZodUnknown>;

/** Makes the fields' schemas, to be spread into the schema of an object. */
export function ignoredFields<Table extends IgnoredFields>(table: Table): Record<keyof Table, IgnoredField> {
  const schemas = Object.entries(table).map(([name, accepted]) => [name, ignoredField(accepted)] as const);
  return Object.fromEntries(schemas) as Record<keyof Table, IgnoredField>;
}

export const ignored: IgnoredField = z
  .unknown()
  .meta({ description: 'Ignored: no answer depends on it.' })
  .optional();
const known = new Map<string, IgnoredField>();

/**
 * Fields that accept the same values share one schema: there are a hundred fields, and each schema adds to the time of a
 * start.
 */
function ignoredField(accepted: Accepted): IgnoredField {
  if (accepted === ANYTHING) return ignored;
  const key = JSON.stringify(accepted);
  const field = known.get(key) ?? newIgnoredField(accepted);
  known.set(key, field);
  return field;
}

function newIgnoredField(accepted: readonly unknown[]): IgnoredField {
  const values = accepted.map((value) => ` or send ${JSON.stringify(value)}`).join('');
  const sentence = `is not supported; leave it out${values}`;
  const description =
    accepted.length === 0 ? 'Not supported.' : 'Changes nothing: it may only ask for what happens anyway.';
  return z
    .unknown()
    .superRefine((value, ctx) => {
      const present = withoutAnyNulls(value);
      const isAccepted = accepted.some((known) => isDeepStrictEqual(known, present));
      if (!isAccepted) violated(ctx, 'unsupported', sentence);
    })
    .meta({ ...(accepted.length === 0 ? { not: {} } : { enum: [...accepted] }), description })
    .optional();
}
