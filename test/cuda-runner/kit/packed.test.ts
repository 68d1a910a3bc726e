import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ROOT } from '../../../deploy/source-urls.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { MAX_SENT_BYTES } from './contents.ts';
import type { StepResult } from './results.ts';

/** A kit for the emulated device is packed, unpacked elsewhere, and run there. Needs the programs of a build in build/. */

const test = suite('packed cuda kit');
/** Models in it are tiny, but the device is emulated. */
const RUN_SECONDS = 900;

test('a kit of the build runs where the tree is not, and its results lie where its caller says', () => {
  const [packed, elsewhere] = [temporaryFolder().path, temporaryFolder().path];
  const pack = ['--import', 'tsx', join(ROOT, 'test/cuda-runner/kit/pack.ts')];
  const options = ['--build', join(ROOT, 'build'), '--to', packed, '--emulated', '--preset', '1'];
  const said = execFileSync(process.execPath, [...pack, ...options], { cwd: ROOT, encoding: 'utf8' });
  assert.match(said, /cuda-kit\.tar\.xz: \d+\.\d MiB, with this tree \d+\.\d MiB/);
  const archive = join(packed, 'cuda-kit.tar.xz');
  assert.ok(statSync(archive).size < MAX_SENT_BYTES, said);
  execFileSync('tar', ['-xf', archive, '-C', elsewhere]);
  const caller = join(elsewhere, 'caller');
  mkdirSync(caller);

  const run = join(elsewhere, 'cuda-kit/run');
  const env = { PATH: '/usr/bin:/bin', HOME: elsewhere };
  const done = spawnSync(run, ['--out', 'found', '--seconds', `${RUN_SECONDS}`], {
    cwd: caller,
    env,
    encoding: 'utf8',
  });
  const { steps } = JSON.parse(readFileSync(join(caller, 'found/results.json'), 'utf8')) as {
    steps: StepResult[];
  };
  const bad = steps.filter(({ status }) => status === 'failed' || status === 'timed out');
  assert.equal(bad, [], done.stdout);
  assert.is(done.status, 0, done.stderr);
  const passed = steps.filter(({ status }) => status === 'passed').map(({ name }) => name);
  for (const name of ['probe', 'tests: checkpoint', 'exactness', 'gateway', 'tiny: kernels', 'tiny: start'])
    assert.ok(passed.includes(name), name);
  console.log(`${passed.length} steps of a packed kit passed; ${said.trim().replace(/^\S+: /, '')}`);
});

test.run();
