/** Lays out the help of the commands: flags in groups, in two columns, within HELP_COLUMNS characters. */

export const HELP_COLUMNS = 100;
/** The column at which descriptions begin. A longer flag has its description below it. */
const DESCRIPTION_COLUMN = 32;

/** The groups of flags, in the order in which a help shows them. */
const HELP_GROUPS = [
  'Model',
  'Several models',
  'Server',
  'Pool manager',
  'Connection',
  'Security',
  'Limits',
  'Timeouts',
  'Devices',
  'Scheduling',
  'KV cache',
  'Reliability',
  'Batches',
  'Sampling',
  'Load',
  'Input and output',
  'Logging and debugging',
  'General',
] as const;

export type HelpGroup = (typeof HELP_GROUPS)[number];

/** A flag in a help. */
export interface HelpFlag {
  readonly group: HelpGroup;
  /** With the name of its value: `--port PORT`. */
  readonly flag: string;
  /** A description that begins with a capital and has no full stop. */
  readonly help: string;
}

export function flagsHelp(flags: readonly HelpFlag[]): string {
  const groups = HELP_GROUPS.flatMap((group) => {
    const rows = flags.filter((flag) => flag.group === group).map(rowOf);
    return rows.length === 0 ? [] : [`${group}:\n${rows.join('\n')}`];
  });
  return groups.join('\n\n');
}

/** A paragraph of running text, broken into lines. */
export function prose(text: string): string {
  return wrapped(text, HELP_COLUMNS).join('\n');
}

function rowOf({ flag, help }: HelpFlag): string {
  const left = `  ${flag}`;
  const indent = ' '.repeat(DESCRIPTION_COLUMN);
  const [first = '', ...more] = wrapped(help, HELP_COLUMNS - DESCRIPTION_COLUMN);
  const begin =
    left.length + 2 <= DESCRIPTION_COLUMN
      ? `${left.padEnd(DESCRIPTION_COLUMN)}${first}`
      : `${left}\n${indent}${first}`;
  return [begin, ...more.map((line) => indent + line)].join('\n');
}

/** Breaks text at spaces. A word that is longer than a line has a line of its own. */
function wrapped(text: string, columns: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && longer.length <= columns) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}
