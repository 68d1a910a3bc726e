/** How much memory the gateway holds for a client that does not read, if it has asked for everything that makes answers large. */
import * as assert from 'uvu/assert';
import type { GenerateRequest, GenerationHandle, TokenSink } from '../../../gateway/runner/runner.ts';
import { TokenStream } from '../../../gateway/runner/supervision/token-stream.ts';
import { testApp } from '../../fixtures/app.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { listening } from '../../fixtures/listening.ts';
import { liveBytes } from '../../fixtures/live-bytes.ts';
import { RawClient } from '../../fixtures/raw-client.ts';
import { ScriptedRunner, scriptedInfo } from '../../fixtures/scripted-runner.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { wideModel } from '../../fixtures/wide-model.ts';
import { PATIENCE_MS, until, within } from '../../fixtures/within.ts';

const test = closingSuite('held bytes');
const folder = temporaryFolder();
const MAX_HELD_BYTES = 256 * 1024;
const NUM_TOKENS = 1000;
/** The usual length of a token. */
const TOKEN_BYTES = 6;

/** Makes a token for each answer in every turn of the loop, unless the answer is paused or all are stopped. */
class EagerRunner extends ScriptedRunner {
  readonly #pumps: { isPaused: boolean; numMade: number }[] = [];
  isStopped = false;

  /** Whether no more tokens will come by themselves. */
  get isQuiet(): boolean {
    return (
      this.#pumps.length > 0 &&
      this.#pumps.every(({ isPaused, numMade }) => isPaused || numMade === NUM_TOKENS)
    );
  }

  override generate({ topLogprobs = 0 }: GenerateRequest, sink: TokenSink): GenerationHandle {
    const pump = { isPaused: false, numMade: 0 };
    const stream = new TokenStream(sink, (flow) => {
      pump.isPaused = flow === 'pause';
    });
    this.#pumps.push(pump);
    const topIds = Array.from({ length: topLogprobs }, (_, rank) => 100 + rank);
    const logprobs = [{ logprob: -1.2345678806304932, topIds, topLogprobs: topIds.map((id) => -id / 7) }];
    const make = (): void => {
      if (this.isStopped || pump.numMade === NUM_TOKENS) return;
      if (!pump.isPaused) stream.push({ requestId: 1, firstIndex: pump.numMade++, tokenIds: [97], logprobs });
      setImmediate(make);
    };
    setImmediate(make);
    return {
      cancel: () => stream.close(),
      pause: () => stream.pause(),
      resume: () => stream.resume(),
    };
  }
}

/** Reads one write and no more. When nothing more comes, returns the sizes of the writes that are left. */
async function heldWrites(numChoices: number): Promise<number[]> {
  const runner = new EagerRunner();
  runner.current = { ...runner.current, info: { ...scriptedInfo, vocabSize: 1000, maxModelLen: 4096 } };
  const { app } = testApp({ runner, model: () => wideModel(TOKEN_BYTES) });
  const fields = { max_tokens: NUM_TOKENS, n: numChoices, logprobs: true, top_logprobs: 20, stream: true };
  const response = await app.request('/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'bytes', messages: [{ role: 'user', content: 'x' }], ...fields }),
  });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  await until(PATIENCE_MS, 'A pause', () => runner.isQuiet);
  runner.isStopped = true;
  const writes: number[] = [];
  for (;;) {
    const next = await Promise.race([reader.read(), quiet()]);
    if (next === undefined || next.value === undefined) break;
    writes.push(next.value.length);
  }
  await within(PATIENCE_MS, 'The cancel', reader.cancel());
  return writes;
}

/** Nothing that is ready takes this many turns of the loop. */
async function quiet(): Promise<undefined> {
  for (let turn = 0; turn < 1000; turn++) await new Promise((resolve) => setImmediate(resolve));
  return undefined;
}

// Counted twice: the bytes of the last write may still be in the connection.
test('a stream with the most log-probabilities holds no more than the limit', async () => {
  const writes = await heldWrites(1);
  const held = 2 * writes.reduce((sum, bytes) => sum + bytes, 0);
  console.log(`${held} bytes are held for one stream`);
  assert.ok(held > 0 && held <= MAX_HELD_BYTES, `${held} bytes are held`);
});

test('eight choices at once are not written at once', async () => {
  const largest = Math.max(...(await heldWrites(8)));
  assert.ok(largest <= MAX_HELD_BYTES, `${largest} bytes are written at once`);
});

test('a stream that is open keeps nothing of the body of its request', async () => {
  const NUM_STREAMS = 16;
  const BODY_CHARACTERS = 500_000;
  const runner = new ScriptedRunner();
  runner.script = [[97], 'wait'];
  const { app } = testApp({ runner });
  const path = `${folder.path}/held.sock`;
  await listening(app.fetch, { path });
  const before = liveBytes();
  const clients: RawClient[] = [];
  for (let i = 0; i < NUM_STREAMS; i++) {
    const client = await RawClient.connect(path);
    const metadata = { note: `${i}`.padEnd(BODY_CHARACTERS, 'a') };
    const messages = [{ role: 'user', content: 'x' }];
    client.post('/v1/chat/completions', { model: 'bytes', messages, metadata, stream: true });
    assert.is(await client.status(), 200);
    clients.push(client);
  }
  const grown = liveBytes() - before;
  console.log(`${grown} bytes more are held for ${NUM_STREAMS} streams`);
  assert.ok(grown < (NUM_STREAMS * BODY_CHARACTERS) / 2, `${grown} bytes more are held`);
  for (const client of clients) client.socket.destroy();
});

test.run();
