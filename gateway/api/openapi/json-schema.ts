import * as z from 'zod';

/**
 * The JSON Schema of what a body may be before its defaults are filled in. Rules that are code are not in it, but for what a
 * schema's meta() says of them: who passes it may still get a 400. null, which means absent, is left out everywhere.
 */
export function jsonSchemaOf(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const { def } = zodSchema._zod;
      // What is looked at by code first, and then by a schema that can be shown.
      if (def.type === 'pipe' && isAnything(def.in) && !isKind(def.out, 'transform'))
        Object.assign(jsonSchema, jsonSchemaOf(def.out as z.ZodType), { ...jsonSchema });
      if (def.type === 'default' && isShown(def.defaultValue)) jsonSchema.default = def.defaultValue;
    },
  });
  return json as Record<string, unknown>;
}

/** That of an answer. It may get more members than it has now: none is forbidden. */
export function answerSchemaOf(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return json as Record<string, unknown>;
}

/** What is not looked at, or by code alone. */
function isAnything(schema: z.core.$ZodType): boolean {
  const { def } = (schema as z.ZodType)._zod;
  return (
    isKind(schema, 'unknown') || (isPipe(def) && isKind(def.in, 'unknown') && isKind(def.out, 'transform'))
  );
}

function isPipe(def: z.core.$ZodTypeDef): def is z.core.$ZodPipeDef {
  return def.type === 'pipe';
}

function isKind(schema: z.core.$ZodType, type: string): boolean {
  return schema._zod.def.type === type;
}

function isShown(value: unknown): boolean {
  return ['string', 'number', 'boolean'].includes(typeof value) || Array.isArray(value);
}
