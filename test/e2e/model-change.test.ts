/** The gateway and its real runner change from one tiny model to another while many clients ask. */
import { writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until, within } from '../fixtures/within.ts';

const test = suite('model change');
const folder = temporaryFolder();
const NUM_CLIENTS = 24;
const OTHER_MODEL = TINY_MODEL.replace('q8_0', 'q4_0');
const ids = [TINY_MODEL, OTHER_MODEL].map((path) => basename(path, '.gguf'));

const config = join(folder.path, 'config.json');
let gateway: Gateway;

function configure(model: string): void {
  writeFileSync(config, JSON.stringify({ model, threads: 1, 'kv-cache-bytes': 4 << 20 }));
}

async function changeTo(model: string): Promise<Response> {
  configure(model);
  return within(PATIENCE_MS, 'The change', gateway.post('/runner/restart', { wait: true }));
}

interface Answer {
  readonly model: string;
  readonly text: string;
}

async function answer(client: number): Promise<Answer> {
  const body = {
    job_id: `job ${client} ${Math.random()}`,
    prompt: `Client ${client} asks`,
    max_tokens: 40,
    seed: client,
  };
  const { started, text, last } = await readNativeAnswer(await gateway.post('/execute', body));
  assert.is(last.event, 'end', JSON.stringify(last));
  return { model: String(started.model), text };
}

test.before(async () => {
  configure(TINY_MODEL);
  gateway = await Gateway.startOn(undefined, ['--port', '0', '--config', config]);
  await gateway.ready();
});
test.after(async () => {
  await gateway?.stop();
});

test(`from one model to the other and back, under ${NUM_CLIENTS} clients, fails nothing`, async () => {
  const clients = Array.from({ length: NUM_CLIENTS }, (_, client) => client);
  const alone = new Map<string, Answer[]>();
  for (const model of [OTHER_MODEL, TINY_MODEL]) {
    assert.is((await changeTo(model)).status, 200);
    alone.set(basename(model, '.gguf'), await Promise.all(clients.map(answer)));
  }
  let isOver = false;
  const answers: Answer[] = [];
  const asking = clients.map(async (client) => {
    while (!isOver) {
      const got = await answer(client);
      assert.equal(got, alone.get(got.model)?.[client], 'as that model answers when nothing changes');
      answers.push(got);
    }
  });
  // If a client fails, the others end and the error is reported.
  const all = Promise.all(asking).finally(() => (isOver = true));
  all.catch(() => {});
  for (const model of [OTHER_MODEL, TINY_MODEL]) {
    const before = answers.length;
    await until(PATIENCE_MS, 'Answers', () => isOver || answers.length > before + NUM_CLIENTS);
    const response = await changeTo(model);
    assert.is(response.status, 200, await response.text());
    const models = (await (await fetch(`${gateway.url}/v1/models`)).json()) as { data: { id: string }[] };
    assert.equal(
      models.data.map(({ id }) => id),
      [basename(model, '.gguf')],
    );
  }
  isOver = true;
  await within(PATIENCE_MS, 'The last answers', all);
  for (const id of ids)
    assert.ok(
      answers.some(({ model }) => model === id),
      `${id} has answered`,
    );
  console.log(`${answers.length} answers under two changes, all exact`);
  assert.equal(gateway.log.match(/"event":"error"/g), null);
});

test('a missing or invalid model changes nothing but the log', async () => {
  const { runner } = await gateway.health();
  const cut = folder.write('cut.gguf', Buffer.from('GGUF'));
  for (const [model, reason] of [
    [join(folder.path, 'absent.gguf'), 'does not exist'],
    [cut, 'cannot be used'],
  ] as const) {
    const refused = await changeTo(model);
    assert.is(refused.status, 500);
    assert.match(await refused.text(), reason);
  }
  assert.is((await gateway.health()).runner.pid, runner.pid);
  assert.is((await answer(1)).model, ids[0]);
});

test('SIGTERM in the middle of a change ends in order', async () => {
  configure(OTHER_MODEL);
  const numBegun = () => gateway.log.split('"model_change_draining"').length;
  const before = numBegun();
  gateway.process.kill('SIGHUP');
  await until(PATIENCE_MS, 'The change', () => numBegun() > before);
  assert.equal(await gateway.stop(), { code: 0, signal: null });
  assert.match(gateway.log, '"event":"stopped"');
});

test.run();
