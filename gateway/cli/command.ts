import { parseFlags } from '../config/flags.ts';
import { prose } from '../config/help.ts';
import { toggle } from '../config/kinds.ts';
import type { SettingTable } from '../config/setting.ts';
import { type Merged, mergeSettings, settingsHelp } from '../config/settings.ts';
import { reporting } from './report.ts';

/** A command of the command line. */
export interface Command {
  /** The help. */
  readonly usage: () => string;
  /** Returns the exit status. Expected errors are told on stderr. */
  readonly run: (args: string[]) => Promise<number>;
}

/** What the help of a command says. */
interface CommandHelp {
  /** The forms of the command, without the program's name. */
  readonly forms: readonly string[];
  /** What the command does. Each line is a paragraph. */
  readonly about: string;
  readonly examples: readonly string[];
}

interface CommandSpec<Table extends SettingTable> extends CommandHelp {
  readonly settings: Table;
  /** Whether the command takes arguments that are not flags. */
  readonly takesArguments?: true;
  readonly run: (asked: Merged<Table> & { readonly positionals: readonly string[] }) => Promise<number>;
}

/** --json, of a command that prints its result. help: what is printed. */
export function jsonFlag(help: string) {
  return toggle().help(help).with({ group: 'Input and output', isOnlyFlag: true });
}

export function command<Table extends SettingTable>(spec: CommandSpec<Table>): Command {
  const { settings, takesArguments = false } = spec;
  return {
    usage: () => usageOf(spec, settings),
    run: (args) =>
      reporting(() => {
        const flags = parseFlags(settings, args, takesArguments);
        const merged = mergeSettings(settings, flags, process.env);
        return spec.run({ ...merged, positionals: flags.positionals });
      }),
  };
}

export function usageOf({ forms, about, examples }: CommandHelp, settings: SettingTable): string {
  return [
    ...forms.map((form, index) => `${index === 0 ? 'Usage:' : '      '} runnel ${form}`),
    '',
    ...about.split('\n').map(prose),
    '',
    settingsHelp(settings),
    '',
    'Examples:',
    ...examples.map((example) => `  ${example}`),
  ].join('\n');
}
