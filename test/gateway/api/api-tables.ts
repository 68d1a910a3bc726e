import { openApiDocument } from '../../../gateway/api/openapi.ts';
import { routeGroups } from '../../../gateway/app.ts';

/**
 * The tables of docs/api.md that are made of the schemas, by way of /openapi.json. Each stands between a line `<!-- table: … -->`, which
 * says what is in it, and a line `<!-- end of table -->`.
 */

export const API_PAGE = new URL('../../../docs/api.md', import.meta.url);

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly not?: object;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly contentSchema?: Schema;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
}

interface Post {
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
  readonly responses: {
    readonly 200: { readonly content: Readonly<Record<string, { readonly 'x-itemSchema'?: Schema }>> };
  };
}

interface Document {
  readonly paths: Readonly<Record<string, { readonly post?: Post }>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

const document = openApiDocument(routeGroups) as Document;

function resolved(schema: Schema): Schema {
  const name = schema.$ref?.split('/').at(-1) ?? '';
  return schema.$ref === undefined ? schema : (document.components.schemas[name] as Schema);
}

function bodyOf(path: string): Schema {
  const schema = document.paths[path]?.post?.requestBody?.content['application/json']?.schema;
  if (schema === undefined) throw new Error(`POST ${path} has no body in JSON`);
  return resolved(schema);
}

/** The forms that a schema has. */
function formsOf(schema: Schema): readonly Schema[] {
  const { anyOf, oneOf } = resolved(schema);
  const forms = [anyOf, oneOf].flatMap((each) => each ?? []);
  return forms.some(({ properties, type, $ref }) => properties ?? type ?? $ref) ? forms : [];
}

interface Member {
  readonly name: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
}

/** The members of an object and of the objects in it, by their paths. areAll: those of lists and of several forms, too. */
function membersOf(schema: Schema, areAll: boolean, prefix = ''): Member[] {
  const { properties = {}, required = [], items } = resolved(schema);
  const own = Object.entries(properties).flatMap(([name, member]) => [
    { name: prefix + name, schema: member, isRequired: required.includes(name) },
    ...membersOf(member, areAll, `${prefix}${name}.`),
  ]);
  const inside = areAll ? [...formsOf(schema), ...(items ? [items] : [])] : optional(schema);
  return [...own, ...inside.flatMap((each) => membersOf(each, areAll, prefix))];
}

/** The form of an object that may be null instead. */
function optional(schema: Schema): readonly Schema[] {
  const forms = formsOf(schema).filter(({ type }) => type !== 'null');
  return forms.length === 1 ? forms : [];
}

function grouped(value: number): string {
  return String(value)
    .replaceAll(/\B(?=(\d{3})+$)/g, ',')
    .replace('-', '−');
}

/** Bounds that only say what a number can be. */
const NO_BOUND = 2 ** 31 - 1;

function rangeOf(min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY): string {
  const isBounded = max < NO_BOUND || (max > NO_BOUND && max < Number.MAX_SAFE_INTEGER);
  if (min <= -NO_BOUND) return isBounded ? `at most ${grouped(max)}` : '';
  return isBounded ? `${grouped(min)} to ${grouped(max)}` : `from ${grouped(min)}`;
}

/** How many there are in a text or list. */
function lengthOf(min = 0, max?: number): string {
  if (max !== undefined) return rangeOf(min === 0 ? undefined : min, max);
  return min === 0 ? '' : 'not empty';
}

/** What a member may be, in words. */
function valuesOf(sent: Schema): string {
  const schema = resolved(sent);
  if (schema.const !== undefined) return code(schema.const);
  if (schema.enum !== undefined) return schema.enum.map(code).join(', ');
  const forms = formsOf(schema);
  if (forms.length > 0) return oneOf(forms.map(valuesOf));
  const { type = [] } = schema;
  const types = typeof type === 'string' ? [type] : type;
  return oneOf(types.map((each) => valuesOfType(schema, each)));
}

function oneOf(values: readonly string[]): string {
  const different = [...new Set(values)];
  return different.join(different.some((each) => each.includes(', ')) ? '; ' : ' or ');
}

function valuesOfType(schema: Schema, type: string): string {
  const { minimum, exclusiveMinimum: above, maximum, minLength, maxLength, minItems, maxItems } = schema;
  const of = (kind: string, range: string): string => (range === '' ? kind : `${kind}, ${range}`);
  switch (type) {
    case 'integer':
      return of('integer', rangeOf(minimum, maximum));
    case 'number':
      return of(
        'number',
        above === undefined ? rangeOf(minimum, maximum) : `above ${above}, ${rangeOf(undefined, maximum)}`,
      );
    case 'string':
      return of('string', lengthOf(minLength, maxLength) + (maxLength === undefined ? '' : ' code points'));
    case 'array':
      return of(listOf(schema.items), lengthOf(minItems, maxItems));
    default:
      return type;
  }
}

function listOf(items: Schema | undefined): string {
  const { type } = items === undefined ? {} : resolved(items);
  return type === 'string' || type === 'integer' || type === 'number' ? `list of ${type}s` : 'list';
}

function code(value: unknown): string {
  return `\`${JSON.stringify(value)}\``;
}

/** The description as pages have it. */
function meaningOf({ description = '' }: Schema): string {
  return description.replaceAll('’', "'").replaceAll(/[“”]/g, '"').replace(/\.$/, '');
}

/** Whether nothing obeys the member. */
function isInert({ description = '' }: Schema): boolean {
  return /^(Ignored: no|Changes nothing: it may|Not supported)/.test(description);
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  return lines.join('\n').replace(/^\|( --- \|)+$/m, (line) => line.replaceAll(' ', ''));
}

/** Makes the tables of one page. A field that is as one in an earlier table is not described again. */
class Tables {
  /** The route that has each row first. */
  readonly #first = new Map<string, string>();

