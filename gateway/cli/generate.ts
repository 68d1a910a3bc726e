import * as z from 'zod';
import { parseBody } from '../api/body.ts';
import * as fields from '../api/fields.ts';
import { type GenerateConfig, generateSettings } from '../config/generate-settings.ts';
import { text, toggle } from '../config/kinds.ts';
import { RUNNER_LIMITS, runnerFaults } from '../config/runner-settings.ts';
import { inGroup, onlyFlags, Setting } from '../config/setting.ts';
import { ApiError } from '../errors/api-error.ts';
import { ExitCode, refuse, UsageError } from '../errors/exit-code.ts';
import { UnavailableError } from '../errors/thrown.ts';
import { resolveModel } from '../models/model-cache.ts';
import { ModelSlot } from '../models/model-slot.ts';
import { GenerationError } from '../runner/runner.ts';
import { randomIds } from '../system/ids.ts';
import { type AnswerSettings, answerPrompts, type Prompt } from './answer-prompts.ts';
import { command, jsonFlag } from './command.ts';
import { withOfflineModel } from './offline-model.ts';
import { readTextFile, requireText } from './text-input.ts';

/** The most prompts that the runner has at once. The others wait here. */
const MAX_OPEN_PROMPTS = 256;

/** `runnel generate`: answers prompts offline, in their order. */
export const generate = command({
  forms: ['generate --model MODEL [options] (PROMPT… | --prompts-file FILE)'],
  about: 'Answers prompts without a server, and prints the answers in the order of the prompts.',
  settings: {
    ...onlyFlags({
      'prompts-file': text('FILE')
        .optional()
        .help('JSON array of prompts: texts, or arrays of token ids')
        .with({ group: 'Input and output' }),
      json: jsonFlag('Print a JSON array of {"text", "token_ids", "finish"}'),
      ...inGroup('Sampling', {
        stop: new Setting(z.array(z.string()), 'TEXT')
          .or([])
          .help('End an answer at this text, which is left out of it; may be repeated'),
        'ignore-eos': toggle().help('Continue an answer after the token with which the model ends it'),
      }),
    }),
    ...generateSettings,
  },
  takesArguments: true,
  examples: [
    'runnel generate --model smollm2 --max-tokens 32 "Once upon a time"',
    'runnel generate --model smollm2 --json --prompts-file prompts.json',
  ],
  run: async ({ config, sourceOf, positionals }) => {
    refuse(runnerFaults(config, sourceOf));
    const prompts = promptsOf(config['prompts-file'], positionals);
    const settings = answerSettings(config, config.stop, config['ignore-eos']);
    try {
      await answerAll(config, prompts, settings, config.json);
    } catch (error) {
      if (error instanceof ApiError) throw new UsageError(`${error.message}.`);
      if (error instanceof GenerationError) throw new UnavailableError(error.message);
      throw error;
    }
    return ExitCode.ok;
  },
});

async function answerAll(
  config: GenerateConfig,
  prompts: readonly Prompt[],
  settings: AnswerSettings,
  isJson: boolean,
): Promise<void> {
  const slot = new ModelSlot(resolveModel(config.model));
  // The model is read before a runner starts, so that an unusable model has its own exit status.
  await slot.refresh();
  await withOfflineModel(slot, config, MAX_OPEN_PROMPTS, async ({ runner, ...served }) => {
    let numPrinted = 0;
    for await (const answer of answerPrompts(runner, served, prompts, settings)) {
      const before = numPrinted++ === 0 ? '[' : ',\n ';
      process.stdout.write(isJson ? before + JSON.stringify(answer) : `${answer.text}\n`);
    }
    if (isJson) process.stdout.write(']\n');
  });
}

const promptsSchema = z
  .array(
    z.union([
      z.string(),
      z.array(
        z
          .int()
          .min(0)
          .max(2 ** 32 - 1),
      ),
    ]),
  )
  .min(1);

function promptsOf(file: string | undefined, positionals: readonly string[]): readonly Prompt[] {
  if ((file === undefined) === (positionals.length === 0)) {
    throw new UsageError('generate takes either PROMPTs or --prompts-file FILE.');
  }
  if (file === undefined) return positionals;
  try {
    const prompts = promptsSchema.parse(JSON.parse(readTextFile(file)));
    for (const [index, prompt] of prompts.entries())
      if (typeof prompt === 'string') requireText(`prompt ${index + 1} of ${file}`, prompt);
    return prompts;
  } catch (error) {
    if (!(error instanceof SyntaxError) && !(error instanceof z.ZodError)) throw error;
    throw new UsageError(
      `The prompts file ${file} must be a JSON array of texts, or of arrays of token ids.`,
    );
  }
}

function answerSettings(config: GenerateConfig, stop: readonly string[], ignoreEos: boolean): AnswerSettings {
  if (config['min-tokens'] > config['max-tokens']) {
    throw new UsageError(
      `--min-tokens must be at most --max-tokens, got ${config['min-tokens']} and ${config['max-tokens']}.`,
    );
  }
  return {
    maxTokens: config['max-tokens'],
    minTokens: config['min-tokens'],
    ignoreEos,
    stop: parseStop(stop),
    sampling: {
      temperature: config.temperature,
      topK: config['top-k'],
      topP: config['top-p'],
      minP: config['min-p'],
      repetitionPenalty: config['repetition-penalty'],
      presencePenalty: config['presence-penalty'],
      frequencyPenalty: config['frequency-penalty'],
      logitBias: new Map(),
      allowedTokenIds: [],
      bannedTokenIds: [],
      seed: config.seed ?? randomIds.seed(),
    },
    maxOpen: MAX_OPEN_PROMPTS,
    maxOpenTokens: RUNNER_LIMITS.promptTokens,
  };
}

/** Checks the stop strings with the rules of the request field `stop`. */
function parseStop(stop: readonly string[]): readonly string[] {
  try {
    return parseBody(z.object({ stop: fields.stopSequences('--stop') }), { stop }).stop;
  } catch (error) {
    throw new UsageError(`${(error as Error).message}.`);
  }
}
