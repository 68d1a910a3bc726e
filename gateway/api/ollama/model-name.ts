import * as z from 'zod';
import * as fields from '../fields.ts';

const LATEST = ':latest';

/** The name with the tag that Ollama's names always have. */
export function tagged(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1).includes(':') ? name : name + LATEST;
}

/**
 * The served name that is meant: the tag "latest" may be there or missing on either side. Without a match, the name
 * itself.
 */
export function servedName(name: string, names: readonly string[]): string {
  return names.find((each) => each === name) ?? names.find((each) => tagged(each) === tagged(name)) ?? name;
}

/** The model's name in a request, under either name that the field has had. */
export const nameFields = {
  model: fields.nonEmpty('model').optional(),
  name: fields.nonEmpty('name').optional(),
};

/** In JSON Schema: at least one of the fields is required. */
export const nameRequired = { anyOf: [{ required: ['model'] }, { required: ['name'] }] };

export function namedModel(
  { model, name }: { readonly model?: string | undefined; readonly name?: string | undefined },
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
): string {
  const asked = model ?? name;
  if (asked !== undefined) return asked;
  fields.violated(ctx, { constraint: 'required' }, 'is required', ['model']);
  return z.NEVER;
}
