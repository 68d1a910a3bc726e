/** `runnel detokenize`: prints the text of token ids. */

import { parseArgs } from 'node:util';
import * as z from 'zod';
import { flagsHelp, prose } from '../config/help.ts';
import { ExitCode, UsageError } from '../errors/exit-code.ts';
import { resolveModel } from '../models/model-cache.ts';
import { loadModel } from '../models/model-slot.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { reporting } from './report.ts';

export function detokenizeUsage(): string {
  return [
    'Usage: runnel detokenize --model NAME_OR_PATH [--json] ID…',
    '       runnel detokenize --model NAME_OR_PATH [--json] JSON_ARRAY',
    '',
    prose(
      'Prints the text of the token ids, and a line feed. Bytes that are not a whole character are printed as U+FFFD.',
    ),
    '',
    flagsHelp([
      { group: 'Model', flag: '--model NAME_OR_PATH', help: 'Model whose vocabulary is used' },
      { group: 'Input and output', flag: '--json', help: 'Print {"text"}' },
    ]),
    '',
    'Examples:',
    '  runnel detokenize --model smollm2 19556 905',
    '  runnel detokenize --model smollm2 "$(runnel tokenize --model smollm2 Hello)"',
  ].join('\n');
}

/** Returns the exit code. */
export function detokenizeCommand(args: string[]): Promise<number> {
  return reporting(async () => {
    const { values, positionals } = parseArgs({
      args,
      options: { model: { type: 'string' }, json: { type: 'boolean', default: false } },
      allowPositionals: true,
    });
    if (values.model === undefined) throw new UsageError('detokenize needs --model NAME_OR_PATH.');
    const ids = idsOf(positionals);
    const { tokenizer } = await loadModel(resolveModel(values.model));
    const text = textOf(ids, tokenizer);
    process.stdout.write(`${values.json ? JSON.stringify({ text }) : text}\n`);
    return ExitCode.ok;
  });
}

const idsSchema = z.array(z.int().min(0)).readonly();

function idsOf(positionals: readonly string[]): readonly number[] {
  const [first] = positionals;
  if (first === undefined) throw new UsageError('detokenize takes token ids, or one JSON array of them.');
  const isArray = positionals.length === 1 && first.trimStart().startsWith('[');
  try {
    return idsSchema.parse(JSON.parse(isArray ? first : `[${positionals.join(',')}]`));
  } catch {
    const got = JSON.stringify(positionals.join(' '));
    throw new UsageError(`Token ids must be whole numbers from 0 on, or one JSON array of them; got ${got}.`);
  }
}

function textOf(ids: readonly number[], tokenizer: Tokenizer): string {
  const { vocabSize, addsSpace } = tokenizer;
  const outside = ids.find((id) => id >= vocabSize);
  if (outside !== undefined)
    throw new UsageError(`There is no token ${outside}: the largest id is ${vocabSize - 1}.`);
  const bytes = Buffer.concat(ids.map((id) => tokenizer.bytes(id)));
  // Removes the space that encoding puts in front of a text.
  return bytes.subarray(addsSpace && bytes[0] === 0x20 ? 1 : 0).toString('utf8');
}
