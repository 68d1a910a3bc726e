import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

const test = suite('install');

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PARTS = [
  'gateway',
  'docs',
  'deploy',
  'build/gateway',
  'build/cpu-runner',
  'build/sd-notify',
  'build/LICENSES-runners.txt',
];
const PAGES = ['package.json', 'package-lock.json', 'README.md', 'SECURITY.md', 'CHANGELOG.md', 'LICENSE'];
const VERSION = (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }).version;

const folder = temporaryFolder();
const tree = join(folder.path, 'tree');
const root = join(folder.path, 'root');
const prefix = join(root, 'usr/local');
const program = join(prefix, 'bin/runnel');
const config = join(root, 'etc/runnel/runnel.json');

function script(
  verb: string,
  env: NodeJS.ProcessEnv = {},
): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(join(tree, 'deploy/install.sh'), [verb], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, DESTDIR: root, ...env },
    encoding: 'utf8',
  });
}

function succeed(verb: string, env?: NodeJS.ProcessEnv): string {
  const { status, stdout, stderr } = script(verb, env);
  assert.is(status, 0, stderr);
  return stdout;
}

function filesIn(path: string): string[] {
  const entries = readdirSync(path, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

test.before(() => {
  mkdirSync(tree);
  for (const part of [...PARTS, ...PAGES]) cpSync(join(ROOT, part), join(tree, part), { recursive: true });
});

test('make install and make uninstall call the script with their PREFIX and DESTDIR', () => {
  for (const verb of ['install', 'uninstall']) {
    const plan = execFileSync('make', ['--dry-run', verb, 'DESTDIR=/d', 'PREFIX=/p'], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    const line = plan.split('\n').find((command) => command.includes('install.sh'));
    assert.match(line ?? plan, /PREFIX='\/p' SYSCONFDIR='\/etc' DESTDIR='\/d' .*install\.sh (un)?install$/);
  }
});

test('installing again changes nothing, and the user’s configuration stays', () => {
  mkdirSync(join(prefix, 'bin'), { recursive: true });
  writeFileSync(join(prefix, 'bin/other'), 'of another program');
  assert.match(succeed('install'), `Installed Runnel ${VERSION} under ${prefix}.`);
  const installed = filesIn(root);
  for (const name of ['bin/runnel', 'lib/systemd/system/runnel.service', 'lib/systemd/system/runnel.socket'])
    assert.ok(installed.includes(join(prefix, name)), name);
  for (const name of [
    'gateway/runnel.js',
    'build/gateway/main.cjs',
    'build/gateway/playground/index.html',
    'build/gateway/LICENSES.txt',
  ])
    assert.ok(installed.includes(join(prefix, 'lib/runnel', name)), name);
  const isSource = (file: string) => /\.ts$|(?<!\/build\/gateway)\/node_modules\//.test(file);
  assert.equal(installed.filter(isSource), [], 'the bundle is all there is of the gateway');

  writeFileSync(config, '{"model": "mine"}');
  writeFileSync(join(prefix, 'lib/runnel/gateway/gone.ts'), 'of an earlier version');
  process.umask(0o077);
  try {
    assert.match(succeed('install'), `Kept the configuration ${config}`);
  } finally {
    process.umask(0o022);
  }
  assert.equal(filesIn(root), installed);
  for (const file of installed)
    assert.is(statSync(file).mode & 0o044, 0o044, `${file} is for all, whatever the mask of who installs`);
  assert.is(statSync(program).mode & 0o111, 0o111);
  assert.is(readFileSync(config, 'utf8'), '{"model": "mine"}');
});

test('it serves from where it is, with the tree it came from moved away', async () => {
  renameSync(tree, `${tree}-away`);
  try {
    assert.is(execFileSync(program, ['--version'], { cwd: '/', encoding: 'utf8' }), `${VERSION}\n`);
    const gateway = await Gateway.startOn(DEFAULT_MODEL, ['--port', '0'], { program: [program] });
    try {
      await gateway.ready();
      const body = { model: 'smollm2', messages: [{ role: 'user', content: 'Say yes.' }], max_tokens: 4 };
      assert.is((await gateway.post('/v1/chat/completions', body)).status, 200);
      const { pid } = (await gateway.health()).runner;
      assert.is(readlinkSync(`/proc/${pid}/exe`), join(prefix, 'lib/runnel/build/cpu-runner'));
      for (const process of [gateway.process.pid, pid])
        assert.not.match(readFileSync(`/proc/${process}/maps`, 'utf8'), `${ROOT}build`);
    } finally {
      assert.equal(await gateway.stop(), { code: 0, signal: null });
    }
  } finally {
    renameSync(`${tree}-away`, tree);
  }
});

test('uninstall takes away what install has put there, and says what stays', () => {
  assert.match(
    succeed('uninstall'),
    `the configuration in ${join(root, 'etc/runnel')}, models and state in /var/lib/runnel`,
  );
  assert.equal(filesIn(root), [config, join(prefix, 'bin/other')].sort());
  succeed('uninstall');
});

test('units have the paths of another PREFIX, and systemd has nothing to say about them', () => {
  const elsewhere = join(folder.path, 'elsewhere');
  assert.match(
    succeed('install', { DESTDIR: '', PREFIX: elsewhere, SYSCONFDIR: elsewhere }),
    'systemctl link',
  );
  const unit = join(elsewhere, 'lib/systemd/system/runnel.service');
  const text = readFileSync(unit, 'utf8');
  assert.match(text, `ExecStart=${elsewhere}/bin/runnel serve`);
  assert.match(text, `RUNNEL_CONFIG=${elsewhere}/runnel/runnel.json`);
  assert.not.match(text, /\/usr\/local|\/etc\//);
  const { stderr } = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' });
  assert.is(stderr, '');
  succeed('uninstall', { DESTDIR: '', PREFIX: elsewhere, SYSCONFDIR: elsewhere });
});

test('foreign files are not touched, and paths that units cannot hold are refused', () => {
  const other = join(folder.path, 'other');
  const cases: [string, string][] = [
    ['bin/runnel', `${other}/bin/runnel is another program; move it away.`],
    ['lib/runnel/a', `${other}/lib/runnel is not Runnel's; move it away.`],
  ];
  for (const [name, complaint] of cases) {
    mkdirSync(join(other, name, '..'), { recursive: true });
    writeFileSync(join(other, name), 'of another program');
    for (const verb of ['install', 'uninstall']) {
      const { status, stderr } = script(verb, { DESTDIR: '', PREFIX: other });
      assert.is(status, 64);
      assert.is(stderr, `install.sh: ${complaint}\n`);
      assert.ok(existsSync(join(other, name)));
    }
    renameSync(join(other, name.split('/')[0] as string), join(folder.path, `aside-${name.split('/')[0]}`));
  }
  for (const PREFIX of ['relative', '/with space', '/100%']) {
    const { status, stderr } = script('install', { PREFIX });
    assert.is(status, 64, PREFIX);
    assert.match(stderr, `got '${PREFIX}'`);
  }
});

test.run();
