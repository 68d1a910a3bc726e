/** The table "One chat request, file by file" of docs/architecture.md, compared with a request that is traced. */
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';

const test = suite('walk');

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PROGRAM = ['node', 'test/fixtures/traced-gateway.mjs'];
/** What happens beside requests, by timers, is taken out: it does not happen in each of these. */
const NUM_REQUESTS = 4;
const IDLE_MS = 1500;
/** A runner's counts come with a heartbeat, which a slow request may contain and a fast one does not. */
const AT_ANY_TIME: readonly string[] = ['gateway/runner/protocol/scheduler-stats.ts'];
const HEADING = 'One chat request, file by file';

const traces = temporaryFolder();
const BODY = {
  model: 'tiny-llama-q8_0',
  messages: [{ role: 'user', content: 'Say hello to the world.' }],
  ...{ stream: true, max_tokens: 8, temperature: 0, stop: ['never'] },
};

/** The functions that have run since the last call, in the gateway and its reader, each as [file, function]. */
async function called(): Promise<readonly (readonly [string, string])[]> {
  const names = readdirSync(traces.path).filter((name) => name.endsWith('.pid'));
  const pids = names.map((name) => name.slice(0, -'.pid'.length));
  assert.is(pids.length, 2, 'a gateway and a reader');
  return (
    await Promise.all(
      pids.map(async (pid) => {
        const path = join(traces.path, `${pid}.json`);
        process.kill(Number(pid), 'SIGUSR2');
        await until(PATIENCE_MS, 'a trace', () => existsSync(path));
        const functions = JSON.parse(readFileSync(path, 'utf8')) as [string, string][];
        rmSync(path);
        return functions;
      }),
    )
  ).flat();
}

/** The files of the table: the first cell of a row is a folder, the last one has the names of files in it. */
function documented(): readonly string[] {
  const page = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
  const section = page.split(`\n## ${HEADING}\n`)[1]?.split('\n## ')[0] ?? '';
  return section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .flatMap((row) => {
      const cells = row
        .split('|')
        .map((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name));
      return (cells.at(-2) ?? []).map((name) => `${cells[1]?.[0]}/${name}`);
    });
}

test('docs/architecture.md names each file of the gateway that a streamed chat runs, and no other', async () => {
  const gateway = await Gateway.startOn(TINY_MODEL, ['--port', '0'], {
    program: PROGRAM,
    env: { RUNNEL_TEST_TRACE: traces.path },
  });
  try {
    await gateway.ready();
    const ask = async () => {
      const response = await gateway.post('/v1/chat/completions', BODY);
      const text = await response.text();
      assert.ok(text.endsWith('data: [DONE]\n\n'), text);
    };
    // What the first request loads or opens once is not the way of each.
    await ask();
    await called();
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
    const beside = new Set((await called()).map((each) => each.join()));
    const requests: Set<string>[] = [];
    while (requests.length < NUM_REQUESTS) {
      await ask();
      const ran = (await called()).filter((each) => !beside.has(each.join()));
      requests.push(new Set(ran.map(([file]) => relative(ROOT, file))));
    }
    const files = [...(requests[0] ?? [])].filter((file) => requests.every((ran) => ran.has(file)));
    const named = [...documented(), ...AT_ANY_TIME];
    assert.is(new Set(named).size, named.length, 'each file is named once');
    const unnamed = files.filter((file) => !named.includes(file)).sort();
    const uncalled = documented().filter((file) => !files.includes(file));
    assert.equal({ unnamed, uncalled }, { unnamed: [], uncalled: [] });
  } finally {
    await gateway.stop();
  }
});

test.run();
