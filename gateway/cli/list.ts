/** `runnel list`: lists the pulled models with size and path. */

import { parseArgs } from 'node:util';
import { flagsHelp } from '../config/help.ts';
import { ExitCode } from '../errors/exit-code.ts';
import { listModels } from '../models/model-cache.ts';
import { reporting } from './report.ts';

export function listUsage(): string {
  return [
    'Usage: runnel list [--json]',
    '',
    'Lists the models that were pulled: the name for --model, the size and the path.',
    '',
    flagsHelp([
      {
        group: 'Input and output',
        flag: '--json',
        help: 'Print a JSON array of {"name", "bytes", "path"}',
      },
    ]),
    '',
    'Examples:',
    '  runnel list',
    '  runnel list --json',
  ].join('\n');
}

/** Returns the exit code. */
export function listCommand(args: string[]): Promise<number> {
  return reporting(async () => {
    const { values } = parseArgs({ args, options: { json: { type: 'boolean', default: false } } });
    const models = listModels();
    if (values.json) {
      process.stdout.write(`${JSON.stringify(models)}\n`);
      return ExitCode.ok;
    }
    const width = Math.max(0, ...models.map(({ name }) => name.length));
    for (const { name, bytes, path } of models) {
      const size = `${(bytes / 1e6).toFixed(1)} MB`;
      process.stdout.write(`${name.padEnd(width)}  ${size.padStart(11)}  ${path}\n`);
    }
    return ExitCode.ok;
  });
}
