import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** How long, and for how many bytes, a client whose request was refused unread may go on sending it. */
export const LINGER_MS = 2000;
export const LINGER_BYTES = 2 ** 24;

interface Connection {
  numRequests: number;
  /** The one that is being read, or was last. */
  incoming: IncomingMessage;
  /** Answers to requests that came behind one that is not answered yet. */
  readonly waiting: Set<ServerResponse>;
  /** Nothing that comes now is looked at. */
  isEnding: boolean;
}

/**
 * What the requests of one connection share: how many there may be, and how it ends. Whoever reads an answer with
 * `Connection: close` sends nothing more; Node by itself tells so after a number of requests, and then keeps the connection.
 */
export class Connections {
  readonly #maxRequests: number;
  readonly #connections = new WeakMap<Socket, Connection>();

  constructor(maxRequests: number) {
    this.#maxRequests = maxRequests;
  }

  /** Whether a request is to be answered: those behind the last one of their connection are not. */
  take(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    const connection = this.#connectionOf(incoming);
    if (connection.isEnding) {
      incoming.resume();
      return false;
    }
    connection.incoming = incoming;
    connection.numRequests++;
    connection.isEnding = connection.numRequests >= this.#maxRequests;
    if (connection.isEnding) outgoing.setHeader('connection', 'close');
    if (outgoing.socket === null) {
      connection.waiting.add(outgoing);
      outgoing.once('socket', () => connection.waiting.delete(outgoing));
    }
    return true;
  }

  #connectionOf(incoming: IncomingMessage): Connection {
    const { socket } = incoming;
    const known = this.#connections.get(socket);
    if (known !== undefined) return known;
    const connection: Connection = { numRequests: 0, incoming, waiting: new Set(), isEnding: false };
    this.#connections.set(socket, connection);
    // Node tells the answer that has the connection, and none of those behind it.
    socket.once('close', () => {
      for (const outgoing of connection.waiting) outgoing.destroy().emit('close');
    });
    // Node calls it behind the last answer.
    const destroySoon = socket.destroySoon.bind(socket);
    socket.destroySoon = () => {
      connection.isEnding = true;
      if (connection.incoming.complete) destroySoon();
      else linger(connection.incoming);
    };
    return connection;
  }
}

/**
 * Ends our side of a connection while a request is still coming. To close it at once would make the kernel answer what comes
 * with a reset, on which a client drops the answer that it has not read yet.
 */
function linger(incoming: IncomingMessage): void {
  const { socket } = incoming;
  if (socket.writableEnded) return;
  socket.end();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
  const limit = socket.bytesRead + LINGER_BYTES;
  // Whoever began to read has stopped, and would hold up what is to be thrown away.
  incoming.removeAllListeners('data');
  incoming.on('data', () => {
    if (socket.bytesRead > limit) socket.destroy();
  });
  incoming.once('end', () => socket.destroy());
  incoming.resume();
}
