import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { bundleOptions, ROOT, sourceUrls } from '../../../deploy/source-urls.ts';
import { bytesOfTree, openedPaths, sizeReport } from './contents.ts';

/**
 * `make cuda-kit`: packs what a bare machine with a GPU needs to test and measure cuda-runner into one archive: the programs,
 * tiny models, the gateway, and a Node. The kit has the layout of the tree, so programs find files by the same relative paths.
 */

const NAME = 'cuda-kit';

/** The kit's programs, by the programs of the build that take their places with an emulated device. */
const EMULATED = {
  'cuda-runner': 'cuda-runner-emulated',
  'cuda-device-tests': 'cuda-runner-tests',
  'exactness-cuda': 'exactness-cuda-emulated',
};

/** build: where the programs are. to: where the kit is packed. preset: xz's; a lower one is faster. */
const { values } = parseArgs({
  options: {
    build: { type: 'string', default: 'build' },
    to: { type: 'string' },
    emulated: { type: 'boolean', default: false },
    preset: { type: 'string', default: '9' },
  },
});
const to = resolve(values.to ?? values.build);
const folder = join(to, NAME);
rmSync(folder, { recursive: true, force: true });
mkdirSync(join(folder, 'build'), { recursive: true });

const programs = { ...EMULATED, 'cpu-runner': 'cpu-runner', 'sd-notify': 'sd-notify' };
for (const [name, emulated] of Object.entries(programs)) {
  const path = join(folder, 'build', name);
  cpSync(join(values.build, values.emulated ? emulated : name), path);
  execFileSync('strip', [path]);
}
cpSync(process.execPath, join(folder, 'node'));
execFileSync('strip', [join(folder, 'node')]);
cpSync(join(values.build, 'gateway'), join(folder, 'build/gateway'), { recursive: true });
// The manifest names the sources that the bundle was made of.
rmSync(join(folder, 'build/gateway/manifest.json'));
for (const path of openedPaths(ROOT)) cpSync(join(ROOT, path), join(folder, path), { recursive: true });
cpSync(join(ROOT, 'test/cuda-runner/kit/run'), join(folder, 'run'));
await bundle('main.ts', 'kit.js');
await bundle('gateway-check.ts', 'gateway-check.js');
const commit = execFileSync('git', ['describe', '--always', '--dirty'], { cwd: ROOT, encoding: 'utf8' });
const about = { commit: commit.trim(), emulated: values.emulated };
writeFileSync(join(folder, 'kit.json'), `${JSON.stringify(about)}\n`);

const archive = join(to, `${NAME}.tar.xz`);
execFileSync('tar', ['-C', to, '-cf', `${archive}.part`, '--xz', NAME], {
  // The programs have the same kernels, which the dictionary must reach back to, past Node.
  env: { ...process.env, XZ_OPT: `--lzma2=preset=${values.preset},dict=256MiB` },
});
renameSync(`${archive}.part`, archive);
const { size } = statSync(archive);
console.log(`${relative('.', archive)}: ${sizeReport(size, bytesOfTree(ROOT))}`);

/** The sources' URLs in it are those of the kit, whose folder takes the place of the tree's. */
async function bundle(source: string, name: string): Promise<void> {
  await build({
    ...bundleOptions,
    entryPoints: [join(ROOT, 'test/cuda-runner/kit', source)],
    outfile: join(folder, name),
    plugins: [sourceUrls(ROOT)],
  });
}
