import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ask, Refusal } from './sse-client.ts';

const test = suite('bench client');

/** Output of Runnel, with other ids. */
const RUNNEL = readFileSync(new URL('runnel-stream.txt', import.meta.url), 'utf8');

/** Output of llama-server of llama.cpp 0.5.0. */
const LLAMA_SERVER = readFileSync(new URL('llama-server-stream.txt', import.meta.url), 'utf8');

/** A server that answers with this status and these pieces of a body, each sent separately. */
async function answered<Value>(
  status: number,
  pieces: readonly string[],
  use: (url: string) => Promise<Value>,
): Promise<Value> {
  const server = createServer(async (_request, response) => {
    response.writeHead(status);
    for (const piece of pieces) await new Promise((resolve) => response.write(piece, resolve));
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

async function piecesAndTokens(text: string, cut: number): Promise<[number, number]> {
  let pieces = 0;
  const count = (): void => {
    ++pieces;
  };
  const ask_ = (url: string): Promise<number> => ask(url, {}, count);
  const tokens = await answered(200, [text.slice(0, cut), text.slice(cut)], ask_);
  return [pieces, tokens];
}

test('each server’s pieces are counted, and the tokens that it says it drew, wherever the stream is cut', async () => {
  for (const cut of [0, 1, 100, 171, 172, 173, 700]) {
    assert.equal(await piecesAndTokens(RUNNEL, cut), [2, 3], `cut at ${cut}`);
    assert.equal(await piecesAndTokens(LLAMA_SERVER, cut), [3, 3], `cut at ${cut}`);
  }
});

async function failure(asked: Promise<unknown>): Promise<Error> {
  return asked.then(
    () => assert.unreachable() as never,
    (error: Error) => error,
  );
}

test('a refusal, an error in the stream and a stream without an end are errors', async () => {
  const asking = (url: string): Promise<number> => ask(url, {}, () => {});
  const refused = await failure(answered(503, ['{"error":"loading"}'], asking));
  assert.instance(refused, Refusal);
  assert.is((refused as Refusal).status, 503);
  const broken = 'data: {"error":{"message":"out of memory"}}\n\n';
  assert.match((await failure(answered(200, [broken], asking))).message, 'out of memory');
  const cut = RUNNEL.slice(0, 300);
  assert.match((await failure(answered(200, [cut], asking))).message, 'without its count of tokens');
});

test.run();