  of(what: string): string {
    const [, kind = '', name = ''] =
      /^(fields of POST|members of|events of POST|ignored fields) ?(.*)$/.exec(what) ?? [];
    if (kind === 'fields of POST') return this.#fields(name);
    if (kind === 'members of') return members(name);
    if (kind === 'events of POST') return events(name);
    if (kind === 'ignored fields') return ignored();
    throw new Error(`docs/api.md wants a table of ${what}: there is none`);
  }

  #fields(path: string): string {
    const alike = new Map<string, string[]>();
    const own: string[][] = [];
    for (const { name, schema, isRequired } of membersOf(bodyOf(path), false)) {
      if (isInert(schema)) continue;
      const cells = [valuesOf(schema), isRequired ? 'required' : defaultOf(schema), meaningOf(schema)];
      const row = [`\`${name}\``, ...cells].join('|');
      const first = this.#first.get(row);
      if (first === undefined) own.push([`\`${name}\``, ...cells]);
      else alike.set(first, [...(alike.get(first) ?? []), `\`${name}\``]);
      this.#first.set(row, first ?? path);
    }
    const same = [...alike].map(([first, names]) => {
      const whole = names.filter((name) => !names.some((other) => name.startsWith(`${other.slice(0, -1)}.`)));
      return [whole.join(', '), '', '', `as for \`${first}\``];
    });
    return table(['field', 'values', 'default', 'what it is'], [...own, ...same]);
  }
}

function defaultOf({ default: value }: Schema): string {
  const isNone = value === undefined || JSON.stringify(value) === '[]' || JSON.stringify(value) === '{}';
  return isNone || value === '' ? '' : code(value);
}

function members(component: string): string {
  const [name = '', ...path] = component.split('.');
  let schema = document.components.schemas[name] ?? {};
  for (const each of path) schema = resolved(schema.properties?.[each] ?? {}).items ?? {};
  const rows = membersOf(schema, false).map(({ name, schema }) => {
    return [`\`${name}\``, valuesOf(schema).replaceAll('null or ', ''), meaningOf(schema)];
  });
  return table(['key', 'values', 'meaning'], rows);
}

function events(path: string): string {
  const { oneOf = [] } =
    document.paths[path]?.post?.responses[200].content['text/event-stream']?.['x-itemSchema'] ?? {};
  const rows = oneOf.flatMap(({ properties: { event, data } = {} }) =>
    membersOf(data?.contentSchema ?? {}, false).flatMap(({ name, schema }) =>
      name.startsWith('timings.') || name.startsWith('receipt.')
        ? []
        : [[`\`${event?.const}\``, `\`${name}\``, valuesOf(schema), meaningOf(schema)]],
    ),
  );
  return table(['event', 'key', 'values', 'meaning'], rows);
}

/** The fields that nothing obeys, by the routes that have them and the values that they may have. */
function ignored(): string {
  const fields = new Map<
    string,
    { readonly name: string; readonly values: string; readonly paths: Set<string> }
  >();
  for (const path of Object.keys(document.paths)) {
    if (document.paths[path]?.post?.requestBody?.content['application/json'] === undefined) continue;
    for (const { name, schema } of membersOf(bodyOf(path), true)) {
      if (!isInert(schema)) continue;
      const values = valuesOf(schema) || (schema.not === undefined ? 'anything' : 'nothing');
      const field = { name, values, paths: new Set<string>() };
      const key = `${name} ${field.values}`;
      fields.set(key, fields.get(key) ?? field);
      fields.get(key)?.paths.add(path);
    }
  }
  const rows = new Map<string, string[]>();
  for (const { name, values, paths } of fields.values()) {
    const key = `${[...paths].map((each) => `\`${each}\``).join(', ')} | ${values}`;
    rows.set(key, [...(rows.get(key) ?? []), `\`${name}\``]);
  }
  const cells = [...rows].map(([key, names]) => [key, names.sort().join(', ')]);
  return table(['routes', 'may say', 'fields'], cells.sort());
}

const TABLE = /^<!-- table: (.*) -->\n[\s\S]*?^<!-- end of table -->$/gm;

/** The page with its tables made anew. */
export function withTables(page: string): string {
  const tables = new Tables();
  return page.replaceAll(TABLE, (_, what: string) => {
    return `<!-- table: ${what} -->\n\n${tables.of(what)}\n\n<!-- end of table -->`;
  });
}
