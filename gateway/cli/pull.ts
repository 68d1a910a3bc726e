/** `runnel pull NAME`: fetches a model of the catalogue, or a file or folder from a hub, and prints its path. */

import { parseArgs } from 'node:util';
import { flagsHelp, prose } from '../config/help.ts';
import { ExitCode, UsageError } from '../errors/exit-code.ts';
import { isHubName } from '../models/hub/hub-file.ts';
import { DEFAULT_ENDPOINT, pullFromHub } from '../models/hub/pull-from-hub.ts';
import { catalogue } from '../models/model-cache.ts';
import { pull } from '../models/pull.ts';
import { reporting } from './report.ts';

export function pullUsage(): string {
  const rows = catalogue.map(
    ({ name, description, licence }) => `  ${name.padEnd(10)}${description}; ${licence}`,
  );
  return [
    'Usage: runnel pull [--json] NAME',
    '       runnel pull [--json] [--endpoint URL] hf:OWNER/REPO[/FILE.gguf]',
    '',
    'Fetches a model and prints its path. These models have a name:',
    ...rows,
    '',
    prose(
      'hf:OWNER/REPO fetches a folder of a hub: config.json, tokenizer.json, the other files that serving uses, and weights as safetensors. hf:OWNER/REPO/FILE.gguf fetches one file. Both go into the cache of Hugging Face’s tools (HF_HUB_CACHE, or hub in HF_HOME, or ~/.cache/huggingface/hub). An interrupted fetch continues where it stopped.',
    ),
    '',
    flagsHelp([
      {
        group: 'Connection',
        flag: '--endpoint URL',
        help: `URL of the hub (default: HF_ENDPOINT, or ${DEFAULT_ENDPOINT})`,
      },
      { group: 'Input and output', flag: '--json', help: 'Print {"name", "path"}' },
    ]),
    '',
    'HF_TOKEN, if set, is sent to the hub and to no other host.',
    '',
    'Examples:',
    '  runnel pull smollm2',
    '  runnel pull hf:HuggingFaceTB/SmolLM2-360M-Instruct',
    '  runnel serve --model "$(runnel pull smollm2)"',
  ].join('\n');
}

/** Returns the exit code. */
export function pullCommand(args: string[]): Promise<number> {
  return reporting(async () => {
    const options = {
      endpoint: { type: 'string' },
      json: { type: 'boolean', default: false },
    } as const;
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
    const [name] = positionals;
    if (name === undefined || positionals.length !== 1) throw noSuchModel(positionals);
    const path = await pullByName(name, values.endpoint);
    process.stdout.write(`${values.json ? JSON.stringify({ name, path }) : path}\n`);
    return ExitCode.ok;
  });
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
  return pull(entry, process.stderr);
}

function noSuchModel(names: readonly string[]): UsageError {
  const known = catalogue.map((candidate) => candidate.name).join(', ');
  return new UsageError(
    `pull takes one name of: ${known}, or hf:OWNER/REPO[/FILE.gguf] (got ${JSON.stringify(names.join(' '))}).`,
  );
}
