import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * The bundled programs of the gateway (main, reader-program and keeper-program): one file of code each, V8's cache of its compilation, and a
 * file that runs both. They start ten times faster than the sources. `make` builds them by deploy/bundle-gateway.ts. A bundle
 * is used only if it was made of exactly the sources that lie here, so an edit always takes effect. An installation has no
 * sources, and nothing is compared.
 */

const ROOT = new URL('../', import.meta.url);
export const BUNDLE = new URL('build/gateway/', ROOT);
/** The manifest is written last, so its presence means that the bundle is complete. */
export const MANIFEST = 'manifest.json';

/**
 * A source as it was when the bundle was made: its path from the root, and its size and time of modification.
 * @typedef {{ path: string, size: number, mtimeMs: number }} Source
 *
 * What a bundle was made of: the sources, and a digest over their paths and contents.
 * @typedef {{ sources: Source[], digest: string }} Manifest
 */

/**
 * The file to start `program` by. Undefined if the sources are to be run by tsx.
 * @param {'main' | 'reader-program' | 'keeper-program'} program
 * @returns {string | undefined}
 */
export function bundleOf(program) {
  const hasSources = existsSync(new URL('gateway/main.ts', ROOT));
  return hasSources && !isBundleCurrent() ? undefined : fileURLToPath(new URL(`${program}.cjs`, BUNDLE));
}

/**
 * Whether the bundle was made of the present sources. Unless a size or time has changed, the sources are not read: reading them
 * all takes longer than starting.
 * @returns {boolean}
 */
export function isBundleCurrent() {
  try {
    /** @type {Manifest} */
    const { sources, digest } = JSON.parse(readFileSync(new URL(MANIFEST, BUNDLE), 'utf8'));
    return sources.every(isUntouched) || digestOf(sources.map(({ path }) => path)) === digest;
  } catch {
    // There is no bundle, or one of its sources is gone.
    return false;
  }
}

/**
 * @param {string} path from the root
 * @returns {Source}
 */
export function sourceAt(path) {
  const { size, mtimeMs } = statSync(new URL(path, ROOT));
  return { path, size, mtimeMs };
}

/**
 * @param {Source} source
 * @returns {boolean}
 */
function isUntouched({ path, size, mtimeMs }) {
  const now = sourceAt(path);
  return now.size === size && now.mtimeMs === mtimeMs;
}

/**
 * @param {readonly string[]} paths
 * @returns {string}
 */
export function digestOf(paths) {
  const hash = createHash('sha256');
  for (const path of paths) {
    const content = readFileSync(new URL(path, ROOT));
    hash.update(`${path}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}
