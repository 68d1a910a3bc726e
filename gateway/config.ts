import { isIP } from 'node:net';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { UsageError } from './ops/exit-code.ts';
import { LOG_LEVELS } from './ops/log.ts';

/**
 * The settings of `runnel serve`: flags go before environment variables (RUNNEL_ and the flag's name in capitals),
 * those before defaults. Merged once, validated, frozen.
 */

const whole = (min: number, max: number) => {
  const fault = `must be a whole number from ${min} to ${max}`;
  const inRange = (value: number): boolean => Number.isInteger(value) && value >= min && value <= max;
  return z.coerce.number(fault).refine(inRange, fault);
};

const settings = {
  model: {
    schema: z.string().min(1, 'is missing: name a model file, or a model that `runnel pull` has fetched'),
    help: 'model file (.gguf), or the name of a pulled model',
  },
  host: {
    schema: z
      .string()
      .refine(isLoopback, 'must be a loopback address: this version has no keys to let others in by'),
    fallback: '127.0.0.1',
    help: 'address to listen on',
  },
  port: { schema: whole(0, 65_535), fallback: 8080, help: 'port to listen on; 0 lets the system choose' },
  'worker-id': {
    schema: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,128}$/, 'must be 1 to 128 letters, digits, dots, underscores and hyphens')
      .optional(),
    help: 'name of this worker for logs and the pool manager; default: a random one for each start',
  },
  'callback-url': {
    schema: z
      .string()
      .refine(isCallbackUrl, 'must be an http or https URL without user and password')
      .optional(),
    help: 'told once by POST when the model is ready; exits if it refuses; localhost:9999: not told',
  },
  runner: {
    schema: z.string().min(1),
    fallback: fileURLToPath(new URL('../build/cpu-runner', import.meta.url)),
    help: 'the runner binary',
  },
  threads: {
    schema: whole(1, 1024),
    fallback: availableParallelism(),
    help: 'threads the runner computes with',
  },
  'max-model-len': {
    schema: whole(2, 2 ** 24).optional(),
    help: "tokens of prompt and answer together; default: the model's context",
  },
  'max-num-seqs': { schema: whole(1, 4096).optional(), help: 'sequences computed in one step at most' },
  'max-num-batched-tokens': {
    schema: whole(1, 2 ** 20).optional(),
    help: 'rows computed in one step at most',
  },
  'block-size': {
    schema: whole(8, 256).optional(),
    help: 'tokens in a block of the KV cache: a power of two',
  },
  'kv-cache-bytes': { schema: whole(1, 2 ** 50).optional(), help: 'memory for the KV cache' },
  'max-open-requests': {
    schema: whole(1, 2 ** 20),
    fallback: 256,
    help: 'requests held at once; one more gets 429',
  },
  'inference-timeout-sec': {
    schema: whole(1, 86_400),
    fallback: 300,
    help: 'time a request gets at most',
  },
  'max-body-bytes': {
    schema: whole(1024, 2 ** 30),
    fallback: 2 ** 20,
    help: 'bytes a request body may have',
  },
  'drain-timeout-sec': {
    schema: whole(0, 3600),
    fallback: 30,
    help: 'time open streams get to finish after SIGTERM',
  },
  'log-level': {
    schema: z.enum(LOG_LEVELS, `must be one of ${LOG_LEVELS.join(', ')}`),
    fallback: 'info',
    help: LOG_LEVELS.join(', '),
  },
} as const satisfies Record<string, { schema: z.ZodType; fallback?: string | number; help: string }>;

type Settings = typeof settings;
export type Config = Readonly<{ [Name in keyof Settings]: z.output<Settings[Name]['schema']> }>;

/** UsageError for a flag or variable that cannot be used; the message names it, its value and what it takes. */
export function readConfig(args: readonly string[], env: NodeJS.ProcessEnv): Config {
  const flags = parseFlags(args);
  const entries = Object.entries(settings).map(([name, setting]) => {
    const variable = variableName(name);
    const flag = flags[name];
    const [source, raw] = flag === undefined ? [variable, env[variable]] : [`--${name}`, flag];
    const fallback = 'fallback' in setting ? setting.fallback : undefined;
    const parsed = setting.schema.safeParse(raw ?? fallback ?? (name === 'model' ? '' : undefined));
    if (parsed.success) return [name, parsed.data];
    const fault = parsed.error.issues[0]?.message ?? 'is not valid';
    const subject = raw === undefined ? `--${name}` : `${source} ${JSON.stringify(raw)}`;
    throw new UsageError(`${subject} ${fault}.`);
  });
  return Object.freeze(Object.fromEntries(entries)) as Config;
}

export function configHelp(): string {
  const rows = Object.entries(settings).map(([name, setting]) => {
    const fallback = 'fallback' in setting ? ` (default ${setting.fallback})` : '';
    return `  --${name.padEnd(24)}${setting.help}${fallback}`;
  });
  return `${rows.join('\n')}\n\nEach can be set by an environment variable as well: --max-num-seqs is RUNNEL_MAX_NUM_SEQS. Flags go first.`;
}

function parseFlags(args: readonly string[]): Record<string, string | undefined> {
  const options = Object.fromEntries(
    Object.keys(settings).map((name) => [name, { type: 'string' as const }]),
  );
  try {
    return parseArgs({ args: [...args], options, strict: true, allowPositionals: false }).values as Record<
      string,
      string
    >;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function variableName(name: string): string {
  return `RUNNEL_${name.toUpperCase().replaceAll('-', '_')}`;
}

function isCallbackUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return (
    (url?.protocol === 'http:' || url?.protocol === 'https:') && url.username === '' && url.password === ''
  );
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}
