/** What has been pulled and can be served by its name. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { catalogue } from './catalogue.ts';
import { HubCache, hubFolder } from './hub/hub-cache.ts';
import { hubFileOf } from './hub/hub-file.ts';
import { cachePath } from './model-cache.ts';

export interface PulledModel {
  /** As --model takes it. */
  readonly name: string;
  readonly bytes: number;
  readonly path: string;
}

/** Of the catalogue first, then of the hub's cache by name. */
export function listModels(): PulledModel[] {
  const named = catalogue.map((entry) => ({ name: entry.name, path: cachePath(entry) }));
  const found = [...named, ...hubFiles()];
  return found.flatMap(({ name, path }) => {
    const stats = statSync(path, { throwIfNoEntry: false });
    return stats?.isFile() === true ? [{ name, bytes: stats.size, path }] : [];
  });
}

function hubFiles(): { name: string; path: string }[] {
  const names = entriesOf(hubFolder()).flatMap((folder) => {
    const [kind, owner, ...repo] = folder.split('--');
    return kind === 'models'
      ? namesIn(join(hubFolder(), folder, 'snapshots'), `hf:${owner}/${repo.join('--')}`)
      : [];
  });
  return names.sort().flatMap((name) => {
    const file = hubFileOf(name);
    const path = file === undefined ? undefined : new HubCache(file).find();
    return path === undefined ? [] : [{ name, path }];
  });
}

/** Names of the files in any snapshot: which of them main has, the cache knows. */
function namesIn(snapshots: string, repoName: string): string[] {
  const names = entriesOf(snapshots).flatMap((commit) =>
    readdirSync(join(snapshots, commit), { recursive: true, encoding: 'utf8' }).map(
      (path) => `${repoName}/${path}`,
    ),
  );
  return [...new Set(names)];
}

/** Nothing where there is no such folder. */
function entriesOf(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}
