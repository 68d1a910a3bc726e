import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

/**
 * The Debian package is installed in a minimal system, checked by systemd's own programs, and removed. systemd does not run
 * there. Where a test makes dpkg believe that it does, a stand-in takes the place of systemctl.
 */

const test = suite('Debian package');
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const folder = temporaryFolder();
const root = join(folder.path, 'root');
// Thousands of files: a busy machine takes longer than a test may take to end.
test.after(() => void execFileSync('rm', ['-rf', root]));

const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
const architecture = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim();
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const built = join(ROOT, `build/dist/runnel_${version}_${architecture}.deb`);
const OLD = '/old.deb';
const NEW = '/new.deb';

function inside(...command: readonly string[]) {
  const { status, stdout, stderr } = spawnSync('chroot', [root, ...command], {
    encoding: 'utf8',
    env: { PATH },
  });
  return { status, said: stdout + stderr };
}

function dpkg(...args: readonly string[]): string {
  const { status, said } = inside('dpkg', ...args);
  assert.is(status, 0, said);
  return said;
}

const installed = (path: string): boolean => existsSync(join(root, path));

/** The package's own files and links, wherever they are, but what dpkg knows of it and the packages themselves. */
function leftovers(): string[] {
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' });
  return names.filter((name) => /(^|\/)runnel[^/]*$/.test(name) && !name.startsWith('proc/'));
}

/** Makes a package of an older version with the same content. */
function makeOlder(): void {
  const tree = join(folder.path, 'older');
  execFileSync('dpkg-deb', ['--raw-extract', built, tree]);
  const control = join(tree, 'DEBIAN/control');
  writeFileSync(control, readFileSync(control, 'utf8').replace(/^Version: .*$/m, 'Version: 0.0.1'));
  execFileSync('dpkg-deb', ['-Znone', '--root-owner-group', '--build', tree, join(root, OLD)], {
    stdio: 'ignore',
  });
}

test('it installs where its dependencies are, and nothing starts', () => {
  const names = execFileSync('dpkg-deb', ['-f', built, 'Depends'], { encoding: 'utf8' });
  const packages = names.split(',').map((each) => /^\s*(\S+)/.exec(each)?.[1]);
  const options = ['--quiet', '--variant=minbase', `--include=${[...packages, 'systemd'].join()}`];
  execFileSync('mmdebstrap', [...options, 'trixie', root], { stdio: 'ignore' });
  copyFileSync(built, join(root, NEW));
  makeOlder();
  dpkg('--install', NEW);
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

test('removed, it leaves its configuration, and no link to its units; purged, nothing', () => {
  dpkg('--remove', 'runnel');
  const kept = [
    'etc/runnel',
    'etc/runnel/runnel.json',
    'var/lib/dpkg/info/runnel.list',
    'var/lib/dpkg/info/runnel.postrm',
  ];
  assert.equal(leftovers().sort(), kept);
  dpkg('--purge', 'runnel');
  assert.equal(leftovers(), []);
});

/** What the package asks systemctl for while dpkg does this. status: what systemctl ends with. */
function asked(status: number, ...args: readonly string[]): { calls: string[]; said: string } {
  const calls = join(root, 'calls');
  const systemctl = join(root, 'usr/local/sbin/systemctl');
  mkdirSync(join(root, 'run/systemd/system'), { recursive: true });
  writeFileSync(systemctl, `#!/bin/sh\necho "$@" >>/calls\nexit ${status}\n`);
  chmodSync(systemctl, 0o755);
  writeFileSync(calls, '');
  try {
    const said = dpkg(...args);
    return { said, calls: readFileSync(calls, 'utf8').split('\n').slice(0, -1) };
  } finally {
    for (const path of [systemctl, calls, join(root, 'run/systemd/system')])
      rmSync(path, { recursive: true });
  }
}

test('under systemd the first installation starts nothing, an upgrade restarts a running service, and a removal ends it', () => {
  const life: [string[], string[]][] = [
    [['--install', OLD], ['daemon-reload']],
    [
      ['--install', NEW],
      ['daemon-reload', 'try-restart runnel.service'],
    ],
    [
      ['--remove', 'runnel'],
      ['disable --now runnel.socket runnel.service', 'daemon-reload'],
    ],
    [['--purge', 'runnel'], []],
  ];
  for (const [args, calls] of life) {
    const done = asked(0, ...args);
    assert.equal(done.calls, calls, args.join(' '));
    assert.not.match(done.said, /^runnel: /m);
  }
  assert.equal(leftovers(), []);
});

test('what systemctl refuses is said, and the package is installed, upgraded, removed and purged all the same', () => {
  const life: [string[], RegExp][] = [
    [['--install', OLD], /^runnel: the units were not read again/m],
    [['--install', NEW], /^runnel: the service was not restarted/m],
    [['--remove', 'runnel'], /^runnel: the units were not disabled/m],
    [['--purge', 'runnel'], /^Purging/m],
  ];
  for (const [args, sentence] of life) {
    assert.match(asked(1, ...args).said, sentence);
    if (args[0] !== '--install') continue;
    assert.is(inside('dpkg', '--status', 'runnel').said.split('\n')[1], 'Status: install ok installed');
    assert.is(inside('systemctl', 'enable', 'runnel.socket', 'runnel.service').status, 0);
  }
  assert.equal(leftovers(), []);
});

if (process.getuid?.() === 0) test.run();
else console.log('SKIPPED: only root can install packages in a root folder');
