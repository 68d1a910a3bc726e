import { decimal, seed, whole } from './kinds.ts';
import { runnerSettings } from './runner-settings.ts';
import type { ConfigOf, SettingTable } from './settings.ts';

/** The settings of `runnel generate`. Sampling parameters have the same ranges as in requests. */
export const generateSettings = {
  ...runnerSettings,
  'max-tokens': {
    schema: whole(1, 2 ** 31 - 1),
    fallback: 64,
    group: 'Sampling',
    value: 'N',
    help: 'Maximum tokens of an answer',
  },
  'min-tokens': {
    schema: whole(0, 2 ** 31 - 1),
    fallback: 0,
    group: 'Sampling',
    value: 'N',
    help: 'Minimum tokens of an answer; the model cannot end it before',
  },
  temperature: {
    schema: decimal(0, 2),
    fallback: 1,
    group: 'Sampling',
    value: 'T',
    help: '0: always the most likely token; higher: more random tokens',
  },
  'top-k': {
    schema: whole(0, 2 ** 32 - 1),
    fallback: 0,
    group: 'Sampling',
    value: 'N',
    help: 'Sample from the N most likely tokens; 0: all',
  },
  'top-p': {
    schema: decimal(0, 1),
    fallback: 1,
    group: 'Sampling',
    value: 'P',
    help: 'Sample from the most likely tokens whose probabilities add up to P',
  },
  'min-p': {
    schema: decimal(0, 1),
    fallback: 0,
    group: 'Sampling',
    value: 'P',
    help: "Sample from tokens with at least this share of the most likely token's probability",
  },
  'repetition-penalty': {
    schema: decimal(0, 2).refine((value) => value > 0, 'must be above 0'),
    fallback: 1,
    group: 'Sampling',
    value: 'X',
    help: 'Above 1: tokens of the prompt and of the answer become less likely; 1: no penalty',
  },
  'presence-penalty': {
    schema: decimal(-2, 2),
    fallback: 0,
    group: 'Sampling',
    value: 'X',
    help: 'Lower the logit of each token that is in the answer',
  },
  'frequency-penalty': {
    schema: decimal(-2, 2),
    fallback: 0,
    group: 'Sampling',
    value: 'X',
    help: "Lower a token's logit for each time it is in the answer",
  },
  seed: {
    schema: seed().optional(),
    fallbackHelp: 'random',
    group: 'Sampling',
    value: 'N',
    help: 'Seed of the first prompt; each further prompt has the next number',
  },
} as const satisfies SettingTable;

export type GenerateConfig = ConfigOf<typeof generateSettings>;
