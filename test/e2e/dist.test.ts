import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

/** What `make dist` builds runs from where it is unpacked, without the source tree and without npm packages. */

const test = suite('dist');

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const VERSION = (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }).version;
const folder = temporaryFolder();
const isHere = (program: string) => spawnSync(program, ['--version']).error === undefined;
const missing = ['dpkg-deb', 'dpkg-shlibdeps'].filter((program) => !isHere(program));
if (missing.length > 0)
  console.log(`SKIPPED: packages cannot be made here: ${missing.join(' and ')} is missing`);
const distTest = missing.length === 0 ? test : test.skip;

/** The package's compression takes most of the time. */
const FAST = { DPKG_DEB_COMPRESSOR_TYPE: 'gzip', DPKG_DEB_COMPRESSOR_LEVEL: '1' };

function make(name: string, env: NodeJS.ProcessEnv = {}) {
  const DIST = join(folder.path, name);
  return spawnSync(join(ROOT, 'deploy/dist.sh'), {
    env: { ...process.env, DIST, ...FAST, ...env },
    encoding: 'utf8',
  });
}

const ARCHITECTURE =
  missing.length > 0 ? '' : execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim();
const ARCHIVE = `runnel-${VERSION}-linux-${ARCHITECTURE}`;
const PACKAGE = `runnel_${VERSION}_${ARCHITECTURE}.deb`;

function digests(name: string): string[] {
  return [`${ARCHIVE}.tar.gz`, PACKAGE].map((file) =>
    createHash('sha256')
      .update(readFileSync(join(folder.path, name, file)))
      .digest('hex'),
  );
}

/** Serves a model with the installation at `path`. doctor must say that it computes on the CPU. */
async function serves(path: string, runner: string): Promise<void> {
  const program = join(path, 'bin/runnel');
  assert.is(execFileSync(program, ['--version'], { cwd: '/', encoding: 'utf8' }), `${VERSION}\n`);
  const said = JSON.parse(
    execFileSync(program, ['doctor', '--json', '--backend', 'cpu'], { cwd: '/', encoding: 'utf8' }),
  );
  assert.equal([said.serves, said.cpu_runner.file, said.cpu_runner.fault], ['cpu', runner, null]);
  assert.match(said.processor.device, /^cpu, /);
  assert.not.match(said.cuda_runner.fault ?? '', /make/, 'there is no make here');
  const gateway = await Gateway.startOn(TINY_MODEL, ['--port', '0'], { program: [program] });
  try {
    await gateway.ready();
    const body = { model: 'tiny-llama-q8_0', prompt: 'hello', max_tokens: 4 };
    assert.is((await gateway.post('/v1/completions', body)).status, 200);
    assert.match(await (await fetch(gateway.url)).text(), /<title>/);
    for (const pid of [gateway.process.pid, (await gateway.health()).runner.pid])
      assert.not.match(readFileSync(`/proc/${pid}/maps`, 'utf8'), `${ROOT}build`);
  } finally {
    assert.equal(await gateway.stop(), { code: 0, signal: null });
  }
}

distTest('the same build gives the same bytes, at the time that is set', () => {
  const { status, stdout, stderr } = make('one');
  assert.is(status, 0, stderr);
  assert.equal(
    stdout
      .trim()
      .split('\n')
      .map((path) => path.slice(folder.path.length + 1)),
    [`one/${ARCHIVE}.tar.gz`, `one/${PACKAGE}`],
  );
  assert.equal(readdirSync(join(folder.path, 'one')).sort(), [`${ARCHIVE}.tar.gz`, PACKAGE]);
  const time = execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: ROOT, encoding: 'utf8' }).trim();
  assert.is(make('two', { SOURCE_DATE_EPOCH: time }).status, 0);
  assert.equal(digests('two'), digests('one'));
});

distTest('the Debian package serves from the folder that it is unpacked into', async () => {
  const root = join(folder.path, 'package');
  execFileSync('dpkg-deb', ['-x', join(folder.path, 'one', PACKAGE), root]);
  const lib = join(root, 'usr/lib/runnel');
  assert.not.ok(existsSync(join(lib, 'gateway/main.ts')) || existsSync(join(lib, 'node_modules')));
  for (const licence of ['LICENSE', 'build/gateway/LICENSES.txt', 'build/LICENSES-runners.txt'])
    assert.ok(statSync(join(lib, licence)).size > 1000, licence);
  await serves(join(root, 'usr'), join(lib, 'build/cpu-runner'));
});

distTest(
  'the Debian package says what it needs, keeps the configuration, and has units with its paths',
  () => {
    const file = join(folder.path, 'one', PACKAGE);
    const field = (name: string) => execFileSync('dpkg-deb', ['-f', file, name], { encoding: 'utf8' }).trim();
    assert.is(field('Version'), VERSION);
    assert.match(field('Depends'), /^nodejs \(>= 20\), libc6 \(>= [\d.]+\), .*libstdc\+\+6/);
    const control = join(folder.path, 'control');
    execFileSync('dpkg-deb', ['-e', file, control]);
    assert.is(readFileSync(join(control, 'conffiles'), 'utf8'), '/etc/runnel/runnel.json\n');
    const root = join(folder.path, 'package');
    assert.is(spawnSync('md5sum', ['--check', '--quiet', join(control, 'md5sums')], { cwd: root }).status, 0);
    for (const script of ['postinst', 'prerm', 'postrm'])
      assert.is(spawnSync('sh', ['-n', join(control, script)]).status, 0, script);
    const unit = readFileSync(join(root, 'usr/lib/systemd/system/runnel.service'), 'utf8');
    assert.match(unit, 'ExecStart=/usr/bin/runnel serve');
    assert.match(unit, 'RUNNEL_CONFIG=/etc/runnel/runnel.json');
    assert.not.match(unit, '/usr/local');
  },
);

distTest('the archive serves from the folder that it is unpacked into', async () => {
  const root = join(folder.path, 'archive');
  mkdirSync(root);
  execFileSync('tar', ['-xzf', join(folder.path, 'one', `${ARCHIVE}.tar.gz`), '-C', root]);
  assert.equal(readdirSync(join(root, ARCHIVE)).sort(), ['bin', 'lib']);
  await serves(join(root, ARCHIVE), join(root, ARCHIVE, 'lib/runnel/build/cpu-runner'));
});

distTest('without git and without a time it refuses', () => {
  const { status, stderr } = make('four', { GIT_DIR: join(folder.path, 'absent'), SOURCE_DATE_EPOCH: '' });
  assert.is(status, 64);
  assert.is(stderr, 'dist.sh: without git, set SOURCE_DATE_EPOCH, in seconds since 1970.\n');
});

test.run();
