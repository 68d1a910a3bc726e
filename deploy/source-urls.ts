import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type BuildOptions, type Plugin, transform } from 'esbuild';

/** Bundles by esbuild, of programs that find files of the tree by where their source is. */

export const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** The only package of the gateway with native code, which it loads when a journal is asked for. */
export const NATIVE_PACKAGE = 'classic-level';

/** What every bundle of ours has in common. */
export const bundleOptions = {
  absWorkingDir: ROOT,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  metafile: true,
  logLevel: 'warning',
  // Has a part that is no JavaScript: it is found beside the bundle, or in the tree.
  external: [NATIVE_PACKAGE],
  // CommonJS packages call require of what node has built in.
  banner: {
    js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
  },
} as const satisfies BuildOptions;

/**
 * import.meta.url stays that of the source, also in a bundle. outdir: where the bundle is, if the tree may move with it;
 * else the URL is the one of now.
 */
export function sourceUrls(outdir?: string): Plugin {
  const urlOf = (source: string): string => {
    if (outdir === undefined) return JSON.stringify(pathToFileURL(source).href);
    return `new URL(${JSON.stringify(relative(outdir, source))}, import.meta.url).href`;
  };
  return {
    name: 'source-urls',
    setup(build) {
      build.onLoad({ filter: /\.[jt]s$/ }, async ({ path }) => {
        if (relative(ROOT, path).startsWith('node_modules/')) return undefined;
        const text = readFileSync(path, 'utf8');
        if (!text.includes('import.meta.url')) return undefined;
        const { code } = await transform(text, {
          loader: 'ts',
          target: bundleOptions.target,
          define: { 'import.meta.url': 'sourceUrl' },
          banner: `const sourceUrl = ${urlOf(path)};`,
          sourcefile: path,
          sourcemap: 'inline',
        });
        return { contents: code, loader: 'js' };
      });
    },
  };
}
