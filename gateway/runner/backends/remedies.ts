/** What helps where a runner's program is missing: a tree of sources has make, an installation does not. */
import { existsSync } from 'node:fs';

export type Remedies = typeof ofSources;

const ofSources = {
  cpuRunner: '"make binaries" builds it',
  cudaRunner: '"make cuda-runner" builds it',
  bothRunners: '"make binaries cuda-runner" builds both anew',
};

const ofInstallation: Remedies = {
  cpuRunner: 'it comes with Runnel, so install that again',
  cudaRunner: 'this installation has none',
  bothRunners: 'install both from one package',
};

/** tree: the root of Runnel's files. */
export function remediesIn(tree: URL): Remedies {
  return existsSync(new URL('Makefile', tree)) ? ofSources : ofInstallation;
}

export const remedies = remediesIn(new URL('../../../', import.meta.url));
