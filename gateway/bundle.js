import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * The gateway's programs, main, template-worker and model-reader, bundled: one file each, which starts six times faster than the
 * sources. `make` makes them by deploy/bundle-gateway.ts. A bundle counts only if it was made of the very sources that lie
 * here, so whoever edits one runs what is edited. An installation has no sources, and so nothing to compare.
 */

const ROOT = new URL('../', import.meta.url);
export const BUNDLE = new URL('build/gateway/', ROOT);
/** Written last: where it is, the bundle is whole. */
export const MANIFEST = 'manifest.json';

/**
 * What a bundle was made of: paths from the root, and a digest over them and what they hold.
 * @typedef {{ sources: string[], digest: string }} Manifest
 */

/**
 * The file to start `program` by; undefined: the sources, by tsx.
 * @param {'main' | 'template-worker' | 'model-reader'} program
 * @returns {string | undefined}
 */
export function bundleOf(program) {
  const hasSources = existsSync(new URL('gateway/main.ts', ROOT));
  return hasSources && !isBundleCurrent() ? undefined : fileURLToPath(new URL(`${program}.js`, BUNDLE));
}

/** @returns {boolean} */
export function isBundleCurrent() {
  try {
    /** @type {Manifest} */
    const { sources, digest } = JSON.parse(readFileSync(new URL(MANIFEST, BUNDLE), 'utf8'));
    return digestOf(sources) === digest;
  } catch {
    // There is no bundle, or one of its sources is gone.
    return false;
  }
}

/**
 * @param {readonly string[]} sources
 * @returns {string}
 */
export function digestOf(sources) {
  const hash = createHash('sha256');
  for (const source of sources) {
    const content = readFileSync(new URL(source, ROOT));
    hash.update(`${source}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}
