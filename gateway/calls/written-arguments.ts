import type { KindOf, ValueKind } from '../generation/call-arguments.ts';
import { asList, isJsonObject, jsonTypeOf, referredTo } from '../json/json-values.ts';
import type { ParameterFormat } from '../prompt/tool-call-format.ts';
import { jsonFormat } from './structural-tag.ts';

/**
 * The arguments of calls that write each argument separately, strings verbatim and all else as JSON (docs/tools.md, "Arguments
 * by themselves"): turns a JSON Schema into formats of XGrammar's structural tags, and says how each argument is read.
 */

type Schema = Readonly<Record<string, unknown>>;

/** The forms in which a value may be written. */
interface Forms {
  /** Formats of the value as a verbatim string; empty if it cannot be a string. */
  readonly texts: readonly object[];
  /** The schema of the value as JSON that is no string; undefined if `texts` cover every value. */
  readonly json: object | undefined;
  /** Whether the schema allows this value, which is no string. */
  readonly isJson: (value: unknown) => boolean;
  readonly kind: ValueKind;
}

interface Parameter {
  readonly name: string;
  readonly schema: unknown;
  readonly isRequired: boolean;
}

/** A set of parameters that a call may have. `others`: the schema of parameters that are not named, if any are allowed. */
interface Parameters {
  readonly named: readonly Parameter[];
  readonly others?: unknown;
}

/** Thrown if a schema has a rule that separately written arguments cannot be restricted to. */
export class UnwritableSchema extends Error {
  override readonly name = 'UnwritableSchema';
}

const ALL_TYPES = ['string', 'number', 'integer', 'boolean', 'null', 'object', 'array'];
/** Keywords for objects that a sequence of parameters cannot enforce. */
const UNWRITABLE = ['patternProperties', 'propertyNames', 'minProperties', 'maxProperties'];
/** Members of a schema that references of its parts may lead to. */
const SHARED = ['$defs', 'definitions'];
const MAX_REFERENCES = 32;
/** The schemas that are visited for one tool, at most: a few references can lead to very many. */
const MAX_SCHEMAS = 4096;
const MAX_SETS = 64;
const NAME = '[a-zA-Z_][a-zA-Z0-9_.\\-]{0,63}';

/** The arguments of one tool. */
export class WrittenParameters {
  /** The format of the text between the name of the tool and the end of the call; undefined if there is none. */
  readonly grammar: object | undefined;
  readonly #format: ParameterFormat;
  readonly #root: Schema;
  readonly #maxWhitespace: number;
  readonly #forms = new Map<string, Forms[]>();
  #otherForms: Forms[] = [];
  #numSchemasLeft = MAX_SCHEMAS;

  /** maxWhitespace: characters in one place of a JSON value. Throws UnwritableSchema if the schema cannot be enforced. */
  constructor(format: ParameterFormat, schema: object, maxWhitespace: number) {
    this.#format = format;
    this.#root = schema as Schema;
    this.#maxWhitespace = maxWhitespace;
    const sets = this.#setsOf(this.#root).map((set) => this.#sequenceOf(set));
    if (sets.every((elements) => elements.length === 0)) return;
    const ways = sets.map((elements) => {
      return elements.length === 0 ? { type: 'const_string', value: '' } : { type: 'sequence', elements };
    });
    this.grammar = ways.length === 1 ? ways[0] : { type: 'or', elements: ways };
  }

