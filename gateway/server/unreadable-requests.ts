/**
 * Answers requests that Node cannot read, or that do not arrive in time. Node reports them for the connection alone, and
 * would answer without a body. A request whose header was read is already with the application, which answers it like any
 * other.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { ApiError } from '../errors/api-error.ts';
import { LINGER_MS } from './connections.ts';

interface RequestInFlight {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
}

/** Makes the answer to an error: its body, and its headers without those of the connection. */
export type AnswerUnreadable = (error: ApiError) => { headers: Record<string, string>; body: string };

export class UnreadableRequests {
  readonly #answer: AnswerUnreadable;
  /** The last request of each connection whose header Node could read. */
  readonly #inFlight = new WeakMap<Socket, RequestInFlight>();
  readonly #ended = new WeakSet<Socket>();

  constructor(answer: AnswerUnreadable) {
    this.#answer = answer;
  }

  take(incoming: IncomingMessage, outgoing: ServerResponse): void {
    this.#inFlight.set(incoming.socket, { incoming, outgoing });
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
    const request = this.#inFlight.get(socket);
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
