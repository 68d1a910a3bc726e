import { UsageError } from '../../ops/exit-code.ts';

/** A model file on a hub, as `hf:owner/repo/file.gguf` names it. */
export interface HubFile {
  readonly owner: string;
  readonly repo: string;
  /** In the repository; folders are separated by slashes. */
  readonly path: string;
  /** As it was written. */
  readonly name: string;
}

const PREFIX = 'hf:';
const MAX_PATH_PARTS = 8;

export function isHubName(name: string): boolean {
  return name.startsWith(PREFIX);
}

/** Undefined for a name that is none. What it accepts cannot lead out of a folder it is joined to. */
export function hubFileOf(name: string): HubFile | undefined {
  const [owner, repo, ...path] = name.slice(PREFIX.length).split('/');
  if (!isHubName(name) || !name.endsWith('.gguf') || path.length === 0 || path.length > MAX_PATH_PARTS)
    return;
  if (!isPlainName(owner) || !isPlainName(repo) || !path.every(isPlainName)) return;
  return { owner, repo, path: path.join('/'), name };
}

/** UsageError for a name that is none. */
export function parseHubName(name: string): HubFile {
  const file = hubFileOf(name);
  if (file !== undefined) return file;
  throw new UsageError(
    `${JSON.stringify(name)} names no model file: write hf:OWNER/REPO/FILE.gguf, each part of at most 96 letters, digits, dots, dashes and underscores.`,
  );
}

/** Neither `..` nor anything hidden. */
function isPlainName(part: string | undefined): part is string {
  return part !== undefined && /^(?!\.)[A-Za-z0-9._-]{1,96}$/.test(part) && !part.includes('..');
}
