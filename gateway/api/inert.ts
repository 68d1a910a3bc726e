import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { asList } from '../json/json-values.ts';
import { violated } from './fields.ts';
import { structureOf, withoutAnyNulls } from './members.ts';

/**
 * Fields that nothing here obeys, and the values that each may have without being refused. ANYTHING is for fields that no
 * answer could depend on; the client is told that they are ignored. Otherwise a field accepts only values that ask for
 * what happens anyway. Each API has a table of its own.
 */

export const ANYTHING = 'anything';

/** The accepted values; an empty list accepts none. */
type Accepted = typeof ANYTHING | readonly unknown[];
export type InertFields = Readonly<Record<string, Accepted>>;

export const NOTHING: readonly unknown[] = [];
export const NO: readonly unknown[] = [false];
export const EITHER: readonly unknown[] = [true, false];
export const ZERO: readonly unknown[] = [0];
export const ONE: readonly unknown[] = [1];
export const NO_ITEMS: readonly unknown[] = [[]];
export const NO_MEMBERS: readonly unknown[] = [{}];

type InertField = z.ZodOptional<z.ZodUnknown>;

/** Makes the fields' schemas, to be spread into the schema of an object. */
export function inert<Table extends InertFields>(table: Table): Record<keyof Table, InertField> {
  const schemas = Object.entries(table).map(([name, accepted]) => [name, inertField(accepted)] as const);
  return Object.fromEntries(schemas) as Record<keyof Table, InertField>;
}

const ignored: InertField = z.unknown().meta({ description: 'Ignored.' }).optional();
const known = new Map<string, InertField>();

/**
 * Fields that accept the same values share one schema: there are a hundred fields, and each schema adds to the time of a
 * start.
 */
function inertField(accepted: Accepted): InertField {
  if (accepted === ANYTHING) return ignored;
  const key = JSON.stringify(accepted);
  const field = known.get(key) ?? newInertField(accepted);
  known.set(key, field);
  return field;
}

function newInertField(accepted: readonly unknown[]): InertField {
  const values = accepted.map((value) => ` or send ${JSON.stringify(value)}`).join('');
  const sentence = `is not supported; leave it out${values}`;
  return z
    .unknown()
    .superRefine((value, ctx) => {
      const present = withoutAnyNulls(value);
      const isAccepted = accepted.some((known) => isDeepStrictEqual(known, present));
      if (!isAccepted) violated(ctx, { constraint: 'unsupported' }, sentence);
    })
    .meta(accepted.length === 0 ? { not: {}, description: 'Not supported.' } : { enum: [...accepted] })
    .optional();
}

/** Unknown members by these names are named in a header as they are. */
const PLAIN_NAME = /^[\w$.-]{1,64}$/;

/**
 * Names the members of a body that were sent and are ignored, each once: those with ANYTHING in their tables, and those below
 * the top level that an object's schema drops. A name that is too long or strange for a header is written as "?".
 */
export function ignoredIn(schema: z.ZodType, body: unknown): string[] {
  return [...new Set(ignoredMembers(schema, body, ''))];
}

/** An object's own members come first, then those inside them. */
function ignoredMembers(schema: z.core.$ZodType, value: unknown, prefix: string): string[] {
  if (typeof value !== 'object' || value === null) return [];
  const def = structureOf(schema, value)?.def;
  if (def?.type === 'array')
    return asList(value).flatMap((item) => ignoredMembers(def.element, item, prefix));
  if (def?.type !== 'object') return [];
  const own: string[] = [];
  const unknown: string[] = [];
  const inside: string[] = [];
  for (const [name, member] of Object.entries(value)) {
    if (member === null) continue;
    const known = Object.hasOwn(def.shape, name) ? def.shape[name] : undefined;
    if (known === undefined) unknown.push(prefix + (PLAIN_NAME.test(name) ? name : '?'));
    else if (known === ignored) own.push(prefix + name);
    else inside.push(...ignoredMembers(known, member, `${prefix}${name}.`));
  }
  return [...own, ...unknown, ...inside];
}
