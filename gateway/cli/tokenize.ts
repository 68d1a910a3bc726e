import { text, toggle } from '../config/kinds.ts';
import { inGroup, onlyFlags } from '../config/setting.ts';
import { ExitCode, UsageError } from '../errors/exit-code.ts';
import { resolveModel } from '../models/model-cache.ts';
import { loadModel } from '../models/model-slot.ts';
import { command, jsonFlag } from './command.ts';
import { readTextFile } from './text-input.ts';

/** --model of commands that need only a vocabulary. */
export const vocabularyOf = text('NAME_OR_PATH')
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
    const source = textOf(config.file, positionals);
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

function textOf(file: string | undefined, positionals: readonly string[]): string {
  const [text] = positionals;
  if (file !== undefined && text === undefined) return readTextFile(file);
  if (file === undefined && text !== undefined && positionals.length === 1) return text;
  throw new UsageError('tokenize takes either --file FILE or one TEXT.');
}
