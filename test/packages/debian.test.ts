import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

/** The Debian package is installed in a minimal system, checked by systemd's own programs, and removed. */

const test = suite('Debian package');
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const folder = temporaryFolder();
const root = join(folder.path, 'root');

const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
const architecture = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim();
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const file = `runnel_${version}_${architecture}.deb`;

function inside(...command: readonly string[]) {
  const { status, stdout, stderr } = spawnSync('chroot', [root, ...command], {
    encoding: 'utf8',
    env: { PATH },
  });
  return { status, said: stdout + stderr };
}

const installed = (path: string): boolean => existsSync(join(root, path));

test('it installs where its dependencies are, and nothing starts', () => {
  const names = execFileSync('dpkg-deb', ['-f', join(ROOT, 'build/dist', file), 'Depends'], {
    encoding: 'utf8',
  });
  const packages = names.split(',').map((each) => /^\s*(\S+)/.exec(each)?.[1]);
  const options = ['--quiet', '--variant=minbase', `--include=${[...packages, 'systemd'].join()}`];
  execFileSync('mmdebstrap', [...options, 'trixie', root], { stdio: 'ignore' });
  copyFileSync(join(ROOT, 'build/dist', file), join(root, file));
  const { status, said } = inside('dpkg', '--install', `/${file}`);
  assert.is(status, 0, said);
  assert.is(inside('runnel', '--version').said, `${version}\n`);
});

test('systemd finds no fault in its units, and enables them', () => {
  const units = ['runnel.service', 'runnel.socket'].map((name) => `/usr/lib/systemd/system/${name}`);
  const { status, said } = inside('systemd-analyze', 'verify', ...units);
  assert.equal([status, said], [0, '']);
  assert.is(inside('systemctl', 'enable', 'runnel.socket', 'runnel.service').status, 0);
  assert.ok(installed('etc/systemd/system/sockets.target.wants'));
});

test('doctor runs in it, and says that it computes on the CPU', () => {
  const { said } = inside('runnel', 'doctor', '--json', '--backend', 'cpu');
  assert.is(JSON.parse(said).serves, 'cpu');
});

test('removed, it leaves its configuration; purged, nothing', () => {
  assert.is(inside('dpkg', '--remove', 'runnel').status, 0);
  assert.equal([installed('usr/bin/runnel'), installed('usr/lib/runnel')], [false, false]);
  assert.ok(installed('etc/runnel/runnel.json'));
  assert.is(inside('dpkg', '--purge', 'runnel').status, 0);
  assert.not(installed('etc/runnel'));
});

if (process.getuid?.() === 0) test.run();
else console.log('SKIPPED: only root can install packages in a root folder');
