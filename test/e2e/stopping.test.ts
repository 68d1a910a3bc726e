/** How a gateway ends when its streams do not, and how a connection ends whose client does not read. */
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import * as assert from 'uvu/assert';
import { sameSignalMs } from '../../gateway/system/end-signal.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway, gatewaySuite, isAlive } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { RawClient } from '../fixtures/raw-client.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until, within } from '../fixtures/within.ts';

const test = gatewaySuite('stopping', 'SIGKILL');
const folder = temporaryFolder();
const long = { job_id: 'a', prompt: 'Once upon a time', max_tokens: 2000, temperature: 0, min_tokens: 2000 };

async function started(...args: string[]): Promise<Gateway> {
  const gateway = await Gateway.start(DEFAULT_MODEL, args);
  return gateway.ready();
}

test('streams that outlast the time to drain end with an error event, and the gateway with status 0', async () => {
  const gateway = await started('--drain-timeout-sec', '1');
  const { pid } = (await gateway.health()).runner;
  let stopped: ReturnType<Gateway['stop']> | undefined;
  const answer = await readNativeAnswer(await gateway.post('/execute', long), () => {
    stopped ??= gateway.stop();
  });
  assert.is(answer.last.event, 'error');
  assert.equal(answer.last.data, {
    code: 'INFERENCE_FAILED',
    message: 'The server stopped before the request was finished.',
    retriable: true,
  });
  assert.equal(await stopped, { code: 0, signal: null });
  assert.not(isAlive(pid ?? 0));
});

test('a second SIGTERM ends the gateway at once, with status 70, and its runner too', async () => {
  const gateway = await started('--drain-timeout-sec', '600');
  const { pid } = (await gateway.health()).runner;
  const leave = new AbortController();
  const response = await gateway.post('/execute', long, leave.signal);
  const exited = new Promise((resolve) => gateway.process.once('exit', resolve));
  gateway.process.kill('SIGTERM');
  await until(PATIENCE_MS, 'The beginning of the end', () => gateway.log.includes('"event":"shutdown"'));
  assert.is(gateway.process.exitCode, null, 'the stream may finish');
  // A second signal that comes sooner is taken for a repetition of the first.
  await setTimeout(2 * sameSignalMs);
  gateway.process.kill('SIGTERM');
  assert.is(await within(PATIENCE_MS, 'The end', exited), 70);
  leave.abort();
  await response.body?.cancel().catch(() => {});
  await until(PATIENCE_MS, 'The end of the runner', () => !isAlive(pid ?? 0));
});

test('a client that does not read is cut, and the log reports its buffered bytes', async () => {
  const path = join(folder.path, 'runnel.sock');
  const args = ['--uds', path, '--client-stall-timeout-sec', '2'];
  const gateway = await Gateway.startOn(DEFAULT_MODEL, args);
  await until(PATIENCE_MS, 'The model', () => gateway.log.includes('"event":"ready"'));
  const client = await RawClient.connect(path);
  client.socket.pause();
  // More than the buffer of a UNIX socket holds.
  client.post('/tokenize', { content: 'a b c d e f g h '.repeat(20_000), with_pieces: true });
  await until(PATIENCE_MS, 'The cut', () => gateway.log.includes('client_stalled'));
  const line = gateway.log.split('\n').find((text) => text.includes('client_stalled')) ?? '';
  const { event, held_bytes } = JSON.parse(line) as { event: string; held_bytes: number };
  assert.is(event, 'client_stalled');
  assert.ok(held_bytes > 0 && held_bytes <= 2 ** 18, `${held_bytes}`);
  client.socket.destroy();
});

test.run();
