import { parseFlags } from '../config/flags.ts';
import { flagsHelp, type HelpFlag, type HelpGroup, prose } from '../config/help.ts';
import { type Merged, mergeSettings, type SettingTable, settingsHelp } from '../config/settings.ts';
import { refuse } from '../errors/exit-code.ts';
import { reporting } from './report.ts';

/** A command of the command line. */
export interface Command {
  /** The help. */
  readonly usage: () => string;
  /** Returns the exit status. Expected errors are told on stderr. */
  readonly run: (args: string[]) => Promise<number>;
}

/** What the help of a command says. */
export interface CommandHelp {
  /** The forms of the command, without the program's name. */
  readonly forms: readonly string[];
  /** What the command does. Each line is a paragraph. */
  readonly about: string;
  readonly examples: readonly string[];
}

/** A flag that is no setting: neither a variable nor a file gives it. */
export interface Flag {
  readonly type: 'string' | 'boolean';
  readonly multiple?: true;
  readonly group: HelpGroup;
  /** Stands for the value in the help: `PORT`. Absent: the flag takes no value. */
  readonly value?: string;
  readonly help: string;
}

type FlagTable = Readonly<Record<string, Flag>>;

type ValuesOf<Own extends FlagTable> = {
  readonly [Name in keyof Own]: Own[Name] extends { type: 'boolean' }
    ? boolean
    : Own[Name] extends { multiple: true }
      ? readonly string[]
      : string | undefined;
};

/** A command line as its command gets it. */
export interface Asked<Table extends SettingTable, Own extends FlagTable> extends Merged<Table> {
  readonly flags: ValuesOf<Own>;
  readonly positionals: readonly string[];
}

interface CommandSpec<Table extends SettingTable, Own extends FlagTable> extends CommandHelp {
  /** Settings, which flags, variables and a file give. */
  readonly settings?: Table;
  readonly flags: Own;
  /** Whether the command takes arguments that are not flags. */
  readonly takesArguments?: true;
  readonly run: (asked: Asked<Table, Own>) => Promise<number>;
}

/** --json, of a command that prints its result. help: what is printed. */
export const jsonFlag = (help: string) =>
  ({ type: 'boolean', group: 'Input and output', help }) as const satisfies Flag;

export function command<Table extends SettingTable, Own extends FlagTable>(
  spec: CommandSpec<Table, Own>,
): Command {
  const { settings, flags: own, takesArguments: allowPositionals = false } = spec;
  return {
    usage: () =>
      usageOf(spec, settings === undefined ? flagsHelp(helpOf(own)) : settingsHelp(settings, helpOf(own))),
    run: (args) =>
      reporting(() => {
        const options = Object.fromEntries(
          Object.entries(own).map(([name, { type, multiple = false }]) => [name, { type, multiple }]),
        );
        const flags = parseFlags(settings, args, { options, allowPositionals });
        if (settings === undefined) refuse(flags.faults);
        const merged = mergeSettings(settings ?? ({} as Table), flags, process.env);
        const values = Object.entries(own).map(([name, { type, multiple }]) => [
          name,
          flags.values[name] ?? (type === 'boolean' ? false : multiple ? [] : undefined),
        ]);
        const asked = { flags: Object.fromEntries(values) as ValuesOf<Own>, positionals: flags.positionals };
        return spec.run({ ...merged, ...asked });
      }),
  };
}

export function helpOf(flags: FlagTable): HelpFlag[] {
  return Object.entries(flags).map(([name, { group, value, help }]) => ({
    ...{ group, help },
    flag: value === undefined ? `--${name}` : `--${name} ${value}`,
  }));
}

export function usageOf({ forms, about, examples }: CommandHelp, flags: string): string {
  return [
    ...forms.map((form, index) => `${index === 0 ? 'Usage:' : '      '} runnel ${form}`),
    '',
    ...about.split('\n').map(prose),
    '',
    flags,
    '',
    'Examples:',
    ...examples.map((example) => `  ${example}`),
  ].join('\n');
}
