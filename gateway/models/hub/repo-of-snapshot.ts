/**
 * The repository's name, without its owner, of a snapshot folder in the hub's cache (hub-cache.ts); undefined for any other
 * path. In a file of its own, so that reading a model does not load the cache's code.
 */
export function repoOfSnapshot(path: string): string | undefined {
  const [folder = '', snapshots, commit = ''] = path.replace(/\/$/, '').split('/').slice(-3);
  if (snapshots !== 'snapshots' || !/^[0-9a-f]{40}$/.test(commit)) return undefined;
  const [kind, owner, ...name] = folder.split('--');
  return kind === 'models' && owner !== '' ? name.join('--') || undefined : undefined;
}
