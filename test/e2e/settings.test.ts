import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { runnel } from '../fixtures/ran.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';

const test = gatewaySuite('settings');
const folder = temporaryFolder();
const KEY = 'canary-key-0123456789';

async function start(...args: string[]): Promise<Gateway> {
  const gateway = await Gateway.start(DEFAULT_MODEL, args);
  return gateway.ready();
}

test('with keys every address may be listened on, and only keys let in; no key is in the log', async () => {
  const keys = folder.write('keys', `# one of the team\n${KEY}\n`);
  chmodSync(keys, 0o600);
  const gateway = await start('--host', '0.0.0.0', '--api-keys-file', keys, '--log-level', 'debug');
  const body = { job_id: 'a', prompt: 'Once', max_tokens: 4 };
  assert.is((await gateway.post('/execute', body)).status, 401);
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${KEY}` };
  const response = await fetch(`${gateway.url}/execute`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  });
  assert.is((await readNativeAnswer(response)).last.event, 'end');
  const rebound = execFileSync(
    'curl',
    ['-s', '-o', '/dev/null', '-w', '%{http_code}', '-H', 'Host: evil.example', `${gateway.url}/health`],
    { encoding: 'utf8' },
  );
  assert.is(rebound, '403');
  await gateway.stop();
  assert.not.match(gateway.log, KEY);
});

test('SIGHUP reloads keys; operator routes require an admin key', async () => {
  const keys = folder.write('changing-keys', `${KEY}\n`);
  const admins = folder.write('admin-keys', 'a-key-of-an-operator\n');
  for (const path of [keys, admins]) chmodSync(path, 0o600);
  const gateway = await start('--api-keys-file', keys, '--admin-keys-file', admins);
  const statusWith = async (key: string, path: string): Promise<number> => {
    const response = await fetch(gateway.url + path, { headers: { 'x-api-key': key } });
    await response.text();
    return response.status;
  };
  assert.is(await statusWith(KEY, '/v1/models'), 200);
  assert.is(await statusWith(KEY, '/metrics'), 403);
  assert.is(await statusWith('a-key-of-an-operator', '/metrics'), 200);
  writeFileSync(keys, 'another-key-0123456789\n');
  gateway.process.kill('SIGHUP');
  await until(
    PATIENCE_MS,
    'The new key',
    async () => (await statusWith('another-key-0123456789', '/v1/models')) === 200,
  );
  assert.is(await statusWith(KEY, '/v1/models'), 401);
  writeFileSync(keys, 'short\n');
  gateway.process.kill('SIGHUP');
  await until(PATIENCE_MS, 'A word in the log', () => gateway.log.includes('keys_unusable'));
  assert.is(await statusWith('another-key-0123456789', '/v1/models'), 200);
});

test('the runner is confined, and /health says with what', async () => {
  const statusOf = (pid: number | null): string => readFileSync(`/proc/${pid}/status`, 'utf8');
  const { runner } = await (await start()).health();
  if (runner.sandbox?.includes('(')) {
    console.log(`SKIPPED: this system has no whole sandbox: ${runner.sandbox}`);
  } else {
    assert.is(runner.sandbox, 'landlock+mdwe+seccomp');
    assert.match(statusOf(runner.pid), /^NoNewPrivs:\t1$/m);
    assert.match(statusOf(runner.pid), /^Seccomp:\t2$/m);
  }
  const { runner: open } = await (await start('--sandbox', 'off')).health();
  assert.is(open.sandbox, 'off');
  assert.match(statusOf(open.pid), /^Seccomp:\t0$/m);
});

test('a UNIX socket serves its user, and goes with the gateway', async () => {
  const path = join(folder.path, 'runnel.sock');
  const process = await Gateway.startOn(DEFAULT_MODEL, ['--uds', path]);
  const ask = (what: string) =>
    execFileSync('curl', ['-s', '--unix-socket', path, `http://localhost/${what}`], { encoding: 'utf8' });
  assert.match(ask('health'), /"status":"(starting|healthy)"/);
  await process.stop();
  assert.not(existsSync(path));
});

test('the printed configuration is taken as it is, and prints itself', () => {
  const args = ['serve', '--model', 'm', '--port', '9000', '--cors-origins', 'https://chat.example'];
  const first = runnel(...args, '--print-config');
  assert.is(first.status, 0, first.stderr);
  assert.is((JSON.parse(first.stdout) as { port: number }).port, 9000);
  const file = folder.write('runnel.json', first.stdout);
  assert.is(runnel('serve', '--config', file, '--print-config').stdout, first.stdout);
});

test('an invalid command line exits with status 64 and one sentence', () => {
  const open = folder.write('open-keys', `${KEY}\n`);
  chmodSync(open, 0o644);
  const model = ['--model', DEFAULT_MODEL];
  const cases: [string[], RegExp][] = [
    [['serve', ...model, '--host', '0.0.0.0'], /--host must be a loopback address, got "0\.0\.0\.0"/],
    [['serve', ...model, '--api-keys-file', open], /chmod 600/],
    [['serve', ...model, '--config', folder.write('typo.json', '{"prot":1}')], /"prot"/],
    [['serve', '--port', '1'], /--model is missing/],
  ];
  for (const [args, message] of cases) {
    const { status, stdout, stderr } = runnel(...args);
    assert.is(status, 64, stderr);
    assert.is(stdout, '');
    assert.match(stderr, message);
    assert.match(stderr, /^runnel: [^\n]+\n$/);
    assert.not.match(stderr, KEY);
  }
  assert.is(runnel('serve', ...model, '--api-keys-file', '/nowhere/keys').status, 66);
});

test.run();
