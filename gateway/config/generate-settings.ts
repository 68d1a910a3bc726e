import { decimal, positive, seed, whole } from './kinds.ts';
import { runnerSettings } from './runner-settings.ts';
import { type ConfigOf, inGroup } from './setting.ts';

/** Sampling settings that several commands have, without their defaults. The ranges are those of requests. */
export const sampling = inGroup('Sampling', {
  'max-tokens': whole(1, 2 ** 31 - 1).help('Maximum tokens of an answer'),
  temperature: decimal(0, 2, 'T').help('0: always the most likely token; higher: more random tokens'),
  'top-p': decimal(0, 1, 'P').help('Sample from the most likely tokens whose probabilities add up to P'),
});

/** The settings of `runnel generate`. */
export const generateSettings = {
  ...runnerSettings,
  ...inGroup('Sampling', {
    'max-tokens': sampling['max-tokens'].or(64),
    'min-tokens': whole(0, 2 ** 31 - 1)
      .or(0)
      .help('Minimum tokens of an answer; the model cannot end it before'),
    temperature: sampling.temperature.or(1),
    'top-k': whole(0, 2 ** 32 - 1)
      .or(0)
      .help('Sample from the N most likely tokens; 0: all'),
    'top-p': sampling['top-p'].or(1),
    'min-p': decimal(0, 1, 'P')
      .or(0)
      .help("Sample from tokens with at least this share of the most likely token's probability"),
    'repetition-penalty': positive(2, 'X')
      .or(1)
      .help('Above 1: tokens of the prompt and of the answer become less likely; 1: no penalty'),
    'presence-penalty': decimal(-2, 2, 'X').or(0).help('Lower the logit of each token that is in the answer'),
    'frequency-penalty': decimal(-2, 2, 'X')
      .or(0)
      .help("Lower a token's logit for each time it is in the answer"),
    seed: seed().optional('random').help('Seed of the first prompt; each further prompt has the next number'),
  }),
};

export type GenerateConfig = ConfigOf<typeof generateSettings>;
