import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { BUNDLE } from '../bundle.js';

/** The page as built by `make`, in memory. */

/** The output of deploy/bundle-playground.ts: index.html and the files that it names. */
const PAGE_FOLDER = new URL('playground/', BUNDLE);
const INDEX = 'index.html';
/** With this attribute, index.html says that runners cannot be killed. */
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
  /** Whether the name has a hash of the content, so that other content has another name. */
  readonly isImmutable: boolean;
}

/** The files by their paths on the server. */
export type BuiltPage = ReadonlyMap<string, PageFile>;

/** Undefined if the page was not built. canKill: whether the page has the button that kills the runner. */
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
