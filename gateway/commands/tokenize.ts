/** `runnel tokenize`: prints the ids of a text as a JSON array. */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { loadModel } from '../model/load-model.ts';
import { resolveModel } from '../model/model-cache.ts';
import { reporting, UsageError } from './report.ts';

const usage =
  'Usage: runnel tokenize --model NAME_OR_PATH [--add-special] [--parse-special] (--file FILE | TEXT).';

/** Returns the exit code. */
export function tokenizeCommand(args: string[]): Promise<number> {
  return reporting(async () => {
    const { values, positionals } = parseArgs({
      args,
      options: {
        model: { type: 'string' },
        file: { type: 'string' },
        'add-special': { type: 'boolean', default: false },
        'parse-special': { type: 'boolean', default: false },
      },
      allowPositionals: true,
    });
    if (values.model === undefined) throw new UsageError(`${usage} --model is missing.`);
    const text = textOf(values.file, positionals);
    const { tokenizer } = await loadModel(resolveModel(values.model));
    const ids = tokenizer.encode(text, {
      addSpecial: values['add-special'],
      parseSpecial: values['parse-special'],
    });
    process.stdout.write(`${JSON.stringify(ids)}\n`);
  });
}

function textOf(file: string | undefined, positionals: readonly string[]): string {
  const [text] = positionals;
  if (file !== undefined && text === undefined) return readFileSync(file, 'utf8');
  if (file === undefined && text !== undefined && positionals.length === 1) return text;
  throw new UsageError(`${usage} It takes either one file or one text.`);
}
