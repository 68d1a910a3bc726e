import type * as z from 'zod';
import type { ParsedCall } from '../calls/call.ts';
import { ApiError, type FieldError, shown } from '../errors/api-error.ts';
import { asList, memberOf } from '../json/json-values.ts';
import { got, ignored, type Rule } from './fields.ts';

/**
 * Reads a body along its schema, which says where members are fields and where they are a value of the client's: parses it, and
 * names what is ignored.
 */

/** The most errors that one answer lists, which bounds its size. */
const MAX_LISTED_ERRORS = 16;

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

type Parsed = Pick<ParsedCall, 'call' | 'ignored'>;

/** What a route takes: the schema of its body, and the call that a body asks for. */
export interface Codec<Body extends z.ZodType = z.ZodType, Asked extends Parsed = ParsedCall> {
  readonly body: Body;
  /** Throws a 400 that names every field at fault. sent: the body as its client wrote it, if it means another one. */
  readonly parse: (meant: unknown, sent?: unknown) => Asked;
}

/** ignored: names what was sent and is ignored, besides the fields whose schemas say so. */
export function codec<Body extends z.ZodType, Asked extends Omit<Parsed, 'ignored'>>(
  body: Body,
  asked: (request: z.output<Body>) => Asked,
  ignored: (request: z.output<Body>) => readonly string[] = () => [],
): Codec<Body, Asked & Pick<Parsed, 'ignored'>> {
  const parse = (meant: unknown, sent: unknown = meant) => {
    const request = parseBody(body, meant);
    return { ...asked(request), ignored: [...ignoredIn(body, sent), ...ignored(request)] };
  };
  return { body, parse };
}

/** A schema of which the members are known. */
type Structure = z.ZodObject | z.ZodArray | z.ZodRecord;

/** The objects, lists or records that a schema accepts, below its defaults and code; of a union, those with the value's type. */
function structureOf(schema: z.core.$ZodType, value: unknown): Structure | undefined {
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
function withoutNulls(schema: z.core.$ZodType, value: unknown): unknown {
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

function itemsWithoutNulls(element: z.core.$ZodType, items: readonly unknown[]): readonly unknown[] {
  const kept = items.map((item) => withoutNulls(element, item));
  return kept.every((item, index) => item === items[index]) ? items : kept;
}

/** Unknown members by these names are named in a header as they are. */
const PLAIN_NAME = /^[\w$.-]{1,64}$/;

/**
 * Names the members of a body that were sent and are ignored, each once: those with ANYTHING in their tables, and those below
 * the top level that an object's schema drops, which a loose object's does not. A name that is too long or strange for a header is written as "?".
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
  const isLoose = def.catchall?._zod.def.type === 'unknown';
  const own: string[] = [];
  const unknown: string[] = [];
  const inside: string[] = [];
  for (const [name, member] of Object.entries(value)) {
    if (member === null) continue;
    const known = Object.hasOwn(def.shape, name) ? def.shape[name] : undefined;
    if (known === undefined && isLoose) continue;
    if (known === undefined) unknown.push(prefix + (PLAIN_NAME.test(name) ? name : '?'));
    else if (known === ignored) own.push(prefix + name);
    else inside.push(...ignoredMembers(known, member, `${prefix}${name}.`));
  }
  return [...own, ...unknown, ...inside];
}

/** Describes the faults of a body from its schema's issues: one sentence for each field, in terms of the request. */

/** The first maxErrors faults, in the order of the schema's fields. */
function fieldErrors(error: z.ZodError, maxErrors: number): FieldError[] {
  return error.issues
    .slice(0, maxErrors)
    .flatMap((issue) =>
      issue.code === 'unrecognized_keys' ? unknownFields(issue, maxErrors) : [faultOf(issue)],
    )
    .slice(0, maxErrors);
}

type Issue = z.core.$ZodIssue;

function fieldOf(issue: Issue): string {
  return issue.path.map(String).join('.') || 'body';
}

function unknownFields(issue: z.core.$ZodIssueUnrecognizedKeys, maxErrors: number): FieldError[] {
  const prefix = issue.path.length === 0 ? '' : `${fieldOf(issue)}.`;
  return issue.keys.slice(0, maxErrors).map((key) => {
    const field = prefix + (shown(key) || '""');
    return { field, constraint: 'unknown', message: `${field} is not a field of this request` };
  });
}

function faultOf(issue: Issue): FieldError {
  const field = fieldOf(issue);
  const rule = issue.code === 'custom' ? (issue.params as Rule | undefined) : undefined;
  const isMissing = issue.code !== 'custom' && issue.input === undefined;
  const sentence = isMissing ? 'is required' : sentenceOf(issue);
  return {
    field,
    constraint: rule?.constraint ?? (isMissing ? 'required' : 'type'),
    // A check that serves several fields writes its sentence without the field's name.
    message: /^(must|is|has|matches) /.test(sentence) ? `${field} ${sentence}` : sentence,
    ...(rule?.value === undefined ? {} : { value: rule.value }),
  };
}

/** The schema's own sentence if it has one. The library's messages are for people who know the library. */
function sentenceOf(issue: Issue): string {
  const isOwn = issue.code === 'custom' || issue.message.startsWith('must ');
  if (isOwn) return issue.message;
  switch (issue.code) {
    case 'invalid_type':
      return typeSentence(KINDS[issue.expected], got(issue.input, issue.expected));
    case 'invalid_value':
      return `must be ${issue.values.map(quoted).join(' or ')} (got ${got(issue.input, 'number')})`;
    default:
      return typeSentence(undefined, got(issue.input, 'object'));
  }
}

function typeSentence(kind: string | undefined, found: string): string {
  return kind === undefined ? `has the wrong type (got ${found})` : `must be ${kind} (got ${found})`;
}

const KINDS: Readonly<Record<string, string>> = {
  array: 'an array',
  boolean: 'true or false',
  number: 'a number',
  object: 'an object',
  record: 'an object',
  string: 'a string',
};

function quoted(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
