/** `runnel pull NAME`: fetches a model of the catalogue and prints its path. */
import { parseArgs } from 'node:util';
import { catalogue } from '../model/catalogue.ts';
import { pull } from '../model/pull.ts';
import { ExitCode, UsageError } from '../ops/exit-code.ts';
import { reporting } from './report.ts';

export function pullUsage(): string {
  const rows = catalogue.map(
    ({ name, description, licence }) => `  ${name.padEnd(12)}${description}; ${licence}`,
  );
  return `Usage: runnel pull NAME\n\nFetches a model and prints its path. There are:\n${rows.join('\n')}`;
}

/** Returns the exit code. */
export function pullCommand(args: string[]): Promise<number> {
  return reporting(async () => {
    const { positionals } = parseArgs({ args, options: {}, allowPositionals: true });
    const entry = catalogue.find(({ name }) => name === positionals[0]);
    if (entry === undefined || positionals.length !== 1) {
      const known = catalogue.map(({ name }) => name).join(', ');
      throw new UsageError(
        `pull takes one name of: ${known} (got ${JSON.stringify(positionals.join(' '))}).`,
      );
    }
    process.stdout.write(`${await pull(entry, process.stderr)}\n`);
    return ExitCode.ok;
  });
}
