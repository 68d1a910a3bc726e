import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Outlet, socketOutlet } from '../../../../gateway/server/streams/response-stream.ts';
import { PATIENCE_MS, within } from '../../../fixtures/within.ts';

const test = suite('outlet');

/** Serves each request by `answer`, and returns all that a client of this HTTP version gets. */
async function received(
  version: '1.0' | '1.1',
  answer: (outlet: Outlet, drained: Promise<void>) => Promise<void> | void,
): Promise<string> {
  const respond = (outgoing: ServerResponse): void => {
    let drain = (): void => {};
    const drained = new Promise<void>((resolve) => (drain = resolve));
    outgoing.writeHead(200, { connection: 'close' });
    void answer(
      socketOutlet(outgoing, () => drain()),
      drained,
    );
  };
  const server = createServer((_, outgoing) => respond(outgoing)).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  try {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.write(`GET / HTTP/${version}\r\nHost: a\r\n\r\n`);
    const parts: Buffer[] = [];
    socket.on('data', (part: Buffer) => parts.push(part));
    await within(PATIENCE_MS, 'The end', new Promise((resolve) => socket.once('end', resolve)));
    return Buffer.concat(parts).toString('latin1');
  } finally {
    server.close();
  }
}

const bodyOf = (message: string): string => message.slice(message.indexOf('\r\n\r\n') + 4);
const asLatin1 = (text: string): string => Buffer.from(text).toString('latin1');

test('each text is a chunk, whatever its characters, and the end follows', async () => {
  const message = await received('1.1', (outlet) => {
    outlet.write('first', 'utf8');
    outlet.write('zwei Wörter 👋', 'utf8');
    outlet.write('\u0000\u00ff', 'latin1');
    outlet.end();
  });
  assert.match(message, /transfer-encoding: chunked/i);
  const chunks = [`5\r\nfirst`, `11\r\n${asLatin1('zwei Wörter 👋')}`, '2\r\n\u0000\u00ff', '0\r\n', ''];
  assert.is(bodyOf(message), chunks.join('\r\n'));
});

test('a client of HTTP/1.0 gets the texts alone', async () => {
  const message = await received('1.0', (outlet) => {
    outlet.write('first ', 'utf8');
    outlet.write('second', 'utf8');
    outlet.end();
  });
  assert.is(bodyOf(message), 'first second');
});

test('who is behind is told of, and so is that it has caught up', async () => {
  const long = 'x'.repeat(2 ** 20);
  let numWrites = 0;
  const message = await received('1.1', async (outlet, drained) => {
    outlet.write('first', 'utf8');
    do numWrites += 1;
    while (outlet.write(long, 'utf8'));
    await drained;
    outlet.end();
  });
  assert.is(bodyOf(message).match(/x+/g)?.join('').length, numWrites * long.length);
});

test.run();
