import * as z from 'zod';
import { text, toggle } from '../config/kinds.ts';
import { inGroup, onlyFlags } from '../config/setting.ts';
import { ExitCode, UsageError } from '../errors/exit-code.ts';
import { resolveModel } from '../models/model-cache.ts';
import { loadModel } from '../models/model-slot.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { command, jsonFlag } from './command.ts';
import { readTextFile } from './text-input.ts';

/** --model of commands that need only a vocabulary. */
const vocabularyOf = text('NAME_OR_PATH')
  .optional()
  .help('Model whose vocabulary is used')
  .with({ group: 'Model', isOnlyFlag: true });

/** `runnel tokenize`: prints the ids of a text as a JSON array. */
export const tokenize = command({
  forms: ['tokenize --model NAME_OR_PATH [options] (--file FILE | TEXT)'],
  about: 'Prints the token ids of the text as a JSON array.',
  settings: onlyFlags({
    model: vocabularyOf,
    ...inGroup('Model', {
      'add-special': toggle().help('Add the token BOS at the beginning if the model asks for it'),
      'parse-special': toggle().help('Read the text of a control token, such as <|im_end|>, as that token'),
    }),
    file: text('FILE').optional().help('Read the text from this file').with({ group: 'Input and output' }),
    json: jsonFlag(
      'Print {"token_ids", "tokens"}: the ids, and the text of each, with U+FFFD for bytes that are not a whole character',
    ),
  }),
  takesArguments: true,
  examples: [
    'runnel tokenize --model smollm2 "Hello, world"',
    'runnel tokenize --model smollm2 --add-special --file prompt.txt',
  ],
  run: async ({ config, positionals }) => {
    if (config.model === undefined) throw new UsageError('tokenize needs --model NAME_OR_PATH.');
    const source = sourceOf(config.file, positionals);
    const { tokenizer } = await loadModel(resolveModel(config.model));
    const ids = tokenizer.encode(source, {
      addSpecial: config['add-special'],
      parseSpecial: config['parse-special'],
    });
    const tokens = (): string[] => ids.map((id) => Buffer.from(tokenizer.bytes(id)).toString('utf8'));
    process.stdout.write(`${JSON.stringify(config.json ? { token_ids: ids, tokens: tokens() } : ids)}\n`);
    return ExitCode.ok;
  },
});

function sourceOf(file: string | undefined, positionals: readonly string[]): string {
  const [text] = positionals;
  if (file !== undefined && text === undefined) return readTextFile(file);
  if (file === undefined && text !== undefined && positionals.length === 1) return text;
  throw new UsageError('tokenize takes either --file FILE or one TEXT.');
}

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
