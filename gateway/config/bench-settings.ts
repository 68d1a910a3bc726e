import { clientSettings } from './client-settings.ts';
import { decimal, decimals, text, whole, wholes } from './kinds.ts';
import { type ConfigOf, type SettingTable, settingsHelp } from './settings.ts';

/** The settings of `runnel bench`. */
export const benchSettings = {
  ...clientSettings,
  model: {
    schema: text().optional(),
    help: "the model's name at the server; the first that it lists unless set",
  },
  concurrency: {
    schema: wholes(1, 1024),
    fallback: ['1', '4', '16'],
    help: 'clients that ask at a time, one load for each number (default 1,4,16)',
  },
  rate: {
    schema: decimals(0.001, 10_000),
    fallback: [],
    help: 'requests a second instead, which arrive at random and wait for no answer; one load for each',
  },
  requests: { schema: whole(1, 100_000), fallback: 64, help: 'requests of each load' },
  'prompt-tokens': {
    schema: whole(1, 100_000),
    fallback: 128,
    help: 'words of a prompt, of about a token each',
  },
  'max-tokens': { schema: whole(1, 2 ** 31 - 1), fallback: 64, help: 'tokens of an answer' },
  temperature: { schema: decimal(0, 2), fallback: 0, help: '0 takes the likeliest token' },
  seed: { schema: whole(0, 2 ** 32 - 1).optional(), help: 'of prompts and arrivals; random unless set' },
  'slo-ttft-ms': { schema: whole(1, 2 ** 31 - 1).optional(), help: 'a good answer begins within this time' },
  'slo-itl-ms': {
    schema: whole(1, 2 ** 31 - 1).optional(),
    help: 'the tokens of a good answer follow each other within this time, in its mean',
  },
} as const satisfies SettingTable;

export type BenchConfig = ConfigOf<typeof benchSettings>;

export function benchHelp(): string {
  return settingsHelp(benchSettings);
}
