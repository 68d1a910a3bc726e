import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { ApiError } from '../errors/api-error.ts';

/** A client whose request was refused unread may go on sending it for this time and this many bytes. */
const LINGER_MS = 2000;
export const LINGER_BYTES = 2 ** 24;

interface RequestInFlight {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
}

interface Connection {
  numRequests: number;
  /** The request that is being read, or was read last. Its header was readable. */
  last: RequestInFlight;
  /** Pipelined answers: they wait for the answer to an earlier request. */
  readonly waiting: Set<ServerResponse>;
  /** Further requests of this connection are ignored. */
  isEnding: boolean;
}

/**
 * Counts the requests of each connection, bounds them, and closes the connection after the last one. Node's own limit
 * (maxRequestsPerSocket) announces `Connection: close` but keeps the connection open, although a client that reads this
 * header sends nothing more.
 */
export class Connections {
  readonly #maxRequests: number;
  readonly #connections = new WeakMap<Socket, Connection>();

  constructor(maxRequests: number) {
    this.#maxRequests = maxRequests;
  }

  /** Returns whether the request is to be answered. Requests after the last one of their connection are not. */
  take(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    const connection = this.#connectionOf({ incoming, outgoing });
    if (connection.isEnding) {
      incoming.resume();
      return false;
    }
    connection.last = { incoming, outgoing };
    connection.numRequests++;
    connection.isEnding = connection.numRequests >= this.#maxRequests;
    if (connection.isEnding) outgoing.setHeader('connection', 'close');
    if (outgoing.socket === null) {
      connection.waiting.add(outgoing);
      outgoing.once('socket', () => connection.waiting.delete(outgoing));
    }
    return true;
  }

  /** The last request of this connection that take() has seen. */
  lastOf(socket: Socket): RequestInFlight | undefined {
    return this.#connections.get(socket)?.last;
  }

  #connectionOf(last: RequestInFlight): Connection {
    const { socket } = last.incoming;
    const known = this.#connections.get(socket);
    if (known !== undefined) return known;
    const connection: Connection = { numRequests: 0, last, waiting: new Set(), isEnding: false };
    this.#connections.set(socket, connection);
    // Node closes the answer that has the connection, but not the pipelined ones that wait for it.
    socket.once('close', () => {
      for (const outgoing of connection.waiting) outgoing.destroy().emit('close');
    });
    // Node calls destroySoon after the last answer.
    const destroySoon = socket.destroySoon.bind(socket);
    socket.destroySoon = () => {
      connection.isEnding = true;
      const { incoming } = connection.last;
      if (incoming.complete) destroySoon();
      else linger(incoming);
    };
    return connection;
  }
}

/**
 * Ends our side of a connection while a request is still arriving. If the connection were closed at once, the kernel
 * would answer the arriving bytes with a reset, and the client would drop the answer that it has not read yet.
 */
function linger(incoming: IncomingMessage): void {
  const { socket } = incoming;
  if (socket.writableEnded) return;
  socket.end();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
  const limit = socket.bytesRead + LINGER_BYTES;
  // The reader of the body has stopped; its listener would hold up bytes that are to be discarded.
  incoming.removeAllListeners('data');
  incoming.on('data', () => {
    if (socket.bytesRead > limit) socket.destroy();
  });
  incoming.once('end', () => socket.destroy());
  incoming.resume();
}

/** Makes the answer to an error: its body, and its headers without those of the connection. */
export type AnswerUnreadable = (error: ApiError) => { headers: Record<string, string>; body: string };

/**
 * Answers requests that Node cannot read, or that do not arrive in time. Node reports them for the connection alone, and
 * would answer without a body. A request whose header was read is already with the application, which answers it like any
 * other.
 */
export class UnreadableRequests {
  readonly #answer: AnswerUnreadable;
  readonly #connections: Connections;
  readonly #ended = new WeakSet<Socket>();

  constructor(answer: AnswerUnreadable, connections: Connections) {
    this.#answer = answer;
    this.#connections = connections;
  }

  /** Handles the server's event clientError. */
  onClientError(fault: NodeJS.ErrnoException, socket: Socket): void {
    // After the first fault, the rest of the connection cannot be read either.
    if (this.#ended.has(socket)) return;
    this.#ended.add(socket);
    const error = errorOf(fault);
    if (error === undefined || !socket.writable) {
      socket.destroy(fault);
      return;
    }
    const request = this.#connections.lastOf(socket);
    if (request === undefined || request.outgoing.writableFinished) this.#tell(error, socket);
    else if (request.incoming.complete) this.#tellBehind(request.outgoing, error, socket);
    // The header may have come in the same packet, and the application may not have begun to read: so a turn later.
    else setImmediate(() => this.#failBody(request, error, socket));
  }

  #failBody({ incoming, outgoing }: RequestInFlight, error: ApiError, socket: Socket): void {
    if (outgoing.headersSent) this.#tellBehind(outgoing, error, socket);
    else if (incoming.listenerCount('error') > 0) incoming.emit('error', error);
    else this.#tell(error, socket);
  }

  /** Answers after the answer under way: in the middle of it, the error would be taken for a part of it. */
  #tellBehind(outgoing: ServerResponse, error: ApiError, socket: Socket): void {
    outgoing.once('finish', () => {
      if (socket.writable) this.#tell(error, socket);
    });
  }

  #tell(error: ApiError, socket: Socket): void {
    const { headers, body } = this.#answer(error);
    const lines = Object.entries({ ...headers, ...closing(body) }).map(
      ([name, value]) => `${name}: ${value}`,
    );
    const first = `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`;
    socket.end(`${[first, ...lines].join('\r\n')}\r\n\r\n${body}`);
    // Closing at once would drop the answer if the client is still sending.
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => clearTimeout(timer));
  }

  /** Refuses a request with too many header lines. */
  refuse(outgoing: ServerResponse): void {
    const { headers, body } = this.#answer(tooManyHeaders);
    outgoing.writeHead(tooManyHeaders.status, { ...headers, ...closing(body) }).end(body);
  }
}

function closing(body: string): Record<string, string> {
  return { connection: 'close', 'content-length': String(Buffer.byteLength(body)) };
}

const tooManyHeaders = new ApiError({
  status: 431,
  code: 'header_too_large',
  message: 'The request has more header lines than --max-headers allows; send fewer.',
});

/** What Node's parser reports of a limit, by its code. */
const LIMITS: Readonly<Record<string, ApiError>> = {
  HPE_HEADER_OVERFLOW: new ApiError({
    status: 431,
    code: 'header_too_large',
    message: 'The header of the request is longer than 16 KiB; send less of it.',
  }),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: new ApiError({
    status: 413,
    code: 'body_too_large',
    message: 'The extensions of a chunk are longer than 16 KiB; send the body without them.',
  }),
  ERR_HTTP_REQUEST_TIMEOUT: new ApiError({
    status: 408,
    code: 'request_timeout',
    message: 'The request did not arrive completely within the time limit; send it again.',
    retriable: true,
  }),
};

/** Undefined if the connection itself failed. */
function errorOf({
  code = '',
  reason,
}: NodeJS.ErrnoException & { readonly reason?: string }): ApiError | undefined {
  if (LIMITS[code] !== undefined || !code.startsWith('HPE_')) return LIMITS[code];
  const why = reason === undefined ? '' : `: ${reason}`;
  const message = `The request is not valid HTTP/1.1${why}.`;
  return new ApiError({ status: 400, code: 'malformed_request', message });
}
