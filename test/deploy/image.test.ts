import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { configOfStage, type ImageConfig } from '../../deploy/containerfile.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

/**
 * What deploy/image.ts makes around a root folder. A stand-in for mmdebstrap makes that folder; make check-packages has a real
 * one.
 */

const test = suite('making an image');
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const folder = temporaryFolder();
const hasDpkg = spawnSync('dpkg-deb', ['--version']).error === undefined;
if (!hasDpkg) console.log('SKIPPED: dpkg-deb is missing');
const imageTest = hasDpkg ? test : test.skip;

/** A package that has these programs and nothing else. */
function packageOf(name: string, ...programs: readonly string[]): string {
  const control =
    'Package: runnel\nVersion: 1.2\nArchitecture: amd64\nMaintainer: a <a@b>\nDepends: nodejs (>= 20), libc6\nDescription: a\n';
  const tree = join(folder.path, name);
  mkdirSync(join(tree, 'usr/lib/runnel/build'), { recursive: true });
  mkdirSync(join(tree, 'DEBIAN'));
  folder.write(`${name}/DEBIAN/control`, control);
  for (const program of programs) folder.write(`${name}/usr/lib/runnel/build/${program}`, '');
  execFileSync('dpkg-deb', ['--build', tree], { stdio: 'ignore' });
  return `${tree}.deb`;
}

/** Notes its arguments, and makes an empty archive of the last one. */
const STAND_IN = `#!/bin/sh
printf '%s\\n' "$@" "at $SOURCE_DATE_EPOCH" >"$(dirname "$0")/asked"
for last; do :; done
tar -cf "$last" --files-from /dev/null
`;

function make(deb: string, out: string, ...args: readonly string[]) {
  const bin = join(folder.path, 'bin');
  mkdirSync(bin, { recursive: true });
  folder.write('bin/mmdebstrap', STAND_IN, 0o755);
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}`, SOURCE_DATE_EPOCH: '1700000000' };
  const command = ['--import', 'tsx', 'deploy/image.ts', '--package', deb, '--out', join(folder.path, out)];
  return spawnSync(process.execPath, [...command, ...args], { cwd: ROOT, env, encoding: 'utf8' });
}

interface Blobs {
  readonly [file: string]: string;
}

/** The files of an image's archive. */
function filesOf(archive: string): Blobs {
  const names = execFileSync('tar', ['-tf', archive], { encoding: 'utf8' })
    .split('\n')
    .filter((name) => /[^/]$/.test(name));
  return Object.fromEntries(
    names.map((name) => [name, execFileSync('tar', ['-xOf', archive, name], { encoding: 'latin1' })]),
  );
}

imageTest('the variant for CUDA has its stage’s settings, and its name', () => {
  const { stdout, stderr } = make(
    packageOf('both', 'cpu-runner', 'cuda-runner'),
    'cuda',
    '--variant',
    'cuda',
  );
  const archive = join(folder.path, 'cuda/runnel-1.2-amd64-cuda.oci.tar');
  assert.is(stdout, `${archive}\n`, stderr);
  const files = filesOf(archive);
  const blob = (digest: string) => JSON.parse(files[`./blobs/${digest.replace(':', '/')}`] as string);
  const [manifest] = JSON.parse(files['./index.json'] as string).manifests;
  const about = blob(blob(manifest.digest).config.digest) as { config: ImageConfig; created: string };
  const { Env, ...wanted } = configOfStage(readFileSync(join(ROOT, 'deploy/Containerfile'), 'utf8'), 'cuda');
  const [path, ...env] = about.config.Env;
  assert.match(path as string, /^PATH=/);
  assert.equal(env, Env);
  assert.match(env.join(), 'NVIDIA_VISIBLE_DEVICES=all');
  for (const [name, value] of Object.entries(wanted))
    assert.equal(about.config[name as keyof ImageConfig], value, name);
  assert.is(about.created, '2023-11-14T22:13:20.000Z');
});

imageTest(
  'the root folder has what the package depends on, of its architecture, at the time that is set',
  () => {
    const { status, stderr } = make(packageOf('asked', 'cpu-runner'), 'asked-out');
    assert.is(status, 0, stderr);
    const asked = readFileSync(join(folder.path, 'bin/asked'), 'utf8').split('\n');
    for (const line of ['--architectures=amd64', '--include=nodejs,libc6,ca-certificates', 'at 1700000000'])
      assert.ok(asked.includes(line), asked.join('\n'));
  },
);

imageTest('the same root folder gives the same bytes', () => {
  const deb = packageOf('same', 'cpu-runner');
  const [one, two] = ['one', 'two'].map((out) => {
    assert.is(make(deb, out).status, 0);
    return readFileSync(join(folder.path, out, 'runnel-1.2-amd64.oci.tar'));
  }) as [Buffer, Buffer];
  assert.ok(one.equals(two));
  assert.not.match(
    execFileSync('tar', ['-tvf', '-'], { input: one, encoding: 'utf8' }),
    /^(?!.*2023-11-14).+$/m,
  );
});

imageTest('a package without cuda-runner makes no image for CUDA', () => {
  const { status, stderr } = make(packageOf('cpu', 'cpu-runner'), 'none', '--variant', 'cuda');
  assert.is(status, 64);
  assert.match(stderr, 'cpu.deb has no cuda-runner; run make cuda-runner and make dist first.');
});

test.run();
