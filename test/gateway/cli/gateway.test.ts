import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Gateway } from '../../../gateway/cli/gateway.ts';
import { guardRules } from '../../../gateway/cli/server-settings.ts';
import { readConfig } from '../../../gateway/config/config.ts';
import { BindError } from '../../../gateway/errors/exit-code.ts';
import { randomIds } from '../../../gateway/system/ids.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { CPU_RUNNER, TINY_MODEL } from '../../fixtures/default-model.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

const test = suite('gateway');

const folder = temporaryFolder().path;

interface Started {
  readonly gateway: Gateway;
  readonly url: string;
  readonly port: number;
}

function gatewayAt(port: number, onPort: (port: number) => void, more: readonly string[] = []): Gateway {
  const args = [
    '--model',
    TINY_MODEL,
    '--runner',
    CPU_RUNNER,
    '--port',
    String(port),
    '--kv-cache-bytes',
    '4194304',
    ...more,
  ];
  const readAgain = () => readConfig([...args, '--crash-reports-dir', folder], {});
  const config = readAgain();
  return new Gateway(config, {
    ...{ workerId: 'w-1', log: createLog('silent'), guard: guardRules(config), readAgain },
    ids: { ...randomIds, uuid: () => '00000000-0000-4000-8000-000000000000' },
    onListening: (address) => onPort('port' in address ? address.port : 0),
    onServed: () => {},
  });
}

async function started(...more: string[]): Promise<Started> {
  let port = 0;
  const gateway = gatewayAt(0, (bound) => (port = bound), more);
  await gateway.start();
  const url = `http://127.0.0.1:${port}`;
  await until(PATIENCE_MS, 'The model', async () => (await fetch(`${url}/ready`)).ok);
  return { gateway, url, port };
}

async function complete(url: string): Promise<{ readonly id: string; readonly choices: readonly object[] }> {
  const body = JSON.stringify({ model: 'tiny-llama-q8_0', prompt: 'abc', max_tokens: 3, temperature: 0 });
  const headers = { 'content-type': 'application/json' };
  return (await (await fetch(`${url}/v1/completions`, { method: 'POST', headers, body })).json()) as never;
}

test('two gateways in one process answer alike, with the ids that they are given, and stop', async () => {
  const [first, second] = [await started(), await started()];
  try {
    const answers = [await complete(first.url), await complete(second.url)] as const;
    assert.is(answers[0].id, 'cmpl-00000000-0000-4000-8000-000000000000');
    assert.is(answers[0].choices.length, 1);
    assert.equal(answers[0].choices, answers[1].choices);
  } finally {
    await Promise.all([first.gateway.stop(1000), second.gateway.stop(1000)]);
  }
  for (const { url } of [first, second]) assert.is(await fetch(`${url}/health`).catch(() => 'gone'), 'gone');
});

test('two gateways in one process with keys and journals of their own find the jobs of their callers', async () => {
  const keys = join(folder, 'keys');
  writeFileSync(keys, 'a-key-of-this-client\n', { mode: 0o600 });
  const start = (name: string) =>
    started('--api-keys-file', keys, '--journal-dir', join(folder, `journal-${name}`));
  const headers = { 'content-type': 'application/json', 'x-api-key': 'a-key-of-this-client' };
  const job = { job_id: 'a', prompt: 'abc', max_tokens: 1, durable: true };
  const open: Started[] = [];
  try {
    for (const name of ['first', 'second']) {
      const { url } = open[open.push(await start(name)) - 1] as Started;
      const asked = await fetch(`${url}/execute`, { method: 'POST', headers, body: JSON.stringify(job) });
      assert.match(await asked.text(), 'event: end');
    }
    for (const { url } of open) assert.is((await fetch(`${url}/jobs/a`, { headers })).status, 200);
  } finally {
    for (const { gateway } of open) await gateway.stop(0);
  }
});

test('a gateway that cannot listen says why, and has stopped', async () => {
  const { gateway, port } = await started();
  try {
    await gatewayAt(port, () => {}).start();
    assert.unreachable();
  } catch (error) {
    assert.instance(error, BindError);
    assert.match((error as BindError).message, `127.0.0.1:${port}`);
  } finally {
    await gateway.stop(0);
  }
});

test.run();
