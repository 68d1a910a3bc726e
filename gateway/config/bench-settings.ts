import { clientSettings } from './client-settings.ts';
import { decimal, decimals, text, whole, wholes } from './kinds.ts';
import type { ConfigOf, SettingTable } from './settings.ts';

/** The settings of `runnel bench`. */
export const benchSettings = {
  ...clientSettings,
  model: {
    schema: text().optional(),
    fallbackHelp: 'the first that the server lists',
    group: 'Model',
    value: 'NAME',
    help: 'Name of the model at the server',
  },
  concurrency: {
    schema: wholes(1, 1024),
    fallback: ['1', '4', '16'],
    group: 'Load',
    value: 'N,...',
    help: 'Clients that send requests at the same time; each number is measured',
  },
  rate: {
    schema: decimals(0.001, 10_000),
    fallback: [],
    group: 'Load',
    value: 'PER_SECOND,...',
    help: 'Requests per second at random times, in place of --concurrency; each number is measured',
  },
  requests: {
    schema: whole(1, 100_000),
    fallback: 64,
    group: 'Load',
    value: 'N',
    help: 'Requests in each measurement',
  },
  'prompt-tokens': {
    schema: whole(1, 100_000),
    fallback: 128,
    group: 'Load',
    value: 'N',
    help: 'Words in each prompt, of about one token each',
  },
  'max-tokens': {
    schema: whole(1, 2 ** 31 - 1),
    fallback: 64,
    group: 'Sampling',
    value: 'N',
    help: 'Maximum tokens of an answer',
  },
  temperature: {
    schema: decimal(0, 2),
    fallback: 0,
    group: 'Sampling',
    value: 'T',
    help: '0: always the most likely token; higher: more random tokens',
  },
  seed: {
    schema: whole(0, 2 ** 32 - 1).optional(),
    fallbackHelp: 'random',
    group: 'Load',
    value: 'N',
    help: 'Seed of the random prompts and arrival times',
  },
  'slo-ttft-ms': {
    schema: whole(1, 2 ** 31 - 1).optional(),
    fallbackHelp: 'no limit',
    group: 'Load',
    value: 'MS',
    help: 'A good answer has its first text within this time',
  },
  'slo-itl-ms': {
    schema: whole(1, 2 ** 31 - 1).optional(),
    fallbackHelp: 'no limit',
    group: 'Load',
    value: 'MS',
    help: 'A good answer has its tokens on average within this time of each other',
  },
} as const satisfies SettingTable;

export type BenchConfig = ConfigOf<typeof benchSettings>;
