import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { violated } from './fields.ts';

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

const known = new Map<string, InertField>();

/**
 * Fields that accept the same values share one schema: there are a hundred fields, and each schema adds to the time of a
 * start.
 */
function inertField(accepted: Accepted): InertField {
  const key = JSON.stringify(accepted);
  const field = known.get(key) ?? newInertField(accepted);
  known.set(key, field);
  return field;
}

function newInertField(accepted: Accepted): InertField {
  if (accepted === ANYTHING) return z.unknown().meta({ description: 'Ignored.' }).optional();
  const values = accepted.map((value) => ` or send ${JSON.stringify(value)}`).join('');
  const sentence = `is not supported; leave it out${values}`;
  return z
    .unknown()
    .superRefine((value, ctx) => {
      const isAccepted = accepted.some((known) => isDeepStrictEqual(known, value));
      if (!isAccepted) violated(ctx, { constraint: 'unsupported' }, sentence);
    })
    .meta(accepted.length === 0 ? { not: {}, description: 'Not supported.' } : { enum: [...accepted] })
    .optional();
}

/** Names the fields that the client sent and that were ignored. object: the body as it was sent. */
export function ignoredIn(table: InertFields, object: object, prefix = ''): string[] {
  const sent = Object.entries(object).filter(([, value]) => value !== null);
  return sent
    .filter(([name]) => Object.hasOwn(table, name) && table[name] === ANYTHING)
    .map(([name]) => prefix + name);
}

/** Unknown members by these names are named in a header as they are. */
const PLAIN_NAME = /^[\w$.-]{1,64}$/;

/**
 * The same for an object below the top level of a body, whose schema drops the members that it does not know. fields: all that
 * it knows, those of the table included. A name that is too long or strange for a header is written as "?".
 */
export function ignoredMembers(fields: object, table: InertFields, object: object, prefix: string): string[] {
  const unknown = Object.keys(object).filter(
    (name) => !Object.hasOwn(fields, name) && (object as Record<string, unknown>)[name] !== null,
  );
  const names = unknown.map((name) => prefix + (PLAIN_NAME.test(name) ? name : '?'));
  return [...ignoredIn(table, object, prefix), ...names];
}