  /** How the value of a parameter is read. */
  kindOf(name: string): ValueKind {
    return oneOfForms(this.#forms.get(name) ?? this.#otherForms).kind;
  }

  #sequenceOf({ named, others }: Parameters): object[] {
    const elements: object[] = named.map(({ name, schema, isRequired }) => {
      const { begin, between, end } = this.#format;
      const forms = this.#formsOf(schema);
      this.#forms.set(name, [...(this.#forms.get(name) ?? []), forms]);
      const tag = { type: 'tag', begin: begin + name + between, content: this.#valueOf(forms), end };
      return isRequired ? tag : { type: 'optional', content: tag };
    });
    if (others !== undefined) elements.push({ type: 'star', content: this.#otherOf(others) });
    return elements;
  }

  #otherOf(schema: unknown): object {
    const { begin, between, end } = this.#format;
    const forms = this.#formsOf(schema);
    this.#otherForms.push(forms);
    const name = { type: 'regex', pattern: NAME };
    const value = { type: 'tag', begin: between, content: this.#valueOf(forms), end };
    return { type: 'sequence', elements: [{ type: 'const_string', value: begin }, name, value] };
  }

  #valueOf({ texts, json }: Forms): object {
    const inJson = json === undefined ? [] : [jsonFormat(json, this.#maxWhitespace)];
    const ways = [...texts, ...inJson];
    return ways.length === 1 ? (ways[0] as object) : { type: 'or', elements: ways };
  }

  /** The sets of parameters that the schema of an object allows: one for each alternative of anyOf and oneOf. */
  #setsOf(schema: unknown, depth = 0): Parameters[] {
    const { properties, required, additionalProperties, anyOf, oneOf, allOf, ...rest } = this.#resolved(
      schema,
      depth,
    );
    for (const name of UNWRITABLE)
      if (name in rest)
        throw new UnwritableSchema(`has ${name}, which the tool calls of this model cannot be restricted to`);
    const needed = new Set(Array.isArray(required) ? required.map(String) : []);
    const own = Object.entries(isJsonObject(properties) ? properties : {});
    const named = own.map(([name, each]) => ({ name, schema: each, isRequired: needed.has(name) }));
    for (const name of needed)
      if (!named.some((each) => each.name === name))
        named.push({ name, schema: additionalProperties ?? true, isRequired: true });
    const isOpen =
      named.length === 0 && (additionalProperties === true || isJsonObject(additionalProperties));
    const base: Parameters = { named, ...(isOpen ? { others: additionalProperties } : {}) };
    const choices = [...asList(anyOf), ...asList(oneOf)];
    const ways = choices.length === 0 ? [base] : this.#joined([base], choices, depth);
    return asList(allOf).reduce<Parameters[]>((sets, each) => this.#joined(sets, [each], depth), ways);
  }

  /** Joins each set with each set that the schemas allow. */
  #joined(sets: readonly Parameters[], schemas: readonly unknown[], depth: number): Parameters[] {
    const more = schemas.flatMap((each) => this.#setsOf(each, depth + 1));
    const joined = sets.flatMap((set) => more.map((other) => join(set, other)));
    if (joined.length > MAX_SETS)
      throw new UnwritableSchema(`has more than ${MAX_SETS} sets of parameters to choose from`);
    return joined;
  }

  #formsOf(schema: unknown, depth = 0): Forms {
    const resolved = this.#resolved(schema, depth);
    const { anyOf, oneOf, allOf, ...rest } = resolved;
    const choices = [...asList(anyOf), ...asList(oneOf)];
    if (choices.length > 0)
      return oneOfForms(
        choices.map((each) => this.#formsOf({ ...rest, ...this.#resolved(each, depth + 1) }, depth + 1)),
      );
    const all = asList(allOf);
    if (all.length > 0) {
      const merged = Object.assign({}, rest, ...all.map((each) => this.#resolved(each, depth + 1)));
      return this.#formsOf(merged, depth + 1);
    }
    const values = 'const' in rest ? [rest.const] : Array.isArray(rest.enum) ? rest.enum : undefined;
    return values === undefined ? this.#typedForms(rest) : valuesForms(values);
  }

  #typedForms(schema: Schema): Forms {
    const types = typesOf(schema);
    const others = types.filter((type) => type !== 'string');
    const shared = Object.fromEntries(
      SHARED.filter((name) => name in this.#root).map((name) => [name, this.#root[name]]),
    );
    const texts = types.includes('string') ? this.#textsOf(schema) : [];
    // A verbatim text covers every value, so no JSON is needed beside it.
    const isAnything = others.length === ALL_TYPES.length - 1;
    const json =
      isAnything || others.length === 0
        ? undefined
        : { ...schema, ...shared, type: others.length === 1 ? others[0] : others };
    return formsOf(
      texts,
      json,
      (value) =>
        others.includes(jsonTypeOf(value)) || (others.includes('integer') && Number.isInteger(value)),
      others.length > 0,
    );
  }

  /** Formats of a string. Where the schema sets no bound, it extends to the parameter's end mark. */
  #textsOf({ pattern, minLength, maxLength }: Schema): object[] {
    if (typeof pattern === 'string') return [{ type: 'regex', pattern }];
    const excludes = [this.#format.end];
    const least = typeof minLength === 'number' ? minLength : 0;
    const more = typeof maxLength === 'number' ? { max_chars: Math.max(maxLength - least, 0) } : {};
    const rest = { type: 'any_text', excludes, ...more };
    if (least === 0) return [rest];
    // The first characters exclude those that end marks begin with: an end mark among them would make the text too short.
    const first = { type: 'regex', pattern: `[^<\\n]{${least}}` };
    return [{ type: 'sequence', elements: [first, rest] }];
  }

  /** The schema with its $ref replaced by what it refers to. */
  #resolved(schema: unknown, depth: number): Schema {
    if (this.#numSchemasLeft-- <= 0)
      throw new UnwritableSchema(`has more than ${MAX_SCHEMAS} schemas where its parameters are`);
    let found: unknown = schema;
    for (let left = MAX_REFERENCES - depth; left > 0; left--) {
      if (found === true || found === undefined) return {};
      if (!isJsonObject(found)) break;
      const { $ref, ...rest } = found as Schema;
      if ($ref === undefined) return rest;
      const target = referredTo(this.#root, String($ref));
      found = isJsonObject(target) ? { ...target, ...rest } : target;
    }
    throw new UnwritableSchema('refers to nothing, or to itself, where its parameters are');
  }
}

/** How arguments are read, for all tools of an answer. */
export function kindsOf(tools: ReadonlyMap<string, WrittenParameters>): KindOf {
  return (tool, parameter) => tools.get(tool)?.kindOf(parameter) ?? 'text';
}

function join(first: Parameters, second: Parameters): Parameters {
  const named = [...first.named];
  for (const each of second.named) {
    const at = named.findIndex(({ name }) => name === each.name);
    const known = named[at];
    if (known === undefined) named.push(each);
    else
      named[at] = {
        name: each.name,
        schema: { allOf: [known.schema, each.schema] },
        isRequired: known.isRequired || each.isRequired,
      };
  }
  return { named };
}

function formsOf(
  texts: readonly object[],
  json: object | undefined,
  isJson: (value: unknown) => boolean,
  mayBeJson = json !== undefined,
): Forms {
  const kind = texts.length === 0 ? 'json' : mayBeJson ? isJson : 'text';
  return { texts, json, isJson, kind };
}

function valuesForms(values: readonly unknown[]): Forms {
  const strings = values.filter((value) => typeof value === 'string');
  const others = values.filter((value) => typeof value !== 'string');
  const texts = strings.map((value) => ({ type: 'const_string', value }));
  const spelled = new Set(others.map((value) => JSON.stringify(value)));
  const isOther = (value: unknown): boolean => spelled.has(JSON.stringify(value));
  return formsOf(texts, others.length === 0 ? undefined : { enum: others }, isOther);
}

function oneOfForms(forms: readonly Forms[]): Forms {
  const schemas = forms.flatMap(({ json }) => (json === undefined ? [] : [json as Schema]));
  const [first, second] = schemas;
  const anyOf = schemas.map(({ $defs, definitions, ...rest }) => rest);
  const shared = schemas.flatMap((schema) =>
    Object.entries(schema).filter(([name]) => SHARED.includes(name)),
  );
  return formsOf(
    forms.flatMap(({ texts }) => texts),
    second === undefined ? first : { anyOf, ...Object.fromEntries(shared) },
    (value) => forms.some(({ isJson }) => isJson(value)),
    forms.some(({ kind }) => kind !== 'text'),
  );
}

function typesOf(schema: Schema): string[] {
  const { type } = schema;
  if (typeof type === 'string') return [type];
  if (Array.isArray(type)) return type.map(String);
  if ('properties' in schema || 'additionalProperties' in schema) return ['object'];
  if ('items' in schema || 'prefixItems' in schema) return ['array'];
  return 'pattern' in schema || 'minLength' in schema || 'maxLength' in schema ? ['string'] : ALL_TYPES;
}
