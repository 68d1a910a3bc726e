import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';
import { closedLoop, figuresOf, type Load } from './closed-loop.ts';
import type { Server } from './server.ts';

const test = suite('closed loop');

const LOAD: Load = {
  clients: 3,
  leastPrompt: 5,
  mostPrompt: 9,
  generate: 2,
  temperature: 0.8,
  topK: 40,
  warmupSeconds: 0.02,
  seconds: 0.3,
  healthSeconds: 0.1,
  seed: 1,
};

test('requests within the window count, in tokens as the server counts them', () => {
  const figures = figuresOf({
    fromMs: 1000,
    toMs: 3000,
    clients: [
      // Pieces of an answer, 3 of them in the window; then an answer whose end was not seen.
      [
        // Before the window: it only shows how many tokens a piece has.
        { askedMs: 0, piecesMs: [10, 20, 30, 40, 50, 60, 70, 80], tokens: 16 },
        { askedMs: 800, piecesMs: [900, 1100, 1200, 1400], tokens: 8 },
        { askedMs: 1400, piecesMs: [1900, 2000, 3100], tokens: undefined },
      ],
      [{ askedMs: 500, piecesMs: [600, 2600], tokens: 4 }],
      // Nothing arrived in the window.
      [{ askedMs: 500, piecesMs: [700], tokens: undefined }],
    ],
  });
  assert.is(figures.served, (6 * 2) / 2);
  assert.is(figures.firstTokenP50, 500);
  assert.is(figures.firstTokenP95, 500);
  assert.is(figures.gapP50, 200);
  assert.is(figures.gapMax, 2000);
  assert.is(figures.starved, 1);
});

test('the delays of a hundred answers have their 50th, 95th and 99th as figures', () => {
  // Client i waits i ms for its first piece, and i ms for the next.
  const clients = Array.from({ length: 100 }, (_, i) => [
    { askedMs: 0, piecesMs: [i + 1, 2 * (i + 1)], tokens: 2 },
  ]);
  const figures = figuresOf({ fromMs: 0, toMs: 1000, clients });
  assert.equal([figures.firstTokenP50, figures.firstTokenP95, figures.firstTokenP99], [50, 95, 99]);
  assert.equal([figures.gapP50, figures.gapP95, figures.gapP99, figures.gapMax], [50, 95, 99, 100]);
});

test('a window without a whole answer has no count of tokens', () => {
  const clients = [[{ askedMs: 0, piecesMs: [1], tokens: undefined }]];
  assert.throws(() => figuresOf({ fromMs: 0, toMs: 2, clients }), 'more --seconds are needed');
});

/** A server that answers each question with two tokens, and refuses questions from a certain one on. */
async function serving<Value>(
  refusedFrom: number,
  use: (server: Server, connections: () => Promise<number>) => Promise<Value>,
): Promise<Value> {
  let asked = 0;
  const http = createServer((request, response) => {
    if (request.url === '/health') {
      response.end('{}');
      return;
    }
    if (++asked >= refusedFrom) {
      response.writeHead(429).end('enough');
      return;
    }
    const piece = 'data: {"choices":[{"text":"a","finish_reason":null}]}\n\n';
    response.write(piece);
    setTimeout(() => {
      response.end(`${piece}data: {"choices":[],"usage":{"completion_tokens":2}}\n\ndata: [DONE]\n\n`);
    }, 5);
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const server: Server = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    startedMs: performance.now(),
    failure: undefined,
    completion: (question) => question,
    steps: async () => ({ steps: asked, sequences: 3 * asked, gatewayMs: asked }),
    memory: async () => ({ residentBytes: 5e6 }),
    stop: async () => {},
  };
  try {
    return await use(server, promisify(http.getConnections.bind(http)));
  } finally {
    http.closeAllConnections();
    http.close();
  }
}

test('clients ask again until the time is over, and none is left asking', async () => {
  await serving(Number.POSITIVE_INFINITY, async (server, connections) => {
    const figures = await closedLoop(server, LOAD, 1);
    assert.ok((figures.served ?? 0) > 0);
    assert.ok((figures.firstTokenP50 ?? 0) > 0);
    assert.is(figures.starved, 0);
    assert.is(figures.sequencesPerStep, 3);
    assert.ok((figures.gatewayPerToken ?? 0) > 0);
    assert.is(figures.resident, 5);
    assert.is(figures.residentShare, undefined);
    assert.ok((figures.healthP50 ?? 0) > 0);
    assert.ok((figures.healthP99 ?? 0) >= (figures.healthP95 ?? Number.POSITIVE_INFINITY));
    await until(PATIENCE_MS, 'The last connection to be closed', async () => (await connections()) === 0);
  });
});

test('a refusal by the server ends the round with its message', async () => {
  const load = { ...LOAD, seconds: 60 };
  const refusal = await serving(6, (server) =>
    closedLoop(server, load, 1).catch((error: Error) => error.message),
  );
  assert.is(refusal, '429: enough');
});

test.run();
