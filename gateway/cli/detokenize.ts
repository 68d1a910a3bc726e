import * as z from 'zod';
import { ExitCode, UsageError } from '../errors/exit-code.ts';
import { resolveModel } from '../models/model-cache.ts';
import { loadModel } from '../models/model-slot.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { command, jsonFlag } from './command.ts';
import { vocabularyOf } from './tokenize.ts';

/** `runnel detokenize`: prints the text of token ids. */
export const detokenize = command({
  forms: [
    'detokenize --model NAME_OR_PATH [--json] ID…',
    'detokenize --model NAME_OR_PATH [--json] JSON_ARRAY',
  ],
  about:
    'Prints the text of the token ids, and a line feed. Bytes that are not a whole character are printed as U+FFFD.',
  settings: { model: vocabularyOf, json: jsonFlag('Print {"text"}') },
  takesArguments: true,
  examples: [
    'runnel detokenize --model smollm2 19556 905',
    'runnel detokenize --model smollm2 "$(runnel tokenize --model smollm2 Hello)"',
  ],
  run: async ({ config, positionals }) => {
    if (config.model === undefined) throw new UsageError('detokenize needs --model NAME_OR_PATH.');
    const ids = idsOf(positionals);
    const { tokenizer } = await loadModel(resolveModel(config.model));
    const text = textOf(ids, tokenizer);
    process.stdout.write(`${config.json ? JSON.stringify({ text }) : text}\n`);
    return ExitCode.ok;
  },
});

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
