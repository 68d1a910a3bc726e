import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { within } from '../fixtures/within.ts';

/** Python's clients of OpenAI, Anthropic, Ollama and LangChain against a running server; `make check` fetches them. */

const test = suite('python clients');

const CLIENTS = fileURLToPath(new URL('../../build/python-clients', import.meta.url));
const SCRIPT = fileURLToPath(new URL('./python_clients.py', import.meta.url));
const PATIENCE_MS = 240_000;
const hasClients = existsSync(CLIENTS);
if (!hasClients) console.log('SKIPPED: Python clients are not here: make python-clients fetches them.');
const clientTest = hasClients ? test : test.skip;

let gateway: Gateway | undefined;
test.before(async () => {
  if (hasClients) gateway = await (await Gateway.start(DEFAULT_MODEL)).ready();
});
test.after(async () => {
  await gateway?.stop();
});

async function run(client: string): Promise<void> {
  const child = spawn('python3', [SCRIPT, client, gateway?.url ?? ''], {
    env: { ...process.env, PYTHONPATH: CLIENTS, PYTHONDONTWRITEBYTECODE: '1' },
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
  const [status] = await within(PATIENCE_MS, client, once(child, 'close'));
  assert.is(status, 0, said);
  console.log(said.trim());
}

clientTest('openai streams, keeps to a schema, and tells what is refused', () => run('openai'));
clientTest('anthropic streams, counts, and tells what is refused', () => run('anthropic'));
clientTest('ollama streams, lists, and tells what is refused', () => run('ollama'));
clientTest('langchain-openai answers, streams, batches, and keeps to a schema', () => run('langchain'));

test.run();
