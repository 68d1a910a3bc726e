import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { BUNDLE } from '../bundle.js';

/** The page as `make` has built it, in memory. */

/** Where deploy/bundle-playground.ts leaves it: index.html, and what that names. */
export const PAGE_FOLDER = new URL('playground/', BUNDLE);
const INDEX = 'index.html';
/** What says in index.html that runners may not be killed. */
const CANNOT_KILL = 'data-kill="off"';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

export interface PageFile {
  readonly content: Uint8Array<ArrayBuffer>;
  readonly type: string;
  readonly etag: string;
  /** Its name has a hash of it: another content has another name. */
  readonly isImmutable: boolean;
}

/** By their paths on the server. */
export type BuiltPage = ReadonlyMap<string, PageFile>;

/** Undefined: it was not built. canKill: the page has the button that kills the runner. */
export function readBuiltPage(canKill: boolean, folder = PAGE_FOLDER): BuiltPage | undefined {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const files = names.flatMap((name): [string, PageFile][] => {
    const type = TYPES[extname(name)];
    if (type === undefined) return [];
    const isIndex = name === INDEX;
    const read = readFileSync(new URL(name, folder));
    const content = isIndex && canKill ? withButton(read.toString()) : new Uint8Array(read);
    const etag = `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`;
    return [[isIndex ? '/' : `/playground/${name}`, { content, type, etag, isImmutable: !isIndex }]];
  });
  return new Map(files);
}

function withButton(index: string): Uint8Array<ArrayBuffer> {
  if (!index.includes(CANNOT_KILL)) throw new Error(`${INDEX} of the playground lacks ${CANNOT_KILL}.`);
  return new TextEncoder().encode(index.replace(CANNOT_KILL, 'data-kill="on"'));
}
