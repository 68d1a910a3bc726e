import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { GUIDES, shellBlocksOf } from '../fixtures/guides.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { until, within } from '../fixtures/within.ts';

/** Runs the commands of the README and of the guides as they are written, except for the port of the server. */

const test = suite('commands of documents');

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PATIENCE_MS = 120_000;
/** Commands of make are not run: make starts the tests themselves. */
const BY_MAKE = ['make run\n', 'make test\n'];
const SERVE = 'npx runnel serve --model smollm2 --playground dev\n';
const isCurl = (block: string) => block.startsWith('curl -N ');
const isKill = (block: string) => block.startsWith('kill -9 ');

let gateway: Gateway;
const env = { ...process.env, XDG_RUNTIME_DIR: temporaryFolder().path };

test.before(async () => {
  const [, ...words] = SERVE.trim().split(' ');
  assert.is(words[0], 'runnel');
  gateway = await Gateway.startOn(undefined, [...words.slice(2), '--port', '0'], { env });
  await gateway.ready();
});
test.after(async () => {
  assert.equal(await gateway?.stop(), { code: 0, signal: null });
});

interface Running {
  readonly stdout: string;
  /** Resolves with the output. Rejects if a command has failed. */
  readonly ended: Promise<string>;
  stop(): void;
}

/** Runs commands of a document with bash, which stops at the first one that fails. */
function start(commands: string): Running {
  const script = commands.replaceAll('http://127.0.0.1:8080', gateway.url);
  const options = { cwd: ROOT, env, detached: true };
  const child = spawn('bash', ['-euo', 'pipefail', '-c', script], options);
  const written = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      written[name] += text;
    });
  const ended = once(child, 'close').then(([status, signal]) => {
    assert.ok(status === 0 || signal === 'SIGTERM', `${commands}: ${written.stderr}`);
    return written.stdout;
  });
  return {
    get stdout() {
      return written.stdout;
    },
    ended: within(PATIENCE_MS, commands, ended),
    // Signals the group: bash and what it has started.
    stop: () => process.kill(-(child.pid ?? 0), 'SIGTERM'),
  };
}

test('the README’s commands are those that are tried here, and its targets of make are there', () => {
  assert.equal(
    shellBlocksOf('README.md').filter((block) => !isCurl(block) && !isKill(block)),
    [...BY_MAKE.slice(0, 1), SERVE, ...BY_MAKE.slice(1)],
  );
  assert.ok(existsSync(DEFAULT_MODEL));
});

test('the README’s line to try streams, its kill is of the runner, and the sentence goes on', async () => {
  const blocks = shellBlocksOf('README.md');
  const curl = blocks.find(isCurl) as string;
  const kill = blocks.find(isKill) as string;
  const streamed = start(curl);
  const comes = (numCharacters: number) =>
    until(PATIENCE_MS, 'Text', () => streamed.stdout.length > numCharacters);
  await comes(2000);
  const before = (await gateway.health()).runner;
  await start(kill).ended;
  const after = await gateway.healthWhere(
    ({ runner }) => runner.state === 'ready' && runner.restarts === before.restarts + 1,
    'another runner',
  );
  assert.is.not(after.runner.pid, before.pid);
  const text = streamed.stdout;
  assert.not.match(text, '[DONE]', 'the kill is in the middle of it');
  await comes(text.length + 1000);
  // The model may write a long answer.
  streamed.stop();
  assert.not.match(await streamed.ended, '"error"');
});

for (const guide of GUIDES)
  test(`the commands of ${guide} do what they say`, async () => {
    const blocks = shellBlocksOf(guide);
    assert.ok(blocks.length >= 2);
    for (const block of blocks) {
      const said = await start(block).ended;
      assert.ok(said.trim() !== '', block);
      assert.not.match(said, /"error"/, block);
    }
  });

test.run();
