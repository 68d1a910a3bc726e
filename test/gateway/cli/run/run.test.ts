import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { runningServers } from '../../../../gateway/system/run-files.ts';
import { TINY_MODEL } from '../../../fixtures/default-model.ts';
import { Gateway, isAlive } from '../../../fixtures/gateway.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until, within } from '../../../fixtures/within.ts';

const test = suite('run');

const folder = temporaryFolder();
/** A cache in which smollm2 is the tiny model, and a runtime folder in which servers register. */
const env = { RUNNEL_CACHE: folder.path, XDG_RUNTIME_DIR: folder.path };
const cached = join(folder.path, 'models/smollm2.gguf');

test.before(() => {
  mkdirSync(dirname(cached), { recursive: true });
  copyFileSync(TINY_MODEL, cached);
});

const children: ChildProcess[] = [];
test.after(() => {
  for (const child of children) child.kill('SIGKILL');
});

function begin(...args: string[]) {
  const child = spawn('node', ['gateway/runnel.js', 'run', ...args], { env: { ...process.env, ...env } });
  children.push(child);
  const written = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      written[name] += text;
    });
  // A command that has ended does not read its stdin.
  child.stdin.on('error', () => {});
  const closed = once(child, 'close');
  return {
    child,
    written,
    ended: async () => {
      const [exitCode] = await within(PATIENCE_MS, 'The end of run', closed);
      return { exitCode, ...written };
    },
  };
}

function run(args: readonly string[], input: string) {
  const { child, ended } = begin(...args);
  child.stdin.end(input);
  return ended();
}

const servers = () => runningServers(join(folder.path, 'runnel'));

/** The processes of the only server, once its runner has a model. */
async function serverPids(): Promise<readonly number[]> {
  await until(PATIENCE_MS, 'A server', () => servers().length === 1);
  const [{ pid, url } = { pid: 0, url: '' }] = servers();
  let runner = 0;
  await until(PATIENCE_MS, 'Its runner', async () => {
    const { runner: status } = (await (await fetch(`${url}/health`)).json()) as {
      runner: { state: string; pid: number };
    };
    runner = status.pid;
    return status.state === 'ready';
  });
  return [pid, runner];
}

test('serves a model on a free port, chats with it, and stops it', async () => {
  const { child, ended } = begin(TINY_MODEL, '--json', '--temperature', '0', '--max-tokens', '4');
  const pids = await serverPids();
  assert.match(servers()[0]?.url ?? '', /^http:\/\/127\.0\.0\.1:\d+$/);
  child.stdin.end('hello\n');
  const { exitCode, stdout, stderr } = await ended();
  assert.is(exitCode, 0, stderr);
  assert.is(stderr, '');
  const { finish, usage } = JSON.parse(stdout);
  assert.equal([finish, usage.completion_tokens], ['length', 4]);
  assert.equal(pids.filter(isAlive), []);
  assert.equal(servers(), []);
});

test('the server that it has started ends also when it is killed', async () => {
  const { child, ended } = begin(TINY_MODEL);
  const pids = await serverPids();
  child.kill('SIGKILL');
  await ended();
  await until(PATIENCE_MS, 'The end of gateway and runner', () => !pids.some(isAlive));
});

test('chats with a running server of the model; server flags start another', async () => {
  const gateway = await Gateway.startOn(cached, ['--port', '0'], { env });
  await gateway.ready();
  try {
    const args = ['smollm2', '--temperature', '0', '--max-tokens', '4'];
    const shared = await run(args, 'hello\n');
    assert.equal(
      [shared.exitCode, shared.stderr],
      [0, `runnel: smollm2 is served at ${gateway.url}: the chat is with that server.\n`],
    );
    assert.is(gateway.log.match(/"route":"\/v1\/chat\/completions"/g)?.length, 1);
    const own = await run([...args, '--', '--threads', '1'], 'hello\n');
    assert.equal(own, { ...shared, stderr: '' });
    // A path may be another file, so the running server is not used for it.
    assert.equal(await run([cached, ...args.slice(1)], 'hello\n'), { ...shared, stderr: '' });
    assert.is(gateway.log.match(/"route":"\/v1\/chat\/completions"/g)?.length, 1);
  } finally {
    assert.equal(await gateway.stop(), { code: 0, signal: null });
  }
});

test('each failure is one sentence on stderr and its exit code', async () => {
  const bad = folder.write('bad.gguf', 'bad');
  const cases: [number, RegExp, string[]][] = [
    [64, /run takes one MODEL/, []],
    [64, /run takes one MODEL.*"a b"/, ['a', 'b']],
    [64, /This command has no flag --url/, [TINY_MODEL, '--url', 'http://127.0.0.1:1']],
    [64, /run sets --port of its server by itself/, [TINY_MODEL, '--', '--port=3']],
    [64, /This command has no flag --no-such-flag/, [TINY_MODEL, '--', '--no-such-flag']],
    [64, /names no model of a hub/, ['hf:owner']],
    [65, /bad\.gguf/, [bad]],
    [66, /There is no model "absent"/, ['absent']],
    [69, /--kv-cache-bytes is 1; one block/, [TINY_MODEL, '--', '--kv-cache-bytes', '1']],
  ];
  const results = await Promise.all(cases.map(([, , args]) => run(args, 'hello\n')));
  for (const [index, [expected, message, args]] of cases.entries()) {
    const { exitCode, stdout, stderr } = results[index] as (typeof results)[0];
    assert.is(exitCode, expected, `${args.join(' ')}: ${stderr}`);
    assert.is(stdout, '');
    assert.match(stderr, /^runnel: [^\n]+\n$/, args.join(' '));
    assert.match(stderr, message);
  }
  assert.equal(servers(), []);
});

test.run();
