/** A worker of a pool: what its manager is told, and how the worker ends when it cannot serve. */

import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { closingSuite } from '../fixtures/closing-suite.ts';
import { DEFAULT_MODEL, TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { PoolManager } from '../fixtures/pool-manager.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until, within } from '../fixtures/within.ts';

const test = closingSuite('worker');
const folder = temporaryFolder();
const KEY = 'canary-key-0123456789';

/** Every line of stderr is a log line. Text for people goes to stdout. */
function linesOf(gateway: Gateway): Record<string, unknown>[] {
  return gateway.log
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

function modelOf(args: readonly string[]): string | undefined {
  return args[args.indexOf('--model') + 1];
}

test('a first load that fails, with --callback-url: the worker ends with the status of its runner, and the log says why', async () => {
  const manager = await PoolManager.open();
  const dying = folder.write('dying', '#!/bin/sh\nkill -SEGV $$\n', 0o755);
  const tiny = ['--model', TINY_MODEL];
  // Room for its code, but not for the model's file.
  const cramped = folder.write('cramped', '#!/bin/sh\nulimit -v 60000\nexec build/cpu-runner "$@"\n', 0o755);
  const cases: [string[], number, RegExp, object?][] = [
    [['--model', folder.write('bad.gguf', 'bad')], 65, /bad\.gguf/],
    [['--model', join(folder.path, 'absent.gguf')], 66, /absent\.gguf/],
    [
      [...tiny, '--kv-cache-bytes', '1'],
      64,
      /--kv-cache-bytes is 1; one block .* takes 8192\./,
      { required_bytes: 8192, available_bytes: 1 },
    ],
    [['--model', DEFAULT_MODEL, '--runner', cramped], 71, /cannot be mapped: Cannot allocate memory/, {}],
    [[...tiny, '--runner', dying], 139, /SIGSEGV/],
  ];
  await Promise.all(
    cases.map(async ([args, status, reason, facts]) => {
      const flags = ['--port', '0', '--backend', 'cpu', '--callback-url', manager.url, ...args];
      const gateway = await Gateway.startOn(undefined, flags);
      const exited = (await within(PATIENCE_MS, 'The exit', gateway.ended())).code;
      assert.is(exited, status, gateway.log);
      const lines = linesOf(gateway);
      const error = lines.findLast(({ event }) => event === 'error');
      assert.match(String(error?.msg), reason);
      assert.equal(
        [error?.code, error?.exit_code, error?.model],
        ['MODEL_LOAD_FAILED', status, modelOf(args)],
      );
      assert.match(String(error?.device), facts === undefined ? 'undefined' : /^cpu, .* threads?$/);
      const exit = lines.find(({ event }) => event === 'runner_exited');
      for (const line of facts === undefined ? [] : [error, exit]) {
        const { device, required_bytes, available_bytes } = line ?? {};
        assert.equal(device, error?.device);
        assert.ok(Number(required_bytes) > Number(available_bytes), JSON.stringify(line));
        assert.equal({ ...line, ...facts }, line, 'these bytes');
      }
      assert.is(lines.find(({ event }) => event === 'shutdown')?.reason, 'model');
      assert.is(lines.at(-1)?.event, 'stopped');
    }),
  );
  assert.is(manager.received.length, 0);
});

test('a first load that fails, without --callback-url: the worker stays, and says so in /health and /ready', async () => {
  const gateway = await Gateway.startOn(folder.write('bad.gguf', 'bad'), ['--port', '0', '--backend', 'cpu']);
  try {
    await gateway.healthWhere(({ status }) => status === 'unhealthy', 'The failure');
    const ready = await fetch(`${gateway.url}/ready`);
    assert.is(ready.status, 503);
    const failed = linesOf(gateway).find(({ event }) => event === 'model_failed');
    assert.equal([failed?.exit_code, failed?.is_retriable], [65, true]);
    assert.match(await ready.text(), String(failed?.reason).slice(0, 40));
  } finally {
    assert.is((await gateway.stop()).code, 0);
  }
});

test('the pool manager gets the advertised URL of a worker on all addresses', async () => {
  const manager = await PoolManager.open();
  const keys = folder.write('keys', `${KEY}\n`, 0o600);
  const place = ['--host', '0.0.0.0', '--port', '0', '--api-keys-file', keys];
  const told = ['--callback-url', manager.url, '--advertise-url', 'http://worker-7.example:9000/llm/'];
  const gateway = await Gateway.startOn(TINY_MODEL, [
    ...place,
    ...told,
    '--backend',
    'cpu',
    '--worker-id',
    'w-7',
  ]);
  try {
    await until(PATIENCE_MS, 'the callback', () => manager.received.length > 0);
    const { body: message = {} } = manager.received[0] ?? {};
    assert.equal(Object.keys(message).slice(0, 3), ['worker_id', 'vram_bytes', 'uri']);
    assert.equal(
      [message.worker_id, message.uri, message.memory_type, message.memory_architecture],
      ['w-7', 'http://worker-7.example:9000/llm', 'cpu', 'cpu'],
    );
    await until(PATIENCE_MS, 'the line about it', () => gateway.log.includes('"event":"callback_sent"'));
  } finally {
    await gateway.stop();
  }
  const lines = linesOf(gateway);
  assert.equal([lines[0]?.event, lines[0]?.msg], ['startup', 'CPU worker starting']);
  const loaded = lines.find(({ event }) => event === 'model_load_complete');
  assert.is(loaded?.msg, 'Model loaded to CPU memory');
  assert.ok(Number(loaded?.memory_bytes) > 0);
  const sent = lines.find(({ event }) => event === 'callback_sent');
  assert.equal([sent?.status, sent?.level], [200, 'info']);
  for (const name of lines.flatMap((line) => Object.keys(line))) assert.match(name, /^[a-z][a-z0-9_]*$/);
});

test.run();
