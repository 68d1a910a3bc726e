/**
 * Requests that Node cannot read, or that do not arrive in time. It tells the server of the connection alone, and would answer
 * without a body. One whose header was read is with the application, which answers it as any other.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { ApiError } from '../errors/api-error.ts';
import { LINGER_MS } from './connections.ts';

interface RequestInFlight {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
}

/** Answers the error: its headers, without those of the connection, and its body. */
export type AnswerUnreadable = (error: ApiError) => { headers: Record<string, string>; body: string };

export class UnreadableRequests {
  readonly #answer: AnswerUnreadable;
  /** The last one of each connection that Node could read the header of. */
  readonly #inFlight = new WeakMap<Socket, RequestInFlight>();
  readonly #ended = new WeakSet<Socket>();

  constructor(answer: AnswerUnreadable) {
    this.#answer = answer;
  }

  take(incoming: IncomingMessage, outgoing: ServerResponse): void {
    this.#inFlight.set(incoming.socket, { incoming, outgoing });
  }

  /** For the event clientError. */
  onClientError(fault: NodeJS.ErrnoException, socket: Socket): void {
    // Nothing that comes behind it can be read either.
    if (this.#ended.has(socket)) return;
    this.#ended.add(socket);
    const error = errorOf(fault);
    if (error === undefined || !socket.writable) {
      socket.destroy(fault);
      return;
    }
    const request = this.#inFlight.get(socket);
    if (request === undefined || request.outgoing.writableFinished) this.#tell(error, socket);
    else if (request.incoming.complete) this.#tellBehind(request.outgoing, error, socket);
    // The header may have come in the same packet, and its application has not begun to read.
    else setImmediate(() => this.#failBody(request, error, socket));
  }

  #failBody({ incoming, outgoing }: RequestInFlight, error: ApiError, socket: Socket): void {
    if (outgoing.headersSent) this.#tellBehind(outgoing, error, socket);
    else if (incoming.listenerCount('error') > 0) incoming.emit('error', error);
    else this.#tell(error, socket);
  }

  /** What stood in the middle of an answer would be taken for a part of it. */
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
    // To close it at once would drop the answer where the client is still sending.
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => clearTimeout(timer));
  }

  /** One with more header lines than may be. */
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

/** Undefined of a connection that failed by itself. */
function errorOf(fault: NodeJS.ErrnoException & { readonly reason?: string }): ApiError | undefined {
  switch (fault.code) {
    case 'HPE_HEADER_OVERFLOW':
      return new ApiError({
        status: 431,
        code: 'header_too_large',
        message: 'The header of the request is longer than 16 KiB; send less of it.',
      });
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new ApiError({
        status: 413,
        code: 'body_too_large',
        message: 'The extensions of a chunk are longer than 16 KiB; send the body without them.',
      });
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ApiError({
        status: 408,
        code: 'request_timeout',
        message:
          'The request has not arrived as a whole in the time there is for that; send it again, faster.',
        retriable: true,
      });
  }
  if (fault.code?.startsWith('HPE_') !== true) return undefined;
  const why = fault.reason === undefined ? '' : `: ${fault.reason}`;
  return new ApiError({
    status: 400,
    code: 'malformed_request',
    message: `The request is no HTTP/1.1${why}.`,
  });
}
