import { answers } from './meanings/answers.ts';
import { fields } from './meanings/fields.ts';
import { reports } from './meanings/operator.ts';

type Schema = Readonly<Record<string, unknown>>;

/** Gives the members of all objects their meanings, and moves schemas with titles to where others can refer to them. */
export class Components {
  readonly schemas: Record<string, Schema> = {};
  /** Each as it was before that, by its title. */
  readonly #sources = new Map<string, string>();

  /** place: the names of what has the value, the outermost first. */
  described(value: unknown, place: readonly string[]): unknown {
    if (Array.isArray(value)) return value.map((each) => this.described(each, place));
    if (typeof value !== 'object' || value === null) return value;
    const { title } = value as Schema;
    if (typeof title !== 'string') return this.#inside(value as Schema, place);
    const source = JSON.stringify(value);
    const known = this.#sources.get(title) ?? source;
    if (known !== source) throw new Error(`Two schemas have the title ${title}.`);
    this.#sources.set(title, source);
    this.schemas[title] ??= this.#inside(value as Schema, [title]);
    return { $ref: `#/components/schemas/${title}` };
  }

  #inside(schema: Schema, place: readonly string[]): Schema {
    const { type, event, object } = (schema.properties ?? {}) as Readonly<Record<string, Schema>>;
    const kind = type?.const ?? event?.const ?? object?.const;
    const inner = kind === undefined ? place : [...place, String(kind)];
    const entries = Object.entries(schema).map(([key, value]): [string, unknown] => {
      if (key === 'properties') return [key, this.#membersOf(value as Schema, inner)];
      // The body of an example may have a schema in it, which stays as it is.
      return [key, key === 'example' ? value : this.described(value, inner)];
    });
    return Object.fromEntries(entries);
  }

  #membersOf(schemas: Schema, place: readonly string[]): Schema {
    const entries = Object.entries(schemas).map(([name, schema]) => {
      const member = this.described(schema, [...place, name]) as Schema;
      return [name, { ...member, description: member.description ?? meaningOf([...place, name]) }];
    });
    return Object.fromEntries(entries);
  }
}

export const meanings: Readonly<Record<string, string>> = { ...fields, ...answers, ...reports };

/** The entry for as much of the place as there is one for. */
export function meaningOf(place: readonly string[]): string | undefined {
  const keys = place.map((_, index) => place.slice(index).join('.'));
  const key = keys.find((each) => Object.hasOwn(meanings, each));
  return key === undefined ? undefined : meanings[key];
}
