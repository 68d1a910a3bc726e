import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { freePort } from '../fixtures/free-port.ts';
import { type Health, isAlive } from '../fixtures/gateway.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until, within } from '../fixtures/within.ts';

const test = suite<{ activator: Activator | undefined }>('socket activation');

const folder = temporaryFolder();
const GATEWAY = [process.execPath, 'gateway/runnel.js', 'serve', '--model', DEFAULT_MODEL];
/** A minimal service manager: it holds the socket, and starts the gateway again whenever it has ended. */
const RESTARTS = ['sh', '-c', `while sh -c 'LISTEN_PID=$$ exec "$@"' sh "$@"; do :; done`, 'sh'];

interface Answer {
  readonly status: number | undefined;
  readonly body: string;
}

/** A systemd socket that starts a gateway at the first connection. */
class Activator {
  readonly #where: { readonly port: number } | { readonly socketPath: string };
  readonly #process: ChildProcess;
  /** stdout and stderr of the activator and the gateway. */
  output = '';

  constructor(listen: string, command: readonly string[]) {
    this.#where = listen.startsWith('/')
      ? { socketPath: listen }
      : { port: Number(listen.split(':').at(-1)) };
    const args = ['--listen', listen, '-E', 'PATH', '-E', 'HOME', ...command];
    // A process group of its own, so that all of it can be ended.
    this.#process = spawn('systemd-socket-activate', args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    for (const stream of [this.#process.stdout, this.#process.stderr])
      stream?.on('data', (chunk: Buffer) => {
        this.output += chunk.toString();
      });
  }

  listening(): Promise<void> {
    return until(PATIENCE_MS, 'The socket to listen', () => this.output.includes('Listening on'));
  }

  get(path: string): Promise<Answer> {
    return this.#ask(path);
  }

  execute(jobId: string, maxTokens: number): Promise<Answer> {
    const body = { job_id: jobId, prompt: 'Once', max_tokens: maxTokens, temperature: 0 };
    return this.#ask('/execute', JSON.stringify(body));
  }

  /** Makes a request on a connection of its own. */
  async #ask(path: string, body?: string): Promise<Answer> {
    const how = body === undefined ? {} : { method: 'POST', headers: { 'content-type': 'application/json' } };
    const asked = request({ host: '127.0.0.1', path, agent: false, ...how, ...this.#where }).end(body);
    const [response] = (await within(PATIENCE_MS, `An answer to ${path}`, once(asked, 'response'))) as [
      IncomingMessage,
    ];
    let text = '';
    for await (const chunk of response) text += String(chunk);
    return { status: response.statusCode, body: text };
  }

  async health(): Promise<Health> {
    return JSON.parse((await this.get('/health')).body) as Health;
  }

  ready(): Promise<void> {
    return until(
      PATIENCE_MS,
      'The gateway to be ready',
      async () => (await this.get('/ready')).status === 200,
    );
  }

  end(): void {
    const { pid, exitCode, signalCode } = this.#process;
    if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, 'SIGKILL');
  }

  get exited(): Promise<unknown[]> {
    return once(this.#process, 'exit');
  }
}

function parentOf(pid: number): number {
  return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

test.after.each((context) => {
  context.activator?.end();
  context.activator = undefined;
});

test('the connection that starts the gateway is answered, over TCP and over a UNIX socket', async (context) => {
  for (const listen of [`127.0.0.1:${await freePort()}`, join(folder.path, 'runnel.sock')]) {
    const activator = new Activator(listen, GATEWAY);
    context.activator = activator;
    await activator.listening();
    assert.is((await activator.get('/health')).status, 200);
    assert.match(activator.output, listen.startsWith('/') ? `unix:${listen}` : `http://${listen}`);
    await activator.ready();
    const { pid } = (await activator.health()).runner;
    const sockets = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
    assert.ok(sockets.length > 2);
    assert.not(sockets.includes(readlinkSync(`/proc/${parentOf(pid ?? 0)}/fd/3`)), 'the runner has it not');
    activator.end();
  }
});

test('a restart of the gateway refuses no connection', async (context) => {
  const activator = new Activator(`127.0.0.1:${await freePort()}`, [...RESTARTS, ...GATEWAY]);
  context.activator = activator;
  await activator.listening();
  await activator.ready();
  const first = (await activator.health()).runner.pid ?? 0;
  const gateway = parentOf(first);
  const stream = activator.execute('of the first', 200);
  await until(PATIENCE_MS, 'The stream', async () => (await activator.health()).runner.open_requests === 1);
  process.kill(gateway, 'SIGTERM');
  await until(PATIENCE_MS, 'The end to begin', () => activator.output.includes('"event":"shutdown"'));

  const whileDraining = activator.get('/health');
  const answers = [activator.get('/health')];
  await until(PATIENCE_MS, 'The end of the first gateway', () => {
    // While nobody accepts connections, the test must not wait for answers.
    if (answers.length < 100) answers.push(activator.get('/health'));
    return !isAlive(gateway);
  });
  answers.push(activator.get('/health'));
  for (const { status, body } of await Promise.all([whileDraining, ...answers])) {
    assert.is(status, 200);
    assert.is.not(
      (JSON.parse(body) as Health).runner.pid,
      first,
      'the first one is stopping, and takes no more',
    );
  }
  assert.match((await stream).body, /event: end\n.*"tokens_out":200/s, 'what it had, it finished');
  await activator.ready();
  assert.match((await activator.execute('of the second', 5)).body, /event: end\n/);
});

test('an address beyond loopback needs keys, wherever it comes from', async (context) => {
  const activator = new Activator(`0.0.0.0:${await freePort()}`, GATEWAY);
  context.activator = activator;
  await activator.listening();
  const exited = activator.exited;
  await activator.get('/health').then(
    () => assert.unreachable('it was answered'),
    () => {},
  );
  assert.is((await within(PATIENCE_MS, 'The refusal', exited))[0], 64);
  // A line of the log, in which quotes are escaped by backslashes.
  assert.match(activator.output, /"event":"error".*must have a loopback address, got \\"0\.0\.0\.0\\"/);
});

test('a port beside it is refused by name', async (context) => {
  const activator = new Activator(`127.0.0.1:${await freePort()}`, [...GATEWAY, '--port', '8080']);
  context.activator = activator;
  await activator.listening();
  const exited = activator.exited;
  await activator.get('/health').catch(() => {});
  assert.is((await within(PATIENCE_MS, 'The refusal', exited))[0], 64);
  assert.match(activator.output, '--port cannot be used, since systemd passes the socket');
});

test.run();
