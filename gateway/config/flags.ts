import { type ParseArgsConfig, parseArgs } from 'node:util';
import type { SettingTable } from './setting.ts';
import { type Flags, hasFile } from './settings.ts';

type FlagOptions = NonNullable<ParseArgsConfig['options']>;

/** Parses the flags of the table and its aliases, and --config if a file may give any of the settings. */
export function parseFlags(table: SettingTable, args: readonly string[], allowPositionals = false): Flags {
  const options = optionsOf(table);
  const joined = withNegatives(args, options);
  try {
    const { values, positionals } = parseArgs({ args: joined, options, allowPositionals, strict: true });
    return { values, positionals, faults: [] };
  } catch (error) {
    return parseRest(joined, options, error as Error);
  }
}

/** Writes `--name -1` as `--name=-1`: parseArgs takes a value that begins with a hyphen only in that form. */
function withNegatives(args: readonly string[], options: FlagOptions): string[] {
  const joined: string[] = [];
  for (const arg of args) {
    const before = joined.at(-1) ?? '';
    const isValue =
      /^-\d/.test(arg) && before.startsWith('--') && options[before.slice(2)]?.type === 'string';
    if (isValue) joined[joined.length - 1] = `${before}=${arg}`;
    else joined.push(arg);
  }
  return joined;
}

/** Parses an invalid command line as far as possible, so that all of its faults can be reported at once. */
function parseRest(args: readonly string[], options: FlagOptions, error: Error): Flags {
  const lenient = { args: [...args], options, allowPositionals: true, strict: false, tokens: true } as const;
  const { values, positionals, tokens } = parseArgs(lenient);
  const unknown = tokens.flatMap((token) =>
    token.kind === 'option' && !Object.hasOwn(options, token.name) ? [token] : [],
  );
  const sentences = unknown.map(({ rawName }) => `This command has no flag ${rawName}.`);
  const faults = sentences.length > 0 ? [...new Set(sentences)] : [error.message.replaceAll('\n', ' ')];
  const known = Object.entries(values).filter(
    // A flag without its value is already among the faults.
    ([name, value]) => options[name]?.type === 'boolean' || (Object.hasOwn(options, name) && value !== true),
  );
  return { values: Object.fromEntries(known), positionals, faults };
}

function optionsOf(table: SettingTable): FlagOptions {
  const typeOf = (value = '') => (value === '' ? 'boolean' : 'string');
  const options = Object.entries(table).flatMap(([name, { value, details }]) => {
    const multiple = details.isList ?? Array.isArray(details.fallback);
    const aliases = Object.entries(details.aliases ?? {}).map(
      ([alias, of]) => [alias, { type: typeOf(of.value) }] as const,
    );
    return [[name, { type: typeOf(value), multiple }] as const, ...aliases];
  });
  return { ...Object.fromEntries(options), ...(hasFile(table) ? { config: { type: 'string' } } : {}) };
}
