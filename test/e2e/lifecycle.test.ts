import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';
import * as assert from 'uvu/assert';
import { CPU_RUNNER, DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway, gatewaySuite, isAlive } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { runnel } from '../fixtures/ran.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';

const test = gatewaySuite('lifecycle');

async function started(args: string[] = []): Promise<Gateway> {
  const gateway = await Gateway.start(DEFAULT_MODEL, args);
  return gateway.ready();
}

test('the commands of the first day work as they were written', async () => {
  const { url } = await started();
  const health = execFileSync('curl', ['-s', `${url}/health`], { encoding: 'utf8' });
  assert.match(health, /"status":"healthy","model_loaded":true,"vram_bytes":0,"memory_type":"cpu"/);
  const body = '{"job_id":"test","prompt":"Hello","max_tokens":10}';
  const headers = ['-H', 'Content-Type: application/json'];
  const stream = execFileSync('curl', ['-sN', '-X', 'POST', `${url}/execute`, ...headers, '-d', body], {
    encoding: 'utf8',
  });
  assert.match(stream, /^event: started\ndata: {.*}\n\nevent: token\n/);
  // The seed is random, so the answer may end by itself.
  const end = /event: end\ndata: ({.*})\n\n$/.exec(stream)?.[1];
  const { tokens_out, stop_reason } = JSON.parse(end ?? '{}') as { tokens_out: number; stop_reason: string };
  const isWhole =
    stop_reason === 'eos' ? tokens_out <= 10 : stop_reason === 'max_tokens' && tokens_out === 10;
  assert.ok(isWhole, stream);
});

test('tokens come one by one, not at the end', async () => {
  const gateway = await started();
  const arrivals: number[] = [];
  const response = await gateway.post('/execute', {
    job_id: 'a',
    prompt: 'Once upon a time',
    max_tokens: 64,
    temperature: 0,
  });
  await readNativeAnswer(response, () => arrivals.push(performance.now()));
  const first = arrivals[0] ?? 0;
  const last = arrivals.at(-1) ?? 0;
  const middle = arrivals[Math.floor(arrivals.length / 2)] ?? 0;
  assert.ok(arrivals.length > 40);
  assert.ok(middle - first > (last - first) / 10, 'the first half takes its time');
  assert.ok(last - middle > (last - first) / 10, 'and so does the second');
});

test('a 64-bit seed reaches the sampler unchanged', async () => {
  const gateway = await started();
  const prompt = 'The weather today is';
  const sample = async (seed: string): Promise<string> => {
    const body = `{"job_id":"${seed}","prompt":"${prompt}","max_tokens":24,"temperature":1,"seed":${seed}}`;
    const { text, started: event } = await readNativeAnswer(await gateway.post('/execute', body));
    assert.is(event.seed, BigInt(seed), 'and is reported unchanged');
    return text;
  };
  // Asynchronous: if this blocked, a connection that the gateway closes meanwhile would be used again.
  const outputOf = async (file: string, args: string[]): Promise<string> =>
    (await promisify(execFile)(file, args)).stdout;
  const byHand = async (seed: string): Promise<string> => {
    const tokenize = ['gateway/runnel.js', 'tokenize', '--model', DEFAULT_MODEL, '--add-special', prompt];
    const ids = await outputOf('node', tokenize);
    const args = ['generate', '--model', DEFAULT_MODEL, '--tokens', (JSON.parse(ids) as number[]).join(',')];
    args.push('--max-tokens', '24', '--temperature', '1', '--seed', seed, '--stop-ids', '2', '--json');
    return outputOf(CPU_RUNNER, args);
  };
  const detokenize = async (json: string): Promise<string> => {
    const { token_ids } = JSON.parse(json) as { token_ids: number[] };
    const response = await gateway.post('/detokenize', { tokens: token_ids.filter((id) => id !== 2) });
    return ((await response.json()) as { content: string }).content;
  };
  const texts = new Set<string>();
  for (const seed of ['18446744073709551615', '18446744073709551614', '18446744073709549568']) {
    const text = await sample(seed);
    assert.is(text, await detokenize(await byHand(seed)), seed);
    texts.add(text);
  }
  assert.is(texts.size, 3, 'seeds that a double would round to one are three');
});

test('a KV cache smaller than the context announces what it holds, and chats by default', async () => {
  const gateway = await started(['--kv-cache-bytes', '5000000']);
  const { context_length } = (await (await fetch(`${gateway.url}/health`)).json()) as {
    context_length: number;
  };
  assert.ok(context_length > 100 && context_length < 300, `${context_length}`);
  const body = { model: 'smollm2', messages: [{ role: 'user', content: 'Say yes.' }], temperature: 0 };
  assert.is((await gateway.post('/v1/chat/completions', body)).status, 200);
});

test('a client that leaves frees its place in the runner', async () => {
  const gateway = await started();
  const leave = new AbortController();
  const response = await gateway.post(
    '/execute',
    { job_id: 'a', prompt: 'Once', max_tokens: 2000, temperature: 0 },
    leave.signal,
  );
  const read = readNativeAnswer(response, () => leave.abort());
  await read.then(
    () => assert.unreachable('the stream was left'),
    () => {},
  );
  await gateway.idle();
});

test('SIGTERM lets open streams finish, refuses new requests, and exits 0 without leaving a runner', async () => {
  const gateway = await started();
  const { pid } = (await gateway.health()).runner;
  let refused: Promise<Response> | undefined;
  const response = await gateway.post('/execute', {
    job_id: 'a',
    prompt: 'Once',
    max_tokens: 80,
    temperature: 0,
  });
  let stopped: ReturnType<Gateway['stop']> | undefined;
  const answer = await readNativeAnswer(response, (text) => {
    stopped ??= gateway.stop('SIGTERM');
    if (text.length > 40) refused ??= gateway.post('/execute', { job_id: 'b', prompt: 'Once' });
  });
  assert.is(answer.last.event, 'end');
  assert.is(answer.last.data.tokens_out, 80);
  assert.is((await refused)?.status, 503);
  assert.equal(await stopped, { code: 0, signal: null });
  assert.not(isAlive(pid ?? 0));
});

test('a gateway killed with SIGKILL takes its runner with it', async () => {
  const gateway = await started();
  const { pid } = (await gateway.health()).runner;
  void gateway
    .post('/execute', { job_id: 'a', prompt: 'Once', max_tokens: 2000, temperature: 0 })
    .catch(() => {});
  await gateway.healthWhere(({ runner }) => runner.open_requests === 1, 'the request to run');
  await gateway.stop('SIGKILL');
  await until(PATIENCE_MS, 'The end of the runner', () => !isAlive(pid ?? 0));
});

test('a port in use is reported, with status 1', async () => {
  const { url } = await started();
  const port = new URL(url).port;
  const { status, stderr } = runnel('serve', '--model', DEFAULT_MODEL, '--port', port);
  assert.is(status, 1);
  assert.match(stderr, `Failed to bind to 127.0.0.1:${port}`);
  assert.match(stderr, 'choose another --port');
});

test.run();
