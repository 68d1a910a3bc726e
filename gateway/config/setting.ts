import type { z } from 'zod';
import type { HelpGroup } from './help.ts';

/** A further name of a setting, which other servers use. */
interface Alias {
  /** Parses what is given under this name into the setting's value. Undefined means that nothing was given. */
  readonly schema: z.ZodType;
  /** Stands for the value in the help. Absent: the flag takes no value. */
  readonly value?: string;
  readonly description: string;
}

type Fallback = string | number | readonly string[];

interface Details {
  readonly description?: string;
  readonly group?: HelpGroup;
  /** The default. A list makes it a setting of several values, given by repeated flags or text with commas. */
  readonly fallback?: Fallback;
  /** The default as the help says it, where there is no `fallback`, or it depends on the machine or does not say enough. */
  readonly fallbackHelp?: string | undefined;
  /** The name of another setting. If that one is given, this one may be left out and is then an empty list. */
  readonly unless?: string;
  /** Neither a variable nor a file gives it. */
  readonly isOnlyFlag?: true;
  /** Repeated flags make a list although the setting has no default. */
  readonly isList?: true;
  readonly aliases?: Readonly<Record<string, Alias>>;
}

/** A setting of a command: how its value is parsed, its default, and what the help says of it. */
export class Setting<Schema extends z.ZodType = z.ZodType> {
  /** Parses the value from a file, and also the text of a flag or a variable. */
  readonly schema: Schema;
  /** Stands for the value in the help: `PORT`. Empty: the flag takes no value. */
  readonly value: string;
  readonly details: Details;

  constructor(schema: Schema, value: string, details: Details = {}) {
    this.schema = schema;
    this.value = value;
    this.details = details;
  }

  /** description: begins with a capital and has no full stop. */
  help(description: string): Setting<Schema> {
    return this.with({ description });
  }

  /** shown: the default as the help says it. */
  or(fallback: Fallback, shown?: string): Setting<Schema> {
    return this.with({ fallback, fallbackHelp: shown });
  }

  /** shown: what happens without it, as the help says it. */
  optional(shown?: string): Setting<z.ZodOptional<Schema>> {
    return new Setting(this.schema.optional(), this.value, { ...this.details, fallbackHelp: shown });
  }

  with(details: Details): Setting<Schema> {
    return new Setting(this.schema, this.value, { ...this.details, ...details });
  }
}

export type SettingTable = Readonly<Record<string, Setting>>;

export type ConfigOf<Table extends SettingTable> = Readonly<{
  [Name in keyof Table]: z.output<Table[Name]['schema']>;
}>;

/** Settings that a help shows under this heading. */
export function inGroup<Table extends SettingTable>(group: HelpGroup, table: Table): Table {
  const entries = Object.entries(table).map(([name, setting]) => [name, setting.with({ group })]);
  return Object.fromEntries(entries);
}

/** Settings that only flags give. */
export function onlyFlags<Table extends SettingTable>(table: Table): Table {
  const entries = Object.entries(table).map(([name, setting]) => [name, setting.with({ isOnlyFlag: true })]);
  return Object.fromEntries(entries);
}

export function aliasOf({ schema, value }: Setting, description: string): Alias {
  return { schema, value, description };
}
