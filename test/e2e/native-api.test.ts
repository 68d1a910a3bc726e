import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { packMsgpack } from '../../gateway/api/msgpack.ts';
import { closingSuite } from '../fixtures/closing-suite.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { freePort } from '../fixtures/free-port.ts';
import { Gateway, isAlive, stateOf } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { PoolManager } from '../fixtures/pool-manager.ts';
import { runnel } from '../fixtures/ran.ts';
import { type RunnerWorld, runnerWorld } from '../fixtures/runner-worlds.ts';
import { PATIENCE_MS, until, within } from '../fixtures/within.ts';

/**
 * The native API over a real runner, that of test/fixtures/runner-worlds.ts: cpu-runner, or with RUNNEL_TEST_EMULATED=1
 * cuda-runner on the emulated GPU. No scenario depends on which runner it is, on its speed, or on the text that it
 * writes.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CANARY_PROMPT = 'The canary Quetzalcoatlus sat on the lighthouse and';
const CANARY_STOP = 'Xylophone-canary';
const LONG = { prompt: 'Once upon a time', max_tokens: 2000, temperature: 0 };

interface NativeHealth {
  readonly [key: string]: unknown;
  readonly runner: {
    readonly kind: string;
    readonly kv_blocks: number;
    readonly kv_blocks_free: number | null;
    readonly weights_bytes: number;
    readonly kv_cache_bytes: number;
    readonly kv_cache_bytes_used: number;
  };
}

function suiteOf(world: RunnerWorld): void {
  const { model } = world;
  const start = (args: string[]) => Gateway.startOn(model, ['--port', '0', ...args], { env: world.env });
  const test = closingSuite(`native API, ${world.name}`);
  let gateway: Gateway;

  const health = async (): Promise<NativeHealth> => (await gateway.health()) as unknown as NativeHealth;

  /** Waits until the runner has no work and has reported so. */
  async function idle(): Promise<void> {
    await until(PATIENCE_MS, 'an idle runner with all its blocks', async () => {
      const { state, runner } = await health();
      return state === 'ready' && runner.kv_blocks_free === runner.kv_blocks;
    });
  }

  test.before(async () => {
    gateway = await start(['--worker-id', 'worker-1', '--callback-url', 'http://localhost:9999']);
    await gateway.ready();
  });
  test.after(async () => {
    await gateway?.stop();
  });

  test('the first specification’s commands work as they are written', async () => {
    const port = await freePort();
    const command = `npx runnel serve --worker-id test --model ${model} --port ${port} --callback-url http://localhost:9999`;
    const worker = spawn('sh', ['-c', `exec ${command}`], {
      cwd: ROOT,
      env: { ...process.env, ...world.env },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let log = '';
    worker.stderr.on('data', (chunk: Buffer) => {
      log += chunk.toString();
    });
    const exited = once(worker, 'exit');
    try {
      await until(PATIENCE_MS, 'the ready line', () => log.includes('"event":"ready"'));
      const curl = (line: string) =>
        execFileSync('sh', ['-c', line.replaceAll('8080', String(port))], { encoding: 'utf8' });
      const body = JSON.parse(curl('curl -s http://localhost:8080/health')) as Record<string, unknown>;
      assert.equal(Object.keys(body).slice(0, 4), ['status', 'model_loaded', 'vram_bytes', 'memory_type']);
      const stream = curl(
        `curl -s -X POST http://localhost:8080/execute -H "Content-Type: application/json" -d '{"job_id":"test","prompt":"Hello","max_tokens":10}'`,
      );
      assert.match(stream, /^event: started\ndata: {"job_id":"test",/);
      assert.match(stream, /\n\nevent: end\ndata: {"tokens_out":\d+,.*}\n\n$/);
      await until(PATIENCE_MS, 'the skipped callback', () => {
        return log.includes('Test mode: skipping pool manager callback');
      });
    } finally {
      worker.kill('SIGTERM');
    }
    assert.equal(await within(PATIENCE_MS, 'the end of the worker', exited), [0, null]);
  });

  test('health has the keys of the first specification first, then all of the others', async () => {
    await idle();
    const body = await health();
    assert.equal(Object.keys(body).slice(0, 4), ['status', 'model_loaded', 'vram_bytes', 'memory_type']);
    const isCuda = world.kind === 'cuda';
    assert.is(body.runner.kind, world.kind);
    assert.is(body.status, 'healthy');
    assert.is(body.model_loaded, true);
    assert.is(body.memory_type, isCuda ? 'vram-only' : 'cpu');
    assert.is(body.vram_bytes, isCuda ? body.memory_bytes : 0);
    assert.ok(Number(body.memory_bytes) > world.minMemoryBytes);
    assert.is(body.state, 'ready');
    assert.is(body.model, basename(model, '.gguf'));
    assert.match(String(body.quant_kind), world.quantKind);
    assert.is(body.tokenizer_kind, 'gguf-bpe');
    assert.is(body.vocab_size, world.vocabSize);
    assert.type(body.context_length, 'number');
    assert.is(body.resident, true);
    assert.is(body.memory_bytes_used, body.runner.weights_bytes, 'nobody holds a block');
    assert.is(Number(body.memory_bytes_used) + body.runner.kv_cache_bytes, body.memory_bytes);
    assert.is(body.vram_bytes_used, isCuda ? body.memory_bytes_used : 0);
    assert.equal(body.capabilities, ['text-gen']);
  });

  test('a job makes the worker busy, and its id is taken until its end', async () => {
    const response = await gateway.post('/execute', { job_id: 'busy', ...LONG });
    await gateway.healthWhere(
      (found) => (found as unknown as NativeHealth).state === 'busy',
      'A busy worker',
    );
    assert.is((await gateway.post('/execute', { job_id: 'busy', ...LONG })).status, 409);
    await until(PATIENCE_MS, 'blocks that the job holds', async () => {
      const { memory_bytes_used: used, memory_bytes: all, runner } = await health();
      const isTold = used === runner.weights_bytes + runner.kv_cache_bytes_used;
      return isTold && runner.kv_cache_bytes_used > 0 && Number(used) < Number(all);
    });
    await gateway.post('/cancel', { job_id: 'busy' });
    await readNativeAnswer(response);
    const again = await gateway.post('/execute', { job_id: 'busy', prompt: 'Hi', max_tokens: 1 });
    assert.is((await readNativeAnswer(again)).last.event, 'end');
  });

  test('both encodings give the same answer of the real model, ids and all', async () => {
    const request = { prompt: CANARY_PROMPT, max_tokens: 40, seed: 3, token_ids: true, stop: [CANARY_STOP] };
    const sse = await readNativeAnswer(await gateway.post('/execute', { job_id: 'sse', ...request }));
    const packed = await fetch(`${gateway.url}/execute`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-msgpack', accept: 'application/x-msgpack' },
      body: new Uint8Array(packMsgpack({ job_id: 'msgpack', ...request })),
    });
    const msgpack = await readNativeAnswer(packed);
    for (const key of ['text', 'indices', 'ids', 'order'] as const) assert.equal(msgpack[key], sse[key], key);
    const { tokens } = (await (
      await gateway.post('/tokenize', { content: CANARY_PROMPT, add_special: true })
    ).json()) as { tokens: number[] };
    const { prompt: _, ...rest } = request;
    const byIds = await gateway.post('/execute', { job_id: 'ids', ...rest, prompt_ids: tokens });
    assert.equal((await readNativeAnswer(byIds)).ids, sse.ids, 'the prompt as ids is the same prompt');
  });

  test('cancel: before the first token, in the stream, after the end, unknown, ten times; others never notice', async () => {
    const request = { prompt: 'A recipe for bread begins with', max_tokens: 60, seed: 11 };
    const alone = await readNativeAnswer(await gateway.post('/execute', { job_id: 'alone', ...request }));
    const cancel = (job_id: string) => gateway.post('/cancel', { job_id });

    const other = gateway
      .post('/execute', { job_id: 'other', ...request })
      .then((response) => readNativeAnswer(response));
    const early = await gateway.post('/execute', { job_id: 'early', ...LONG, prompt: 'word '.repeat(1000) });
    await cancel('early');
    const first = await within(PATIENCE_MS, 'the end of the cancelled prefill', readNativeAnswer(early));
    assert.equal([first.text, first.last.data.code], ['', 'CANCELLED']);

    let cancels: Promise<Response>[] = [];
    const middle = await readNativeAnswer(
      await gateway.post('/execute', { job_id: 'middle', ...LONG }),
      (text) => {
        if (text.length > 20 && cancels.length === 0)
          cancels = Array.from({ length: 10 }, () => cancel('middle'));
      },
    );
    assert.equal(middle.last.data, {
      code: 'CANCELLED',
      message: middle.last.data.message,
      retriable: false,
    });
    for (const answer of await Promise.all(cancels)) assert.is(answer.status, 202);
    for (const id of ['middle', 'never seen']) assert.is((await cancel(id)).status, 202);
    assert.equal((await other).text, alone.text, 'the other job had the answer it has alone');
    await idle();
  });

  test('a client that leaves gives its blocks back', async () => {
    const leave = new AbortController();
    const response = await gateway.post('/execute', { job_id: 'left', ...LONG }, leave.signal);
    await readNativeAnswer(response, () => leave.abort()).catch(() => {});
    await idle();
  });

  test('many jobs at once have the answers they have alone', async () => {
    const prompts = ['The sea', 'In winter', 'My friend', 'A long road', 'Every morning'];
    const run = async (prompt: string, job_id: string) =>
      (await readNativeAnswer(await gateway.post('/execute', { job_id, prompt, max_tokens: 24, seed: 5 })))
        .text;
    const together = await Promise.all(prompts.map((prompt, i) => run(prompt, `together-${i}`)));
    for (const [i, prompt] of prompts.entries())
      assert.is(await run(prompt, `alone-${i}`), together[i], prompt);
  });

  test('health asks no runner: answered again and again while one stands still with work', async () => {
    const jobs = Array.from({ length: 4 }, async (_, index) => {
      const response = await gateway.post('/execute', { job_id: `load-${index}`, ...LONG, max_tokens: 40 });
      return readNativeAnswer(response);
    });
    const { runner } = await gateway.healthWhere(({ runner }) => runner.open_requests > 0, 'work');
    const pid = runner.pid ?? 0;
    process.kill(pid, 'SIGSTOP');
    try {
      await until(PATIENCE_MS, 'the stop', () => stateOf(pid) === 'T');
      for (let i = 0; i < 20; i++) assert.is((await gateway.health()).status, 'healthy');
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await Promise.all(jobs);
  });

  test('metrics events come on request while the real model works', async () => {
    // With this much company and this many tokens, an answer takes longer than the second between two metrics events on
    // any machine.
    const jobs = ['metrics', 'company-1', 'company-2', 'company-3'];
    const long = { ...LONG, min_tokens: LONG.max_tokens, metrics: true };
    const startedMs = performance.now();
    const cancelLater = (): void => {
      if (performance.now() - startedMs < 3000) return;
      for (const job_id of jobs.splice(0)) void gateway.post('/cancel', { job_id });
    };
    const answers = await Promise.all(
      [...jobs].map(async (job_id) =>
        readNativeAnswer(await gateway.post('/execute', { job_id, ...long }), cancelLater),
      ),
    );
    for (const { metrics } of answers) {
      assert.ok(metrics.length > 0, 'there were some');
      for (const { tokens_per_sec } of metrics) assert.ok(Number(tokens_per_sec) > 0);
    }
  });

  test('/metrics counts what was done', async () => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    assert.match(text, /^worker_requests_total\{outcome="cancelled",model="[^"]+"\} [3-9]/m);
    assert.match(text, /^worker_tokens_generated_total\{model="[^"]+"\} [1-9]\d\d/m);
    assert.match(text, /^runnel_runner_state\{state="ready",model="[^"]+"\} 1$/m);
  });

  test('the log: every line is JSON with worker, model and port, each event is there, no text is', async () => {
    await gateway.stop();
    const lines = gateway.log
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const port = Number(new URL(gateway.url).port);
    assert.equal(
      [lines[0]?.event, lines[0]?.msg],
      ['startup', `${world.kind.toUpperCase()} worker starting`],
    );
    for (const line of lines) {
      for (const name of Object.keys(line)) assert.match(name, /^[a-z][a-z0-9_]*$/);
      assert.equal([line.worker_id, line.model], ['worker-1', model]);
      // The journal is open before the server listens.
      if (line.event !== 'startup' && line.event !== 'journal_opened') assert.is(line.port, port);
      assert.type(line.event, 'string');
    }
    const events = lines.map(({ event, percent }) => (percent === undefined ? event : `${event} ${percent}`));
    const startup = [
      'startup',
      'model_load_start',
      ...[0, 25, 50, 75, 100].map((percent) => `model_load_progress ${percent}`),
    ];
    const wanted = [...startup, 'model_load_complete', 'ready', 'execute_start', 'execute_end', 'shutdown'];
    const places = wanted.map((event) => events.indexOf(event));
    assert.equal(
      places,
      [...places].sort((a, b) => a - b),
      JSON.stringify(events.slice(0, 20)),
    );
    assert.ok(!places.includes(-1), `${wanted[places.indexOf(-1)]} is not in the log`);
    const complete = lines.find(({ event }) => event === 'model_load_complete');
    assert.match(String(complete?.msg), /^Model loaded to (CPU|CUDA) memory$/);
    assert.ok(Number(complete?.memory_bytes) > world.minMemoryBytes);
    for (const canary of ['Quetzalcoatlus', 'Xylophone', 'recipe', 'Once upon'])
      assert.not.match(gateway.log, canary);
  });

  test('a job that takes longer than the server allows ends with TIMEOUT, and the worker works on', async () => {
    const limited = await start(['--inference-timeout-sec', '1']);
    try {
      await limited.ready();
      const slow = { job_id: 'slow', ...LONG, prompt: 'word '.repeat(1000) };
      const answer = await readNativeAnswer(await limited.post('/execute', slow));
      assert.is(answer.last.data.code, 'TIMEOUT');
      assert.is(answer.last.data.retriable, true);
      // On a slow machine the step under way takes a while, and delays the next job.
      await until(PATIENCE_MS, 'a job in time', async () => {
        const next = await limited.post('/execute', { job_id: 'next', prompt: 'Hi', max_tokens: 2 });
        return (await readNativeAnswer(next)).last.event === 'end';
      });
    } finally {
      await limited.stop();
    }
  });

  test('a small cache makes the context small: a prompt beyond it is refused, a shorter one is served', async () => {
    const small = await start(['--kv-cache-bytes', String(world.smallCacheBytes)]);
    try {
      await small.ready();
      const { context_length } = (await small.health()) as unknown as NativeHealth;
      assert.ok(Number(context_length) < 200, String(context_length));
      const refused = await small.post('/execute', { job_id: 'large', prompt: 'word '.repeat(300) });
      assert.is(refused.status, 400);
      assert.match(
        await refused.text(),
        `This model's maximum context length is ${context_length} tokens, of which`,
      );
      const full = await readNativeAnswer(await small.post('/execute', { job_id: 'full', ...LONG }));
      assert.is(full.last.data.stop_reason, 'max_tokens', 'the context is full');
      assert.ok(Number(full.last.data.tokens_out) < 200);
    } finally {
      await small.stop();
    }
  });

  test('a pool manager gets one callback, from a worker that already serves', async () => {
    const manager = await PoolManager.open();
    const healths: Record<string, unknown>[] = [];
    manager.onCall = async ({ uri }) => void healths.push(await (await fetch(`${uri}/health`)).json());
    const worker = await start(['--worker-id', 'w-7', '--callback-url', manager.url]);
    try {
      await until(PATIENCE_MS, 'the callback', () => healths.length > 0);
      const { body = {} } = manager.received[0] ?? {};
      const [seen = {}] = healths;
      assert.equal(Object.keys(body).slice(0, 4), ['worker_id', 'vram_bytes', 'uri', 'memory_bytes']);
      assert.equal([body.worker_id, body.uri, body.model_ref], ['w-7', worker.url, basename(model, '.gguf')]);
      assert.is(body.vram_bytes, seen.vram_bytes);
      assert.is(body.memory_bytes, seen.memory_bytes);
      assert.equal([seen.status, seen.model_loaded], ['healthy', true]);
      const { pid, restarts } = (await worker.health()).runner;
      process.kill(pid ?? 0, 'SIGKILL');
      await worker.healthWhere(
        ({ status, runner }) => status === 'healthy' && runner.restarts > restarts,
        'Another runner',
      );
      assert.is(manager.received.length, 1, 'a restart of the runner is nobody else’s business');
    } finally {
      assert.is((await worker.stop()).code, 0);
    }
  });

  test('a worker whose pool manager refuses it exits with 69 and leaves nothing running', async () => {
    const manager = await PoolManager.open(503);
    const worker = await start(['--callback-url', manager.url]);
    try {
      const [code] = (await within(PATIENCE_MS, 'the exit', once(worker.process, 'exit'))) as [number];
      assert.is(code, 69);
      assert.match(worker.log, 'Pool manager callback failed: 503');
      const pid = /"event":"model_load_start","pid":(\d+)/.exec(worker.log)?.[1];
      assert.not(isAlive(Number(pid)));
    } finally {
      await worker.stop('SIGKILL');
    }
  });

  test.run();
}

suiteOf(runnerWorld());

/** No runner is started, so these tests do not depend on the world. */
const flagsTest = suite('native API, flags');

flagsTest('each invalid worker flag is named, with status 64', () => {
  const cases: [string, string][] = [
    ['--worker-id', 'a b'],
    ['--worker-id', 'x'.repeat(129)],
    ['--callback-url', 'not a url'],
    ['--callback-url', 'ftp://host/'],
    ['--callback-url', 'http://user:pass@host/'],
    ['--inference-timeout-sec', '0'],
    ['--port', '65536'],
    ['--advertise-url', 'http://w:0'],
    ['--max-queued-tokens', '0'],
    ['--kv-cache-size-mb', '0'],
    ['--max-tokens-out', '0'],
    ['--tensor-parallel-size', '17'],
    ['--gpu-memory-utilization', '0.9'],
    ['--runner', '/nowhere/cpu-runner'],
  ];
  for (const [flag, value] of cases) {
    const serve = ['serve', '--model', DEFAULT_MODEL, '--backend', 'cpu'];
    const { status, stderr } = runnel(...serve, flag, value);
    assert.is(status, 64, stderr);
    assert.match(stderr, flag);
  }
});

flagsTest.run();
