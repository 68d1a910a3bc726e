/** `runnel tokenize`: prints the ids of a text as a JSON array. */

import { parseArgs } from 'node:util';
import { flagsHelp } from '../config/help.ts';
import { ExitCode, UsageError } from '../errors/exit-code.ts';
import { resolveModel } from '../models/model-cache.ts';
import { loadModel } from '../models/model-slot.ts';
import { reporting } from './report.ts';
import { readTextFile } from './text-input.ts';

export function tokenizeUsage(): string {
  return [
    'Usage: runnel tokenize --model NAME_OR_PATH [options] (--file FILE | TEXT)',
    '',
    'Prints the token ids of the text as a JSON array.',
    '',
    flagsHelp([
      { group: 'Model', flag: '--model NAME_OR_PATH', help: 'Model whose vocabulary is used' },
      {
        group: 'Model',
        flag: '--add-special',
        help: 'Add the token BOS at the beginning if the model asks for it',
      },
      {
        group: 'Model',
        flag: '--parse-special',
        help: 'Read the text of a control token, such as <|im_end|>, as that token',
      },
      { group: 'Input and output', flag: '--file FILE', help: 'Read the text from this file' },
      {
        group: 'Input and output',
        flag: '--json',
        help: 'Print {"token_ids", "tokens"}: the ids, and the text of each, with U+FFFD for bytes that are not a whole character',
      },
    ]),
    '',
    'Examples:',
    '  runnel tokenize --model smollm2 "Hello, world"',
    '  runnel tokenize --model smollm2 --add-special --file prompt.txt',
  ].join('\n');
}

/** Returns the exit code. */
export function tokenizeCommand(args: string[]): Promise<number> {
  return reporting(async () => {
    const { values, positionals } = parseArgs({
      args,
      options: {
        model: { type: 'string' },
        file: { type: 'string' },
        json: { type: 'boolean', default: false },
        'add-special': { type: 'boolean', default: false },
        'parse-special': { type: 'boolean', default: false },
      },
      allowPositionals: true,
    });
    if (values.model === undefined) throw new UsageError('tokenize needs --model NAME_OR_PATH.');
    const text = textOf(values.file, positionals);
    const { tokenizer } = await loadModel(resolveModel(values.model));
    const ids = tokenizer.encode(text, {
      addSpecial: values['add-special'],
      parseSpecial: values['parse-special'],
    });
    const tokens = (): string[] => ids.map((id) => Buffer.from(tokenizer.bytes(id)).toString('utf8'));
    process.stdout.write(`${JSON.stringify(values.json ? { token_ids: ids, tokens: tokens() } : ids)}\n`);
    return ExitCode.ok;
  });
}

function textOf(file: string | undefined, positionals: readonly string[]): string {
  const [text] = positionals;
  if (file !== undefined && text === undefined) return readTextFile(file);
  if (file === undefined && text !== undefined && positionals.length === 1) return text;
  throw new UsageError('tokenize takes either --file FILE or one TEXT.');
}
