import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { allowedSystemCalls, unitValues } from '../fixtures/unit-settings.ts';

const test = suite('service unit');

const UNIT = 'deploy/runnel.service';
const UNIT_SANDBOX = fileURLToPath(new URL('../../build/unit-sandbox', import.meta.url));
const folder = temporaryFolder();
/** More than any kernel has. */
const MAX_SYSTEM_CALLS = 1000;

/** The unit with the drop-in for CUDA beside it. */
function unitWithDropIn(): string {
  const unit = join(folder.path, 'runnel.service');
  mkdirSync(`${unit}.d`, { recursive: true });
  copyFileSync(UNIT, unit);
  copyFileSync('deploy/runnel-cuda.conf', join(`${unit}.d`, 'cuda.conf'));
  return unit;
}

function analyze(...args: string[]): { status: number | null; stdout: string; complaints: string[] } {
  const { status, stdout, stderr, error } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
  assert.is(error, undefined);
  // The unit's program is not installed on this machine.
  const complaints = stderr
    .split('\n')
    .filter((line) => line !== '' && !line.includes('/usr/local/bin/runnel is not executable'));
  return { status, stdout, complaints };
}

test('systemd finds nothing to complain about', () => {
  // The status is 0 even if a setting is unknown, so there must be no output.
  for (const unit of [UNIT, 'deploy/runnel.socket', unitWithDropIn()])
    assert.equal(analyze('verify', unit).complaints, [], unit);
  const typo = folder.write('typo.service', '[Service]\nExecStart=/bin/true\nProtectHoem=yes\n');
  assert.is(analyze('verify', typo).complaints.length, 1, 'a setting that is none would be seen');
});

test('its exposure is at most 2.0, with the drop-in for CUDA as well', () => {
  for (const unit of [UNIT, unitWithDropIn()]) {
    const { status, stdout } = analyze('security', '--offline=true', '--threshold=20', unit);
    assert.is(status, 0, stdout);
    assert.match(stdout, /Overall exposure level for runnel\.service: [01]\.\d OK/);
  }
});

test('comments have their own lines: systemd reads those after a value as part of it', () => {
  for (const file of [UNIT, 'deploy/runnel.socket', 'deploy/runnel-cuda.conf']) {
    const { stdout } = spawnSync('grep', ['-nE', '^[^#].*#', file], { encoding: 'utf8' });
    assert.is(stdout, '', file);
  }
});

/**
 * The unit's sandbox for the gateway, built without systemd: its system call filter, its address families, no
 * namespaces, and a file system in which only the named folders are writable.
 */
function sandboxed(writable: string, systemCalls: readonly number[]): string[] {
  const script = [
    'mount --bind "$1" "$1"',
    'mount -o remount,bind,ro /',
    'mount -t tmpfs tmpfs /tmp',
    'shift',
    'exec "$@"',
  ].join(' && ');
  return [
    ...['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', script, 'sh', writable],
    ...[UNIT_SANDBOX, systemCalls.join(',')],
  ];
}

function run(launcher: readonly string[], ...command: string[]): { status: number | null; stderr: string } {
  const [file = '', ...args] = [...launcher, ...command];
  return spawnSync(file, args, { encoding: 'utf8' });
}

// Not in /tmp, because the sandbox has another /tmp.
const state = mkdtempSync(join(dirname(UNIT_SANDBOX), 'state-'));
process.on('exit', () => rmSync(state, { recursive: true }));
const launcher = sandboxed(state, allowedSystemCalls(UNIT));
/** Whether the kernel supports what the sandbox is made of. Whether the unit lets a program run is tested below. */
const attempt = run(sandboxed(state, [...Array(MAX_SYSTEM_CALLS).keys()]), 'true');
if (attempt.status !== 0) console.log(`SKIPPED: the unit's sandbox cannot be tried here: ${attempt.stderr}`);
const sandboxTest = attempt.status === 0 ? test : test.skip;

sandboxTest('the tested sandbox denies what the unit denies', () => {
  const denied: [string, string[]][] = [
    ['Operation not permitted', ['unshare', '--user', 'true']],
    ['Operation not permitted', ['mount', '-t', 'tmpfs', 'tmpfs', '/tmp']],
    ['Read-only file system', ['touch', join(process.cwd(), 'a')]],
  ];
  for (const [why, command] of denied) {
    const { status, stderr } = run(launcher, ...command);
    assert.is.not(status, 0, command.join(' '));
    assert.match(stderr, new RegExp(`${why}|permission denied`), command.join(' '));
  }
  assert.is(run(launcher, 'touch', join(state, 'a')).status, 0);
  assert.ok(existsSync(join(state, 'a')));
});

sandboxTest('the gateway and its runner work in the sandbox of the unit', async () => {
  assert.ok(
    unitValues(UNIT, 'Environment').includes('RUNNEL_CACHE=/var/lib/runnel'),
    'models are in the folder that can be written',
  );
  const gateway = await Gateway.startOn(DEFAULT_MODEL, ['--port', '0'], { launcher, env: { HOME: '/' } });
  try {
    await gateway.ready();
    const body = {
      model: 'smollm2',
      messages: [{ role: 'user', content: 'Count to ten.' }],
      temperature: 0,
      max_tokens: 48,
    };
    const ask = async () => {
      const response = await gateway.post('/v1/chat/completions', body);
      assert.is(response.status, 200);
      return ((await response.json()) as { choices: [{ message: { content: string } }] }).choices[0].message
        .content;
    };
    const alone = await ask();
    const interrupted = ask();
    const { runner } = await gateway.healthWhere(
      (health) => health.runner.open_requests === 1,
      'the request to run',
    );
    process.kill(runner.pid ?? 0, 'SIGKILL');
    assert.is(await interrupted, alone, 'a runner can be started again in it');
    assert.is((await gateway.health()).runner.restarts, 1);
  } finally {
    assert.equal(await gateway.stop(), { code: 0, signal: null });
  }
});

test.run();
