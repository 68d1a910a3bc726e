/**
 * Another model file takes the name after the gateway has read the file and before the runner opens it. The runner
 * notices, the gateway reads the file again, and the new file is served with its own tokenizer.
 */
import { readFileSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as assert from 'uvu/assert';
import { CPU_RUNNER, TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, within } from '../fixtures/within.ts';

const test = gatewaySuite('model swap');
const folder = temporaryFolder();
const model = join(folder.path, 'model.gguf');
const next = join(folder.path, 'next.gguf');
/** Swaps the file, if there is another one, just before the runner opens it. */
const launcher = folder.write(
  'runner',
  `#!/bin/sh\n[ -e ${next} ] && mv ${next} ${model}\nexec ${CPU_RUNNER} "$@"\n`,
  0o755,
);
const original = readFileSync(join(dirname(TINY_MODEL), 'tiny-llama-f32.gguf'));

test.before.each(() => {
  renameSync(folder.write('first.gguf', original), model);
});
/** A file of the same size and vocabulary in which the signs of the last floats, which are weights, are flipped. */
function withOtherWeights(): Buffer {
  const bytes = Buffer.from(original);
  for (let sign = bytes.length - 1; sign > bytes.length - 8192; sign -= 4)
    bytes[sign] = (bytes[sign] as number) ^ 0x80;
  return bytes;
}

/** A file of the same size in which the adjacent tokens "h" and "i" are swapped. */
function withOtherVocabulary(): Buffer {
  const bytes = Buffer.from(original);
  const token = (letter: string) =>
    Buffer.concat([Buffer.from([1, 0, 0, 0, 0, 0, 0, 0]), Buffer.from(letter)]);
  const at = bytes.indexOf(Buffer.concat([token('h'), token('i')]));
  assert.ok(at > 0);
  Buffer.concat([token('i'), token('h')]).copy(bytes, at);
  return bytes;
}

async function start(path: string): Promise<Gateway> {
  const gateway = await Gateway.start(path, ['--runner', launcher, '--threads', '1']);
  return gateway.ready();
}

interface Served {
  readonly prompt: readonly number[];
  readonly answer: readonly number[];
  readonly text: string;
}

async function servedBy(gateway: Gateway): Promise<Served> {
  const content = 'hi, this is what he hid';
  const tokens = await gateway.post('/tokenize', { content });
  const job = { job_id: 'job', prompt: content, max_tokens: 30, min_tokens: 30, seed: 7, token_ids: true };
  const response = await gateway.post('/execute', job);
  const { ids, text } = await within(PATIENCE_MS, 'An answer', readNativeAnswer(response));
  return { prompt: ((await tokens.json()) as { tokens: number[] }).tokens, answer: ids, text };
}

for (const { what, bytes, differs } of [
  { what: 'with other weights', bytes: withOtherWeights(), differs: ['answer'] },
  { what: 'with another vocabulary', bytes: withOtherVocabulary(), differs: ['prompt', 'answer'] },
] as const) {
  test(`a file ${what} that comes while the model is loaded is served as it is`, async () => {
    const before = await servedBy(await start(model));
    const alone = await servedBy(await start(folder.write(`alone ${what}.gguf`, bytes)));
    for (const part of differs) assert.not.equal(alone[part], before[part], part);

    folder.write('next.gguf', bytes);
    const gateway = await start(model);
    assert.equal(await servedBy(gateway), alone);
    const { runner } = await gateway.health();
    assert.equal([runner.state, runner.restarts], ['ready', 1]);
    const reason =
      /model\.gguf is another file than the gateway has read: its size, time, inode and device are [\d-]+, and were [\d-]+/;
    await gateway.logged(reason);
    assert.not.match(gateway.log, 'model_file_differs');
  });

  test(`a file ${what} that comes when the runner has died, or is replaced, is served as it is`, async () => {
    const gateway = await start(model);
    const alone = await servedBy(await start(folder.write(`alone ${what}.gguf`, bytes)));
    folder.write('next.gguf', bytes);
    const { runner } = await gateway.health();
    process.kill(runner.pid as number, 'SIGKILL');
    await gateway.healthWhere(
      ({ runner: now }) => now.restarts === 2 && now.state === 'ready',
      'The new model',
    );
    assert.equal(await servedBy(gateway), alone);

    folder.write('next.gguf', original);
    const replaced = await gateway.post('/runner/restart', { wait: true });
    assert.is(replaced.status, 200, await replaced.text());
    assert.equal((await servedBy(gateway)).prompt, (await servedBy(await start(model))).prompt);
  });
}

test.run();
