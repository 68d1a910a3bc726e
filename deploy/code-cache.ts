import { spawnSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Script } from 'node:vm';
import { BUNDLE } from '../gateway/bundle.js';
import { readerLimits } from '../gateway/models/reader/messages.ts';
import { ROOT } from './source-urls.ts';

/**
 * Writes V8's caches of the bundled programs. A cache has the functions that have run, so each program does here what it does at
 * a start, in a process of its own with the flags that it is started with.
 */

/** What cached-code.cjs exports. */
interface Loader {
  cacheName(name: string): string;
  compile(name: string): Script;
  run(script: Script, name: string): { main(args: readonly string[]): Promise<number> };
}

export const { cacheName } = createRequire(import.meta.url)('./cached-code.cjs') as Loader;

const MODEL = join(ROOT, 'test/golden/tiny-llama-q8_0.gguf');
const MAX_WAIT_MS = 60_000;
const POLL_MS = 20;

const programs = {
  main: { flags: [], rehearse: rehearseServer },
  'reader-program': { flags: [`--max-old-space-size=${readerLimits.heapMb}`], rehearse: rehearseReader },
  // It has nothing to do before it is told where its file is.
  'keeper-program': { flags: [], rehearse: async () => {} },
};
export type Program = keyof typeof programs;

/** name: the file with the program's code. Throws with what the process said if it fails. */
export function writeCodeCache(program: Program, name: string): void {
  const script = fileURLToPath(import.meta.url);
  const args = [...programs[program].flags, '--import', 'tsx', script, program, name];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' });
  if (status !== 0) throw new Error(`No code cache of ${name} could be made: ${stdout}${stderr}`);
}

async function write(program: Program, name: string): Promise<void> {
  const folder = fileURLToPath(BUNDLE);
  const { compile, run } = createRequire(folder)('./cached-code.cjs') as Loader;
  const script = compile(name);
  await programs[program].rehearse(run(script, name));
  const cache = join(folder, cacheName(name));
  writeFileSync(`${cache}.${process.pid}`, script.createCachedData());
  renameSync(`${cache}.${process.pid}`, cache);
}

/** A start of the server, with a runner that ends at once, and requests that are refused therefore. */
async function rehearseServer({ main }: ReturnType<Loader['run']>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'runnel-'));
  try {
    process.env.XDG_RUNTIME_DIR = folder;
    const socketPath = join(folder, 'socket');
    const serve = [
      'serve',
      '--model',
      MODEL,
      '--backend',
      'cpu',
      '--runner',
      '/bin/false',
      '--uds',
      socketPath,
    ];
    const ended = main([...serve, '--journal-dir', 'off', '--log-level', 'error']);
    const endMs = performance.now() + MAX_WAIT_MS;
    while (!(await runnerHasEnded(socketPath))) {
      if (performance.now() > endMs) throw new Error(`The runner has not ended within ${MAX_WAIT_MS} ms.`);
      await delay(POLL_MS);
    }
    const messages = [{ role: 'user', content: 'Hello' }];
    await ask(socketPath, '/v1/completions', { prompt: 'Hello', stream: true });
    await ask(socketPath, '/v1/chat/completions', { messages, stream: true });
    process.kill(process.pid, 'SIGTERM');
    await ended;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function runnerHasEnded(socketPath: string): Promise<boolean> {
  const answer = await ask(socketPath, '/health').catch(() => undefined);
  return answer !== undefined && JSON.parse(answer).runner.restarts > 0;
}

/** A GET, or a POST with a body. Resolves with the answer's body. */
function ask(socketPath: string, path: string, body?: object): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' };
    const options = { socketPath, path, headers, method: body === undefined ? 'GET' : 'POST' };
    const sent = request(options, async (answer) => {
      let text = '';
      for await (const chunk of answer) text += chunk;
      resolve(text);
    });
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** The reader reads a model, as the gateway's first message asks it to. */
async function rehearseReader(): Promise<void> {
  const read = new Promise<void>((resolve) => {
    process.send = (part: object) => {
      if ('bytes' in part) resolve();
      return true;
    };
  });
  const job = { kind: 'read', path: MODEL };
  process.emit('message', { message: { number: 1, job }, numBytes: undefined }, undefined);
  await read;
}

const [, file, program, name] = process.argv;
if (file === fileURLToPath(import.meta.url)) {
  await write(program as Program, name as string);
  process.exit();
}
