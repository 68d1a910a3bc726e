import { closeSync, readlinkSync, readSync, statSync, writeSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKvMemory } from '../../../../gateway/runner/process/kv-memory.ts';
import { CPU_RUNNER } from '../../../fixtures/default-model.ts';

const test = suite('memory for KV caches');

test('a runner program makes memory that is left when it has ended, and that other runners can only read', async () => {
  const { own, reader } = await makeKvMemory(CPU_RUNNER);
  for (const descriptor of [own, reader]) {
    const path = `/proc/self/fd/${descriptor}`;
    assert.match(readlinkSync(path), /^\/memfd:runnel-kv/);
    assert.ok(statSync(path).size > 2 ** 20);
  }
  const word = Buffer.from('word');
  writeSync(own, word, 0, 4, 0);
  const read = Buffer.alloc(4);
  readSync(reader, read, 0, 4, 0);
  assert.equal(read, word);
  assert.throws(() => writeSync(reader, word, 0, 4, 0), /EBADF/);
  closeSync(own);
  closeSync(reader);
});

test('a program that makes none is named, with what it said', async () => {
  for (const [program, reason] of [
    ['/bin/false', /^\/bin\/false memory made no memory for KV caches: /],
    ['/no/such/program', /^\/no\/such\/program memory made no memory for KV caches: .*ENOENT/],
  ] as const) {
    let message = '';
    await makeKvMemory(program).catch((error: Error) => (message = error.message));
    assert.match(message, reason);
  }
});

test.run();
