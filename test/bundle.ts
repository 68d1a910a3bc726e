import { join } from 'node:path';
import { build } from 'esbuild';
import { bundleOptions, NATIVE_PACKAGE, ROOT, sourceUrls } from '../deploy/source-urls.ts';

/** In the tree, because some tests ask for its packages; of this process, because several may run at once. */
export const TEST_BUNDLES = join(ROOT, `node_modules/.cache/runnel/tests-${process.pid}`);

/** Files of test/ as bundles that share their parts, in one go: tsx would take a second of each start. */
export async function bundleTests(files: readonly string[]): Promise<void> {
  await build({
    ...bundleOptions,
    entryPoints: [...files],
    outbase: ROOT,
    outdir: TEST_BUNDLES,
    plugins: [sourceUrls()],
    splitting: true,
    sourcemap: 'linked',
    // They look for their own files.
    external: [NATIVE_PACKAGE, '@seriousme/openapi-schema-validator', 'esbuild', 'playwright-core'],
  });
}
