import { ExitCode } from '../errors/exit-code.ts';
import { listModels } from '../models/model-cache.ts';
import { megabytes } from '../system/printable.ts';
import { command, jsonFlag } from './command.ts';

/** `runnel list`: lists the pulled models with size and path. */
export const list = command({
  forms: ['list [--json]'],
  about: 'Lists the models that were pulled: the name for --model, the size and the path.',
  settings: { json: jsonFlag('Print a JSON array of {"name", "bytes", "path"}') },
  examples: ['runnel list', 'runnel list --json'],
  run: async ({ config }) => {
    const models = listModels();
    if (config.json) {
      process.stdout.write(`${JSON.stringify(models)}\n`);
      return ExitCode.ok;
    }
    const width = Math.max(0, ...models.map(({ name }) => name.length));
    for (const { name, bytes, path } of models) {
      process.stdout.write(`${name.padEnd(width)}  ${megabytes(bytes).padStart(11)}  ${path}\n`);
    }
    return ExitCode.ok;
  },
});
