/** `runnel pull NAME`: fetches a model of the catalogue and prints its path. */
import { parseArgs } from 'node:util';
import { catalogue } from '../model/catalogue.ts';
import { pull } from '../model/pull.ts';
import { reporting, UsageError } from './report.ts';

/** Returns the exit code. */
export function pullCommand(args: string[]): Promise<number> {
  return reporting(async () => {
    const { positionals } = parseArgs({ args, options: {}, allowPositionals: true });
    const entry = catalogue.find(({ name }) => name === positionals[0]);
    if (entry === undefined || positionals.length !== 1) {
      const known = catalogue.map(({ name, description }) => `${name} (${description})`).join('; ');
      throw new UsageError(`Usage: runnel pull NAME. It takes one name of: ${known}.`);
    }
    process.stdout.write(`${await pull(entry, process.stderr)}\n`);
  });
}
