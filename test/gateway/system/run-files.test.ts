import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { identityOf, isRunning } from '../../../gateway/system/kernel.ts';
import { runningServers, writeRunFile } from '../../../gateway/system/run-files.ts';
import { stateOf } from '../../fixtures/gateway.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

const test = suite('run files');

test('a server is found while its process runs, by a file for its user alone', () => {
  const folder = join(temporaryFolder().path, 'new', 'run');
  assert.equal(runningServers(folder), []);
  writeRunFile(folder, 'http://127.0.0.1:1');
  assert.equal(runningServers(folder), [{ pid: process.pid, url: 'http://127.0.0.1:1' }]);
  assert.is(statSync(join(folder, `${process.pid}.json`)).mode & 0o777, 0o600);
  assert.is(statSync(folder).mode & 0o777, 0o700);
});

test('files of dead processes, of others with their id, and what is none are left out, then removed', async () => {
  const folder = temporaryFolder();
  const child = spawn('true');
  const pid = child.pid ?? 0;
  await once(child, 'exit');
  const url = 'http://127.0.0.1:1';
  folder.write(`${pid}.json`, JSON.stringify({ identity: `${pid} 1`, url }));
  // A process with this id exists, but it is another one.
  folder.write(`${process.ppid}.json`, JSON.stringify({ identity: `${process.ppid} 1`, url }));
  // The file is named after one process and describes another.
  folder.write('1.json', JSON.stringify({ identity: identityOf(process.pid), url }));
  folder.write('2.json', 'hello');
  folder.write('notes.txt', 'stays');
  assert.equal(runningServers(folder.path), []);
  writeRunFile(folder.path, url);
  assert.equal(readdirSync(folder.path).sort(), [`${process.pid}.json`, 'notes.txt'].sort());
});

test('a process that is dead and was not asked for is not running', async () => {
  // The shell becomes `sleep`, which asks for no child. Only then does the child end: a shell might ask for it.
  const lines = 'exec 3<&0; cat <&3 & echo $!; exec sleep 60';
  const parent = spawn('sh', ['-c', lines], { stdio: ['pipe', 'pipe', 'ignore'] });
  const [line] = (await once(parent.stdout, 'data')) as [Buffer];
  const pid = Number(String(line));
  const parentPid = parent.pid ?? 0;
  try {
    const program = () => readFileSync(`/proc/${parentPid}/comm`, 'utf8');
    await until(PATIENCE_MS, 'The shell to become another program', () => program() === 'sleep\n');
    assert.is(isRunning(identityOf(pid) ?? ''), true, 'the child waits for its input');
    parent.stdin.end();
    await until(PATIENCE_MS, 'The death of the child', () => stateOf(pid) === 'Z');
    assert.is(identityOf(pid), undefined);
    assert.is(isRunning(identityOf(parentPid) ?? ''), true);
  } finally {
    parent.kill('SIGKILL');
  }
  await once(parent, 'exit');
});

test.run();
