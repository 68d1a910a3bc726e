import * as z from 'zod';
import { UsageError } from '../errors/exit-code.ts';
import { readKeysFile } from './keys-file.ts';
import { baseUrl, text, whole } from './kinds.ts';
import type { ConfigOf, SettingTable } from './settings.ts';

/** The settings of every command that calls a server. */
export const clientSettings = {
  url: {
    schema: z.union([socketUrl(), baseUrl()], 'must be an http or https URL, or unix:PATH'),
    fallback: 'http://127.0.0.1:8080',
    group: 'Connection',
    value: 'URL',
    help: 'Server, or unix:PATH for a UNIX socket',
  },
  'api-key-file': {
    schema: text().optional(),
    fallbackHelp: 'the key in RUNNEL_API_KEY, if that is set',
    group: 'Connection',
    value: 'FILE',
    help: 'File whose first key is sent to the server',
  },
  'silence-timeout-sec': {
    schema: whole(1, 86_400),
    fallback: 600,
    group: 'Connection',
    value: 'SECONDS',
    help: 'Fail a request after this time without anything from the server',
  },
} as const satisfies SettingTable;

function socketUrl() {
  return z.string().regex(/^unix:.+$/);
}

/** The options of a Server. Throws the errors of readKeysFile(), and UsageError for a key that cannot stand in a header. */
export function serverOptions(
  config: ConfigOf<typeof clientSettings>,
  env: NodeJS.ProcessEnv,
): { url: string; key: string | undefined; silenceMs: number } {
  const path = config['api-key-file'];
  const key = path === undefined ? env.RUNNEL_API_KEY || undefined : readKeysFile(path)[0]?.key;
  if (key !== undefined && !/^[\x21-\x7e]+$/.test(key))
    throw new UsageError('RUNNEL_API_KEY must have only visible ASCII characters.');
  return { url: config.url, key, silenceMs: config['silence-timeout-sec'] * 1000 };
}
