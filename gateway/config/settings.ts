import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { refuse, UsageError } from '../errors/exit-code.ts';
import { flagsHelp, type HelpFlag, prose } from './help.ts';
import type { ConfigOf, Setting, SettingTable } from './setting.ts';

/**
 * Reads settings of any command. Flags take precedence over environment variables (RUNNEL_ and the flag's name in capitals),
 * variables over the file named by --config, and the file over defaults. Settings are merged once, validated and frozen.
 */

/** A command line parsed by a table of settings. */
export interface Flags {
  readonly values: FlagValues;
  readonly positionals: readonly string[];
  /** Sentences about flags that the command does not take. `values` has the flags that it does take. */
  readonly faults: readonly string[];
}

type FlagValues = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>;

/** A value, and the place where it was given, in the words of a message. */
interface Given {
  readonly source: string;
  readonly value: unknown;
  readonly schema: z.ZodType;
}

export interface Merged<Table extends SettingTable> {
  readonly config: ConfigOf<Table>;
  /** Where a setting was given; undefined if it has its default. */
  readonly sourceOf: (name: keyof Table) => string | undefined;
}

/** Throws one UsageError for all values that cannot be used. Each sentence names the source, its rule and the value. */
export function mergeSettings<Table extends SettingTable>(
  table: Table,
  flags: Flags,
  env: NodeJS.ProcessEnv,
  configPath = flags.values.config,
): Merged<Table> {
  const file = readConfigFile(table, configPath);
  const given = new Map<keyof Table, Given>();
  const faults = [...flags.faults, ...file.faults];
  const entries = Object.entries(table).map(([name, setting]) => {
    const found = givenOf(name, setting, flags.values, env, file);
    if (found.length > 1) faults.push(`${sourcesOf(found)} are the same setting: leave one of them out.`);
    const [first] = found;
    const parsed = first?.schema.safeParse(first.value);
    if (first !== undefined && parsed?.success && parsed.data !== undefined) {
      given.set(name, first);
      return [name, parsed.data];
    }
    if (first !== undefined && parsed?.success === false) {
      faults.push(`${first.source} ${faultOf(parsed.error)}, got ${shown(first.value)}.`);
      return [name, undefined];
    }
    const byDefault = setting.schema.safeParse(
      isLeftOut(table, setting, flags.values, env, file) ? [] : setting.details.fallback,
    );
    if (!byDefault.success) faults.push(`--${name} ${faultOf(byDefault.error)}.`);
    return [name, byDefault.data];
  });
  refuse(faults);
  return {
    config: Object.freeze(Object.fromEntries(entries)) as ConfigOf<Table>,
    sourceOf: (name) => given.get(name)?.source,
  };
}

/** Whether another setting that is given replaces this one. */
function isLeftOut(
  table: SettingTable,
  { details: { unless } }: Setting,
  flags: FlagValues,
  env: NodeJS.ProcessEnv,
  file: ConfigFile,
): boolean {
  const other = unless === undefined ? undefined : table[unless];
  return other !== undefined && givenOf(unless as string, other, flags, env, file).length > 0;
}

function faultOf(error: z.ZodError): string {
  return error.issues[0]?.message ?? 'is not valid';
}

function sourcesOf(found: readonly Given[]): string {
  return found.map(({ source }) => source).join(' and ');
}

/** Whether a file or variables may give any of the settings. */
export function hasFile(table: SettingTable): boolean {
  return Object.values(table).some(({ details }) => details.isOnlyFlag !== true);
}

export function settingsHelp(table: SettingTable): string {
  const flags = Object.entries(table).flatMap(([name, { value, details }]) => {
    const { group = 'General', description = '', fallbackHelp = shownDefault(details.fallback) } = details;
    const help = fallbackHelp === undefined ? description : `${description} (default: ${fallbackHelp})`;
    const aliases = Object.entries(details.aliases ?? {}).map(([alias, of]) => ({
      group,
      flag: `--${alias} ${of.value ?? ''}`.trimEnd(),
      help: of.description,
    }));
    return [{ group, flag: `--${name} ${value}`.trimEnd(), help }, ...aliases];
  });
  if (!hasFile(table)) return flagsHelp(flags);
  const config = 'JSON file with settings: an object with these names, without the dashes';
  const ofFile = Object.keys(table).filter((name) => table[name]?.details.isOnlyFlag !== true);
  const example = ofFile.find((name) => name.includes('-')) ?? 'config';
  const precedence = `Each setting can also be given by an environment variable: ${variableOf(example)} for --${example}. A flag takes precedence over a variable, and a variable over the file.`;
  const general: HelpFlag[] = [
    { group: 'General', flag: '--config FILE', help: config },
    { group: 'General', flag: '--help', help: 'Print this help' },
  ];
  return `${flagsHelp([...flags, ...general])}\n\n${prose(precedence)}`;
}

function shownDefault(fallback: Setting['details']['fallback']): string | undefined {
  return fallback === undefined || String(fallback) === '' ? undefined : String(fallback);
}

/** The values of the first source that has the setting, one for each of its names there. */
function givenOf(
  name: string,
  { schema, details: { aliases = {}, isOnlyFlag } }: Setting,
  flags: FlagValues,
  env: NodeJS.ProcessEnv,
  file: ConfigFile,
): Given[] {
  const names = [{ name, schema }, ...Object.entries(aliases).map(([alias, of]) => ({ ...of, name: alias }))];
  const sources: ((name: string) => { source: string; value: unknown })[] = [
    (called) => ({ source: `--${called}`, value: flags[called] }),
    (called) => ({ source: variableOf(called), value: env[variableOf(called)] }),
    (called) => ({ source: `"${called}" in ${file.path}`, value: file.values[called] }),
  ];
  for (const read of isOnlyFlag ? sources.slice(0, 1) : sources) {
    const found = names.flatMap((known) => {
      const { source, value } = read(known.name);
      return value === undefined ? [] : [{ source, value, schema: known.schema }];
    });
    if (found.length > 0) return found;
  }
  return [];
}

function variableOf(name: string): string {
  return `RUNNEL_${name.toUpperCase().replaceAll('-', '_')}`;
}

interface ConfigFile {
  readonly path: string;
  readonly values: Readonly<Record<string, unknown>>;
  /** Sentences about names that are not settings. */
  readonly faults: readonly string[];
}

function readConfigFile(table: SettingTable, path: unknown): ConfigFile {
  if (typeof path !== 'string') return { path: '', values: {}, faults: [] };
  const values = parseObject(path, readFileSync(path, 'utf8'));
  const known = Object.entries(table).flatMap(([name, { details }]) =>
    details.isOnlyFlag ? [] : [name, ...Object.keys(details.aliases ?? {})],
  );
  const unknown = Object.keys(values).filter((name) => !known.includes(name));
  const names = unknown.map((name) => JSON.stringify(name)).join(', ');
  const faults =
    unknown.length === 0
      ? []
      : [`The configuration ${path} has names that are not settings of this command: ${names}.`];
  return { path, values, faults };
}

function parseObject(path: string, text: string): Readonly<Record<string, unknown>> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new UsageError(`The configuration ${path} is not JSON: ${(error as Error).message}.`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new UsageError(`The configuration ${path} must be a JSON object with a member for each setting.`);
  }
  return parsed as Record<string, unknown>;
}

/** Numbers are shown without quotes, whatever source they come from. */
function shown(value: unknown): string {
  return typeof value === 'string' && /^-?\d+$/.test(value) ? value : JSON.stringify(value);
}
