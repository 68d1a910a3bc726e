import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ps } from '../../../../gateway/cli/servers/ps.ts';
import { stop } from '../../../../gateway/cli/servers/stop.ts';
import { writeRunFile } from '../../../../gateway/system/run-files.ts';
import { Gateway } from '../../../fixtures/gateway.ts';
import { runCommand as run } from '../../../fixtures/run-command.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';

const test = suite('servers');

test.before.each(() => {
  process.env.XDG_RUNTIME_DIR = temporaryFolder().path;
});
test.after(() => {
  delete process.env.XDG_RUNTIME_DIR;
});

let gateway: Gateway | undefined;
test.after.each(() => {
  gateway?.process.kill('SIGKILL');
  gateway = undefined;
});

test('ps lists a real server, stop ends it, and then it is in no list', async () => {
  const absent = `${temporaryFolder().path}/absent.gguf`;
  // Without a model the gateway still serves HTTP.
  gateway = await Gateway.start(absent, ['--runner', '/bin/false']);
  const pid = gateway.process.pid ?? 0;
  const { url } = gateway;
  const listed = JSON.parse((await run(ps.run, '--json')).stdout);
  assert.is(listed.length, 1);
  const { state, ...facts } = listed[0];
  assert.match(state, /^(starting|recovering|failed)$/);
  assert.equal(facts, { pid, url, model: null, open_requests: 0, parked_jobs: 0, memory_bytes: 0 });
  assert.match((await run(ps.run)).stdout, new RegExp(`PID .*\\n${pid} +${url} `));
  assert.equal(await run(stop.run, '--url', url), {
    exitCode: 0,
    stdout: `${pid} at ${url} has ended.\n`,
    stderr: '',
  });
  assert.equal(await gateway.ended(), { code: 0, signal: null });
  assert.is((await run(ps.run, '--json')).stdout, '[]\n');
});

test('stop refuses targets that match no server or several', async () => {
  const cases: [number, string[], RegExp][] = [
    [69, [], /No server of this user runs/],
    [69, ['--pid', String(process.ppid)], new RegExp(`No server of this user is process ${process.ppid}`)],
    [69, ['--url', 'http://127.0.0.1:1'], /No server of this user is http/],
    [64, ['--url', 'a', '--pid', '1'], /not both/],
    [64, ['--timeout-sec', 'x'], /--timeout-sec must be a whole number/],
    [64, ['stray'], /./],
  ];
  for (const [expected, args, message] of cases) {
    const { exitCode, stderr } = await run(stop.run, ...args);
    assert.is(exitCode, expected, stderr);
    assert.match(stderr, message);
  }
});

test('a server that does not answer is listed as silent', async () => {
  const folder = `${process.env.XDG_RUNTIME_DIR}/runnel`;
  // Registers this process as a server with a socket on which nobody listens.
  writeRunFile(folder, 'unix:/nonexistent/socket');
  const { stdout } = await run(ps.run);
  assert.match(stdout, new RegExp(`${process.pid} +unix:/nonexistent/socket +silent +- +- +-`));
});

test.run();
