/**
 * Reads how a vector is made from a text, as sentence-transformers writes it into a model's folder. modules.json lists the
 * modules that a text passes through, and the pooling module has a config.json of its own, which counts only if there is a
 * modules.json.
 */
import { join } from 'node:path';
import * as z from 'zod';
import type { Pooling } from '../../runner/runner.ts';
import type { ModelPooling } from '../model.ts';
import { moduleList, poolingConfig } from './folder-files.ts';
import { FolderError, readAs } from './json-file.ts';

const MAX_NAME = 200;
const MAX_MODULES = 16;

const name = z.string().max(MAX_NAME);
const modules = z.array(z.object({ type: name, path: name.nullish() })).max(MAX_MODULES);
const flag = z.boolean().nullish();
const config = z.object({
  /** Takes the place of the flags below. */
  pooling_mode: name.nullish(),
  pooling_mode_cls_token: flag,
  pooling_mode_mean_tokens: flag,
  pooling_mode_max_tokens: flag,
  pooling_mode_mean_sqrt_len_tokens: flag,
  pooling_mode_weightedmean_tokens: flag,
  pooling_mode_lasttoken: flag,
  include_prompt: flag,
});

const POOLINGS: ReadonlyMap<string, Pooling> = new Map([
  ['lasttoken', 'last'],
  ['mean', 'mean'],
  ['cls', 'cls'],
]);
/** Two modules that need no support: the model itself, and the normalization, which the routes for vectors do anyway. */
const TRANSFORMER = 'Transformer';
const NORMALIZE = 'Normalize';
const POOLING = 'Pooling';

/** Undefined for a folder without modules.json. Throws FolderError. */
export function readSentencePooling(folder: string): ModelPooling | undefined {
  const listed = readAs(modules, join(folder, moduleList));
  if (listed === undefined) return undefined;
  const found = listed.map(({ type, path }) => ({ type: type.slice(type.lastIndexOf('.') + 1), path }));
  const other = found.find(({ type }) => ![TRANSFORMER, POOLING, NORMALIZE].includes(type));
  if (other !== undefined)
    return { unsupported: `${moduleList} has the module ${JSON.stringify(other.type)}` };
  const poolings = found.filter(({ type }) => type === POOLING);
  if (poolings.length !== 1)
    return { unsupported: `${moduleList} has ${poolings.length} modules for pooling` };
  const file = join(poolings[0]?.path ?? '', 'config.json');
  if (file !== poolingConfig)
    return { unsupported: `${moduleList} has its pooling in ${JSON.stringify(file)}, not ${poolingConfig}` };
  const read = readAs(config, join(folder, poolingConfig));
  if (read === undefined)
    throw new FolderError(`${moduleList} in it names ${poolingConfig}, which does not exist`);
  return poolingOf(read);
}

function poolingOf(read: z.output<typeof config>): ModelPooling {
  const modes = modesOf(read);
  const [mode = 'no mode'] = modes;
  const pooling = POOLINGS.get(mode);
  if (modes.length !== 1 || pooling === undefined)
    return { unsupported: `${poolingConfig} says ${modes.length > 1 ? modes.join(' and ') : mode}` };
  // With include_prompt false, the mean leaves out the tokens of a prompt before the text. Here the client adds the prompt
  // and the gateway cannot tell it from the text. Pooling of a single token is not affected.
  if (pooling === 'mean' && read.include_prompt === false)
    return { unsupported: `${poolingConfig} says ${mode} with include_prompt false` };
  return pooling;
}

/** Missing flags have sentence-transformers' defaults: the mean of all tokens and nothing else. */
function modesOf(read: z.output<typeof config>): readonly string[] {
  if (read.pooling_mode != null) return [read.pooling_mode.toLowerCase()];
  const isOn: readonly [string, boolean][] = [
    ['cls', read.pooling_mode_cls_token ?? false],
    ['mean', read.pooling_mode_mean_tokens ?? true],
    ['max', read.pooling_mode_max_tokens ?? false],
    ['mean_sqrt_len_tokens', read.pooling_mode_mean_sqrt_len_tokens ?? false],
    ['weightedmean', read.pooling_mode_weightedmean_tokens ?? false],
    ['lasttoken', read.pooling_mode_lasttoken ?? false],
  ];
  return isOn.flatMap(([mode, on]) => (on ? [mode] : []));
}
