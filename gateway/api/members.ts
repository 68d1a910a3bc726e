import type * as z from 'zod';
import { memberOf } from '../json/json-values.ts';

/** Goes through a body along its schema, which says where members are fields and where they are a value of the client's. */

/** A schema of which the members are known. */
type Structure = z.ZodObject | z.ZodArray | z.ZodRecord;

/** The objects, lists or records that a schema accepts, below its defaults and code; of a union, those with the value's type. */
export function structureOf(schema: z.core.$ZodType, value: unknown): Structure | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case 'object':
    case 'array':
    case 'record':
      return schema as Structure;
    case 'optional':
    case 'default':
    case 'prefault':
      return structureOf(def.innerType, value);
    case 'pipe':
      return structureOf(def.in, value) ?? structureOf(def.out, value);
    case 'union':
      return structureOfUnion(def, value);
    default:
      return undefined;
  }
}

/** Without the member that tells them apart, a value is of the first kind. */
function structureOfUnion(
  def: z.core.$ZodUnionDef | z.core.$ZodDiscriminatedUnionDef,
  value: unknown,
): Structure | undefined {
  if (!('discriminator' in def)) return undefined;
  const kind = memberOf(value, def.discriminator) ?? undefined;
  const option = def.options.find((each) => {
    const kinds = each._zod.propValues?.[def.discriminator];
    return kind === undefined || kinds?.has(kind as z.core.util.Primitive);
  });
  return option && structureOf(option, value);
}

/**
 * Drops fields that are null: in requests, null means absent. In a value of the client's, such as a JSON Schema, null is a
 * value like any other. A value without such fields is returned itself, since copying a large body takes long.
 */
export function withoutNulls(schema: z.core.$ZodType, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const structure = structureOf(schema, value);
  if (structure === undefined) return value;
  const { def } = structure;
  if (def.type === 'array') return Array.isArray(value) ? itemsWithoutNulls(def.element, value) : value;
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return value;
  // Whatever value a record may have, null is among them.
  if (def.type === 'record' && def.valueType._zod.def.type === 'unknown') return value;
  let isSame = true;
  const present: [name: string, member: unknown][] = [];
  for (const [name, member] of Object.entries(value)) {
    const known = def.type === 'object' && Object.hasOwn(def.shape, name) ? def.shape[name] : undefined;
    const kept = known === undefined ? member : withoutNulls(known, member);
    if (kept !== null) present.push([name, kept]);
    isSame &&= kept === member && kept !== null;
  }
  return isSame ? value : Object.fromEntries(present);
}

/** The value without members that are null, at every depth. */
export function withoutAnyNulls(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutAnyNulls);
  const present = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(present.map(([name, member]) => [name, withoutAnyNulls(member)]));
}

function itemsWithoutNulls(element: z.core.$ZodType, items: readonly unknown[]): readonly unknown[] {
  const kept = items.map((item) => withoutNulls(element, item));
  return kept.every((item, index) => item === items[index]) ? items : kept;
}
