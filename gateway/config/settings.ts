import { readFileSync } from 'node:fs';
import { type ParseArgsConfig, parseArgs } from 'node:util';
import type { z } from 'zod';
import { UsageError } from '../ops/exit-code.ts';

/**
 * How settings are read, whatever they are: flags go before environment variables (RUNNEL_ and the flag's name in
 * capitals), those before the file named by --config, that before defaults. Merged once, validated, frozen.
 */

export interface Setting {
  /** Of the value in a file; takes it as the text of a flag or a variable too. */
  readonly schema: z.ZodType;
  /** A list makes it a setting of several values: repeated flags, or text with commas. */
  readonly fallback?: string | number | readonly string[];
  /** In the help instead of a default that depends on the machine. */
  readonly fallbackHelp?: string;
  readonly help: string;
}

export type SettingTable = Readonly<Record<string, Setting>>;

export type ConfigOf<Table extends SettingTable> = Readonly<{
  [Name in keyof Table]: z.output<Table[Name]['schema']>;
}>;

type FlagValues = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>;

/** A value and where it was given, in the words of a message. */
interface Given {
  readonly source: string;
  readonly value: unknown;
}

export interface Merged<Table extends SettingTable> {
  readonly config: ConfigOf<Table>;
  /** How a setting was given; undefined when it has its default. */
  readonly sourceOf: (name: keyof Table) => string | undefined;
}

/** UsageError for the first value that cannot be used; the message names its source, its rule and the value. */
export function mergeSettings<Table extends SettingTable>(
  table: Table,
  flags: FlagValues,
  env: NodeJS.ProcessEnv,
  configPath = flags.config,
): Merged<Table> {
  const file = readConfigFile(table, configPath);
  const given = new Map<keyof Table, Given>();
  const entries = Object.entries(table).map(([name, setting]) => {
    const found = givenOf(name, flags, env, file);
    if (found !== undefined) given.set(name, found);
    const parsed = setting.schema.safeParse(found === undefined ? setting.fallback : found.value);
    if (parsed.success) return [name, parsed.data];
    const fault = parsed.error.issues[0]?.message ?? 'is not valid';
    const got = found === undefined ? '' : `, got ${shown(found.value)}`;
    throw new UsageError(`${found?.source ?? `--${name}`} ${fault}${got}.`);
  });
  return {
    config: Object.freeze(Object.fromEntries(entries)) as ConfigOf<Table>,
    sourceOf: (name) => given.get(name)?.source,
  };
}

/** The flags of a table as util.parseArgs wants them, with --config. */
export function flagOptions(table: SettingTable): NonNullable<ParseArgsConfig['options']> {
  const options = Object.entries(table).map(
    ([name, { fallback }]) => [name, { type: 'string' as const, multiple: Array.isArray(fallback) }] as const,
  );
  return { ...Object.fromEntries(options), config: { type: 'string' } };
}

/** Flags and nothing else. UsageError for those that the table does not have. */
export function parseFlags(table: SettingTable, args: readonly string[]): FlagValues {
  try {
    return parseArgs({ args: [...args], options: flagOptions(table), strict: true }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

export function settingsHelp(table: SettingTable): string {
  const rows = Object.entries(table).map(([name, setting]) => {
    const fallback = setting.fallbackHelp ?? setting.fallback;
    const shownFallback = fallback === undefined || Array.isArray(fallback) ? '' : ` (default ${fallback})`;
    return `  --${name.padEnd(31)}${setting.help}${shownFallback}`;
  });
  return [
    ...rows,
    `  --${'config'.padEnd(31)}file with settings: a JSON object with their names`,
    '',
    'Each can be set by an environment variable as well: --max-num-seqs is RUNNEL_MAX_NUM_SEQS. Flags go before',
    'variables, variables before the file.',
  ].join('\n');
}

function givenOf(
  name: string,
  flags: FlagValues,
  env: NodeJS.ProcessEnv,
  file: ConfigFile,
): Given | undefined {
  const variable = `RUNNEL_${name.toUpperCase().replaceAll('-', '_')}`;
  if (flags[name] !== undefined) return { source: `--${name}`, value: flags[name] };
  if (env[variable] !== undefined) return { source: variable, value: env[variable] };
  if (Object.hasOwn(file.values, name)) {
    return { source: `"${name}" in ${file.path}`, value: file.values[name] };
  }
  return undefined;
}

interface ConfigFile {
  readonly path: string;
  readonly values: Readonly<Record<string, unknown>>;
}

function readConfigFile(table: SettingTable, path: unknown): ConfigFile {
  if (typeof path !== 'string') return { path: '', values: {} };
  const values = parseObject(path, readFileSync(path, 'utf8'));
  const unknown = Object.keys(values).filter((name) => !Object.hasOwn(table, name));
  if (unknown.length > 0) {
    const names = unknown.map((name) => JSON.stringify(name)).join(', ');
    throw new UsageError(
      `The configuration ${path} has ${names}, which no setting of this command is called.`,
    );
  }
  return { path, values };
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

/** Numbers without quotes, wherever they come from. */
function shown(value: unknown): string {
  return typeof value === 'string' && /^-?\d+$/.test(value) ? value : JSON.stringify(value);
}
