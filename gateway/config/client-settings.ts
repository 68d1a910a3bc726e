import { UsageError } from '../errors/exit-code.ts';
import { sampling } from './generate-settings.ts';
import { readKeysFile } from './keys-file.ts';
import { decimals, seconds, serverUrl, text, whole, wholes } from './kinds.ts';
import { type ConfigOf, inGroup } from './setting.ts';

/** The settings of every command that calls a server. */
const connection = inGroup('Connection', {
  url: serverUrl().or('http://127.0.0.1:8080').help('Server, or unix:PATH for a UNIX socket'),
  'api-key-file': text('FILE')
    .optional('the key in RUNNEL_API_KEY, if that is set')
    .help('File whose first key is sent to the server'),
  'silence-timeout-sec': seconds(1, 86_400)
    .or(600)
    .help('Fail a request after this time without anything from the server'),
});

const model = text('NAME')
  .optional('the first that the server lists')
  .help('Name of the model at the server')
  .with({ group: 'Model' });

/** The settings of `runnel chat`. Sampling settings are sent only if they are given. */
export const chatSettings = {
  ...connection,
  model,
  ...inGroup('Sampling', {
    system: text('TEXT').optional().help('System prompt'),
    temperature: sampling.temperature.optional("the server's"),
    'top-p': sampling['top-p'].optional("the server's"),
    'max-tokens': sampling['max-tokens'].optional("the server's"),
    seed: whole(0, Number.MAX_SAFE_INTEGER).optional('random').help('Seed of each answer'),
  }),
};

export type ChatConfig = ConfigOf<typeof chatSettings>;

const { url: _found, model: _positional, ...ofRun } = chatSettings;

/** The settings of `runnel run`: those of `runnel chat` without the server and the model, which it determines itself. */
export const runSettings = ofRun;

export type RunConfig = ConfigOf<typeof runSettings>;

/** The settings of `runnel bench`. */
export const benchSettings = {
  ...connection,
  model,
  ...inGroup('Load', {
    concurrency: wholes(1, 1024)
      .or(['1', '4', '16'])
      .help('Clients that send requests at the same time; each number is measured'),
    rate: decimals(0.001, 10_000, 'PER_SECOND,...')
      .or([])
      .help('Requests per second at random times, in place of --concurrency; each number is measured'),
    requests: whole(1, 100_000).or(64).help('Requests in each measurement'),
    'prompt-tokens': whole(1, 100_000).or(128).help('Words in each prompt, of about one token each'),
    seed: whole(0, 2 ** 32 - 1)
      .optional('random')
      .help('Seed of the random prompts and arrival times'),
    'slo-ttft-ms': whole(1, 2 ** 31 - 1, 'MS')
      .optional('no limit')
      .help('A good answer has its first text within this time'),
    'slo-itl-ms': whole(1, 2 ** 31 - 1, 'MS')
      .optional('no limit')
      .help('A good answer has its tokens on average within this time of each other'),
  }),
  'max-tokens': sampling['max-tokens'].or(64),
  temperature: sampling.temperature.or(0),
};

export type BenchConfig = ConfigOf<typeof benchSettings>;

/** The options of a Server. Throws the errors of readKeysFile(), and UsageError for a key that cannot stand in a header. */
export function serverOptions(
  config: ConfigOf<typeof connection>,
  env: NodeJS.ProcessEnv,
): { url: string; key: string | undefined; silenceMs: number } {
  const path = config['api-key-file'];
  const key = path === undefined ? env.RUNNEL_API_KEY || undefined : readKeysFile(path)[0]?.key;
  if (key !== undefined && !/^[\x21-\x7e]+$/.test(key))
    throw new UsageError('RUNNEL_API_KEY must have only visible ASCII characters.');
  return { url: config.url, key, silenceMs: config['silence-timeout-sec'] * 1000 };
}
