/** Lists the models that have been pulled and can be served by their names. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { catalogue } from './catalogue.ts';
import { hubModelOf } from './hub/hub-file.ts';
import { hubFolder } from './hub/hub-folder.ts';
import { filesOf } from './huggingface/folder-files.ts';
import { cachePath, findHubModel } from './model-cache.ts';

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

/** Empty if there is no such folder. */
function entriesOf(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}
