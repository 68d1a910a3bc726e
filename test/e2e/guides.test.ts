import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { codeBlocksOf } from '../fixtures/guides.ts';
import { hasPythonClients, pythonEnv } from '../fixtures/python-clients.ts';
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
const isKill = (block: string) => block.includes('\nkill -9 ');
const [README_JS = '', ...moreJs] = codeBlocksOf('README.md', 'js');
const [README_PYTHON = '', ...morePython] = codeBlocksOf('README.md', 'python');

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
  /** Resolves with the output. Rejects if the program fails. */
  readonly ended: Promise<string>;
}

/** Runs a program in the source folder, with the port of the test's server in its arguments. */
function start(program: string, args: readonly string[], programEnv: NodeJS.ProcessEnv = env): Running {
  const written = { stdout: '', stderr: '' };
  const ofServer = args.map((arg) => arg.replaceAll('http://127.0.0.1:8080', gateway.url));
  const child = spawn(program, ofServer, { cwd: ROOT, env: programEnv });
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      written[name] += text;
    });
  const ended = once(child, 'close').then(([status]) => {
    assert.is(status, 0, `${args.join(' ')}: ${written.stderr}`);
    return written.stdout;
  });
  return {
    get stdout() {
      return written.stdout;
    },
    ended: within(PATIENCE_MS, args.join(' '), ended),
  };
}

/** Runs commands with bash, which stops at the first one that fails. */
const startCommands = (commands: string): Running => start('bash', ['-euo', 'pipefail', '-c', commands]);

/** The text of a streamed chat completion, as curl prints its events. */
function textOfEvents(events: string): string {
  const chunks = [...events.matchAll(/^data: (\{.*\})$/gm)].map(([, data = '']) => JSON.parse(data));
  return chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('');
}

/** The text that each of the README's snippets gets. It is computed once. */
let storyRead: Promise<string> | undefined;
const story = (): Promise<string> => {
  storyRead ??= start('node', ['--input-type=module', '--eval', README_JS]).ended;
  return storyRead;
};

test('the README’s commands are those that run here, and its targets of make exist', () => {
  assert.equal(
    codeBlocksOf('README.md', 'sh').filter((block) => !isCurl(block) && !isKill(block)),
    [...BY_MAKE.slice(0, 1), SERVE, ...BY_MAKE.slice(1)],
  );
  assert.equal([...moreJs, ...morePython], []);
  assert.ok(existsSync(DEFAULT_MODEL));
});

test('the README’s snippets for curl and JavaScript get the same text', async () => {
  const curl = codeBlocksOf('README.md', 'sh').find(isCurl) as string;
  const text = await story();
  assert.match(text, /lighthouse/);
  assert.is(textOfEvents(await startCommands(curl).ended), text);
});

const pythonTest = hasPythonClients ? test : test.skip;
pythonTest('the README’s snippet for Python gets the same text', async () => {
  assert.is(await start('python3', ['-c', README_PYTHON], pythonEnv).ended, await story());
});

test('the README’s kill hits the runner within the answer, whose text is the same', async () => {
  const commands = codeBlocksOf('README.md', 'sh').find(isKill) as string;
  const mark = join(temporaryFolder().path, 'text-has-come');
  // Instead of a second, the kill waits until text has come.
  const waiting = `while [ ! -e ${mark} ]; do sleep 0.02; done\n`;
  const adapted = commands
    .replace('runnel chat ', 'runnel chat --url http://127.0.0.1:8080 ')
    .replace('sleep 1\n', waiting);
  assert.ok(adapted.includes(waiting));
  const { restarts } = (await gateway.health()).runner;
  const killed = startCommands(adapted);
  await until(PATIENCE_MS, 'text', () => killed.stdout.length > 100);
  writeFileSync(mark, '');
  await gateway.healthWhere(({ runner }) => runner.restarts === restarts + 1, 'the kill');
  const before = killed.stdout.length;
  const text = await killed.ended;
  assert.ok(before < text.length, 'text comes after the kill');
  assert.is(text, `${await story()}\n`);
});

const CLIENTS = 'docs/clients.md';

/** What curl gets by the first command of clients.md. */
async function capital(): Promise<string> {
  const [curl = ''] = codeBlocksOf(CLIENTS, 'sh');
  const text = JSON.parse(await startCommands(curl).ended).choices[0].message.content;
  assert.match(text, 'Paris');
  return text.trim();
}

test('each command and each snippet in JavaScript of clients.md prints the same text', async () => {
  const text = await capital();
  const [, ...commands] = codeBlocksOf(CLIENTS, 'sh');
  for (const command of commands) assert.is((await startCommands(command).ended).trim(), text, command);
  const snippets = codeBlocksOf(CLIENTS, 'js');
  assert.ok(commands.length > 0 && snippets.length > 4);
  for (const snippet of snippets)
    assert.is((await start('node', ['--input-type=module', '--eval', snippet]).ended).trim(), text, snippet);
});

pythonTest('each snippet in Python of clients.md prints the same text', async () => {
  const text = await capital();
  const snippets = codeBlocksOf(CLIENTS, 'python').filter((snippet) => !embeds(snippet));
  assert.ok(snippets.length > 4);
  for (const snippet of snippets)
    assert.is((await start('python3', ['-c', snippet], pythonEnv).ended).trim(), text, snippet);
});

const embeds = (snippet: string): boolean => snippet.includes('OpenAIEmbeddings');

pythonTest(
  'the snippet in Python of clients.md that embeds a text prints the vector of that text',
  async () => {
    const response = await gateway.post('/v1/embeddings', {
      model: 'smollm2',
      input: 'What is the capital of France?',
    });
    const { data } = (await response.json()) as { data: [{ embedding: number[] }] };
    const [snippet = '', ...others] = codeBlocksOf(CLIENTS, 'python').filter(embeds);
    assert.equal(others, []);
    const printed = JSON.parse(await start('python3', ['-c', snippet], pythonEnv).ended) as number[];
    const nearest = (values: readonly number[]): string[] => values.map((value) => value.toFixed(6));
    assert.is(printed.length, 3);
    assert.equal(nearest(printed), nearest(data[0].embedding.slice(0, 3)));
  },
);

/** clients.md has tests of its own. */
const PAGES = readdirSync(`${ROOT}docs`)
  .map((name) => `docs/${name}`)
  .filter((page) => page.endsWith('.md') && page !== CLIENTS && codeBlocksOf(page, 'sh').length > 0);

for (const guide of PAGES)
  test(`the commands of ${guide} do what they say`, async () => {
    // test/e2e/haproxy-routing.test.ts runs those for HAProxy, which is not everywhere.
    const blocks = codeBlocksOf(guide, 'sh').filter((block) => !block.includes('haproxy'));
    assert.ok(blocks.length > 0);
    for (const block of blocks) {
      const said = await startCommands(block).ended;
      assert.ok(said.trim() !== '', block);
      // The lines of a batch say that there was none.
      assert.not.match(said.replaceAll('"error":null', ''), /"error"/, block);
    }
  });

test.run();
