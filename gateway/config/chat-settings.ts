import { clientSettings } from './client-settings.ts';
import { decimal, text, whole } from './kinds.ts';
import type { ConfigOf, SettingTable } from './settings.ts';

/** The settings of `runnel chat`. Sampling settings are sent only if they are given. */
export const chatSettings = {
  ...clientSettings,
  model: {
    schema: text().optional(),
    fallbackHelp: 'the first that the server lists',
    group: 'Model',
    value: 'NAME',
    help: 'Name of the model at the server',
  },
  system: { schema: text().optional(), group: 'Sampling', value: 'TEXT', help: 'System prompt' },
  temperature: {
    schema: decimal(0, 2).optional(),
    fallbackHelp: "the server's",
    group: 'Sampling',
    value: 'T',
    help: '0: always the most likely token; higher: more random tokens',
  },
  'top-p': {
    schema: decimal(0, 1).optional(),
    fallbackHelp: "the server's",
    group: 'Sampling',
    value: 'P',
    help: 'Sample from the most likely tokens whose probabilities add up to P',
  },
  'max-tokens': {
    schema: whole(1, 2 ** 31 - 1).optional(),
    fallbackHelp: "the server's",
    group: 'Sampling',
    value: 'N',
    help: 'Maximum tokens of an answer',
  },
  seed: {
    schema: whole(0, Number.MAX_SAFE_INTEGER).optional(),
    fallbackHelp: 'random',
    group: 'Sampling',
    value: 'N',
    help: 'Seed of each answer',
  },
} as const satisfies SettingTable;

export type ChatConfig = ConfigOf<typeof chatSettings>;
