import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  passing,
  type RunnerCommand,
  type RunnerProcess,
  readOomKills,
  spawnRunner,
} from '../../../../gateway/runner/process/process.ts';
import { temporaryDirectory } from '../../../fixtures/supervised.ts';
import { PATIENCE_MS, within } from '../../../fixtures/within.ts';

const test = suite('runner process');

const lines: string[] = [];

function run(script: string): RunnerProcess {
  lines.length = 0;
  return spawnRunner({ file: process.execPath, args: ['-e', script] }, (line) => lines.push(line));
}

function exitOf(child: RunnerProcess) {
  return within(PATIENCE_MS, 'the exit', child.exited);
}

async function outputOf(child: RunnerProcess): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of child.stdout) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const noDescriptors =
  'no file descriptors are free for another process; raise the limit of open files (ulimit -n, LimitNOFILE=)';

test('carries bytes both ways and ends with the end of stdin', async () => {
  const child = run('process.stdin.pipe(process.stdout)');
  const output = outputOf(child);
  child.stdin.end('hello');
  assert.equal(await exitOf(child), { code: 0, signal: undefined, spawnError: undefined });
  assert.is(await output, 'hello');
});

test('takes a great deal of output that looks like nothing', async () => {
  const child = run('for (let i = 0; i < 64; i++) process.stdout.write(Buffer.alloc(1 << 20))');
  let numBytes = 0;
  child.stdout.on('data', (chunk: Buffer) => {
    numBytes += chunk.length;
  });
  await exitOf(child);
  await within(PATIENCE_MS, 'the end of the output', child.outputClosed);
  assert.is(numBytes, 64 << 20);
});

test('a runner inherits the descriptors that its command passes, under the numbers that its flags name', async () => {
  const directory = temporaryDirectory();
  const opened = ['first', 'second'].map((text) => openSync(directory.write(text, text), 'r'));
  const script = `
    process.stdout.write(JSON.stringify(process.argv.slice(1).map((each) => /^[0-9]+$/.test(each)
      ? require('node:fs').readFileSync(Number(each), 'utf8') : each)));`;
  const base = { file: process.execPath, args: ['-e', script, '--'] };
  const command = ['one', 'other'].reduce(
    (before, flag, i) => passing(before, flag, opened[i] as number),
    base as RunnerCommand,
  );
  const child = spawnRunner(command, (line) => lines.push(line));
  const output = outputOf(child);
  assert.equal(await exitOf(child), { code: 0, signal: undefined, spawnError: undefined });
  assert.equal(JSON.parse(await output), ['--one', 'first', '--other', 'second']);
  for (const descriptor of opened) closeSync(descriptor);
});

test('says how it died', async () => {
  const exits = run('process.exit(65)');
  exits.stdout.resume();
  assert.equal(await exitOf(exits), { code: 65, signal: undefined, spawnError: undefined });
  const killed = run('setInterval(() => {}, 1000)');
  killed.stdout.resume();
  killed.kill('SIGKILL');
  assert.equal(await exitOf(killed), { code: undefined, signal: 'SIGKILL', spawnError: undefined });
  killed.kill('SIGKILL');
});

test('says why it could not be started', async () => {
  for (const file of ['/no/such/runner', '/etc/passwd']) {
    const child = spawnRunner({ file, args: [] }, () => {});
    child.stdin.on('error', () => {});
    child.stdout.resume();
    assert.is(child.pid, undefined);
    assert.match((await exitOf(child)).spawnError ?? '', new RegExp(`spawn ${file} E`));
  }
});

test('is a start that failed when there is no descriptor left for its pipes; devices, versions, downloads and sd-notify say so too', async () => {
  const script = fileURLToPath(new URL('../../../fixtures/spawn-without-descriptors.ts', import.meta.url));
  const command = { file: process.execPath, args: ['--import', 'tsx', script] };
  const child = spawnRunner(command, (line) => lines.push(line));
  const output = outputOf(child);
  assert.equal(await exitOf(child), { code: 0, signal: undefined, spawnError: undefined }, lines.join('\n'));
  assert.equal(JSON.parse(await output), {
    pid: null,
    spawnError: noDescriptors,
    devices: `${process.execPath} devices gave no report: ${noDescriptors}.`,
    version: `${process.execPath} does not run: ${noDescriptors}`,
    download: `NoDescriptorsError: ${noDescriptors}`,
    warnings: [
      'sd-notify failed (it ended with SIGKILL); it is started again.',
      `sd-notify was not started (${noDescriptors}); it is tried again.`,
    ],
  });
});

test('hands over the lines of stderr and keeps the last', async () => {
  const child = run('console.error("one"); console.error("two\\u0007")');
  child.stdout.resume();
  await exitOf(child);
  await within(PATIENCE_MS, 'the end of the output', child.outputClosed);
  assert.equal(lines, ['one', 'two\\u0007']);
  assert.is(child.stderrTail, 'one\ntwo\\u0007\n');
});

test('shows its environment without secrets', async () => {
  process.env.RUNNEL_API_KEY = 'canary';
  process.env.RUNNEL_TEST_PLAIN = 'plain';
  const script = 'const { RUNNEL_API_KEY, RUNNEL_TEST_PLAIN } = process.env;';
  const child = run(`${script} process.stdout.write(JSON.stringify({ RUNNEL_API_KEY, RUNNEL_TEST_PLAIN }))`);
  assert.is(await outputOf(child), '{"RUNNEL_TEST_PLAIN":"plain"}');
  delete process.env.RUNNEL_API_KEY;
  delete process.env.RUNNEL_TEST_PLAIN;
});

/** The count that is read on a system with these files. */
async function countOf(files: Record<string, string>): Promise<number | undefined> {
  const directory = temporaryDirectory();
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(directory.path(path)), { recursive: true });
    writeFileSync(directory.path(path), content);
  }
  return readOomKills(directory.path(''));
}

test('are read from the control group’s events', async () => {
  const files = {
    'proc/self/cgroup': '0::/system.slice/runnel.service\n',
    'sys/fs/cgroup/system.slice/runnel.service/memory.events': 'low 0\noom 4\noom_kill 3\noom_group_kill 9\n',
  };
  assert.is(await countOf(files), 3);
});

test('are read from the memory controller of the older hierarchy', async () => {
  const files = {
    'proc/self/cgroup': '5:cpu,cpuacct:/a\n4:memory:/b\n0::/\n',
    'sys/fs/cgroup/memory/b/memory.oom_control': 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n',
  };
  assert.is(await countOf(files), 2);
});

test('are unknown where nobody counts', async () => {
  assert.is(await countOf({}), undefined);
  assert.is(await countOf({ 'proc/self/cgroup': '0::/\n' }), undefined);
});

test.run();
