import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** What of the tree is in a kit, and how large kit and tree are together. */

/** Of test/golden: tiny llamas, and models of the kinds that cuda-runner computes. The others are for other tests. */
const GOLDEN = 'test/golden';
const ENCODERS = /^(bert|roberta|nomic-bert)(-|\.json$|$)/;
/** The tests for a device read it to see that it is refused. */
const REFUSED_MODEL = 'bert-f32.gguf';

/** The files and folders of the tree that the programs of a kit open. */
export function openedPaths(root: string): readonly string[] {
  const within = (folder: string) => readdirSync(join(root, folder)).map((name) => join(folder, name));
  const isOpened = (name: string) => name === REFUSED_MODEL || !ENCODERS.test(name);
  return [
    ...within(GOLDEN).filter((path) => path.startsWith(`${GOLDEN}/tiny-llama-`)),
    ...readdirSync(join(root, GOLDEN, 'models'))
      .filter(isOpened)
      .map((name) => `${GOLDEN}/models/${name}`),
    ...['gateway/runnel.js', 'gateway/bundle.js', 'package.json', 'LICENSE'],
  ];
}

/** Where a machine is lent, an archive often travels with a copy of the tree, and this is the most for both. */
export const MAX_SENT_BYTES = 64 << 20;

/** The bytes of the tree's files, as git knows them: tracked, or neither tracked nor ignored. */
export function bytesOfTree(root: string): number {
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const names = execFileSync('git', list, { cwd: root, encoding: 'utf8', maxBuffer: 64 << 20 }).split('\0');
  const sizes = names.map((name) =>
    name === '' ? 0 : (statSync(join(root, name), { throwIfNoEntry: false })?.size ?? 0),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** What is said of an archive of this size: whether it may travel with the tree, and what to do if it may not. */
export function sizeReport(archiveBytes: number, treeBytes: number): string {
  const mebibytes = (bytes: number): string => `${(bytes / (1 << 20)).toFixed(1)} MiB`;
  const sent = archiveBytes + treeBytes;
  const sizes = `${mebibytes(archiveBytes)}, with this tree ${mebibytes(sent)}`;
  if (sent <= MAX_SENT_BYTES) return sizes;
  return `${sizes}: more than ${mebibytes(MAX_SENT_BYTES)}. Where both must travel together, send the tree without ${mebibytes(sent - MAX_SENT_BYTES)} of its files: the kit needs none of them.`;
}
