import { text, toggle } from '../config/kinds.ts';
import { ExitCode, UsageError } from '../errors/exit-code.ts';
import { isHubName, parseHubName } from '../models/hub/hub-file.ts';
import { DEFAULT_ENDPOINT, pullFromHub } from '../models/hub/pull-from-hub.ts';
import { catalogue, findHubModel } from '../models/model-cache.ts';
import { pull as pullNamed } from '../models/pull.ts';
import { command, jsonFlag } from './command.ts';

const named = catalogue.map(
  ({ name, description, licence }) => `  ${name.padEnd(10)}${description}; ${licence}`,
);

/** `runnel pull NAME`: fetches a model of the catalogue, or a file or folder from a hub, and prints its path. */
export const pull = command({
  forms: ['pull [--json] NAME', 'pull [--json] [--if-missing] [--endpoint URL] hf:OWNER/REPO[/FILE.gguf]'],
  about: [
    'Fetches a model and prints its path. These models have a name:',
    ...named,
    '',
    'hf:OWNER/REPO fetches a folder of a hub: config.json, tokenizer.json, the other files that serving uses, and weights as safetensors. hf:OWNER/REPO/FILE.gguf fetches one file. Both go into the cache of Hugging Face’s tools (HF_HUB_CACHE, or hub in HF_HOME, or ~/.cache/huggingface/hub). An interrupted fetch continues where it stopped.',
    '',
    'HF_TOKEN, if set, is sent to the hub and to no other host.',
  ].join('\n'),
  settings: {
    endpoint: text('URL')
      .optional(`HF_ENDPOINT, or ${DEFAULT_ENDPOINT}`)
      .help('URL of the hub')
      .with({ group: 'Connection', isOnlyFlag: true }),
    'if-missing': toggle()
      .help('Do not ask the hub for a model that has been fetched, nor whether there is a newer one')
      .with({ group: 'Connection', isOnlyFlag: true }),
    json: jsonFlag('Print {"name", "path"}'),
  },
  takesArguments: true,
  examples: [
    'runnel pull smollm2',
    'runnel pull hf:HuggingFaceTB/SmolLM2-360M-Instruct',
    'runnel serve --model "$(runnel pull smollm2)"',
  ],
  run: async ({ config, positionals }) => {
    const [name] = positionals;
    if (name === undefined || positionals.length !== 1) throw noSuchModel(positionals);
    const path = (config['if-missing'] && fetched(name)) || (await pullByName(name, config.endpoint));
    process.stdout.write(`${config.json ? JSON.stringify({ name, path }) : path}\n`);
    return ExitCode.ok;
  },
});

/** The path of a model of a hub that serves as it is. Models of the catalogue are never asked for twice. */
function fetched(name: string): string | undefined {
  return isHubName(name) ? findHubModel(parseHubName(name)) : undefined;
}

/**
 * Returns the path of a model, which is fetched if it is missing. Progress is written to stderr. Throws PullError, and
 * UsageError for an unknown name.
 */
export async function pullByName(name: string, endpoint?: string): Promise<string> {
  if (isHubName(name)) {
    const { HF_ENDPOINT, HF_TOKEN } = process.env;
    return pullFromHub(name, {
      endpoint: endpoint ?? (HF_ENDPOINT || DEFAULT_ENDPOINT),
      token: HF_TOKEN || undefined,
      output: process.stderr,
    });
  }
  if (endpoint !== undefined) throw new UsageError('--endpoint is for names that begin with hf:.');
  const entry = catalogue.find((candidate) => candidate.name === name);
  if (entry === undefined) throw noSuchModel([name]);
  return pullNamed(entry, process.stderr);
}

function noSuchModel(names: readonly string[]): UsageError {
  const known = catalogue.map((candidate) => candidate.name).join(', ');
  return new UsageError(
    `pull takes one name of: ${known}, or hf:OWNER/REPO[/FILE.gguf] (got ${JSON.stringify(names.join(' '))}).`,
  );
}
